//! `lq web`: opens the page of the master in a browser, or says how to reach it.

use std::env;
use std::process::{Command, Stdio};

use limo_client::json::SCHEMA;
use limo_client::{Failure, Master, answer, answer_json, exit};
use limo_proto::{WebQuery, WebReport};
use serde::Serialize;

#[derive(Serialize)]
struct WebJson<'a> {
    schema: u32,
    url: &'a str,
    /// Command that makes the page reachable from another machine.
    ssh: &'a str,
}

/// Prints the address, and opens it if a screen of this machine is there.
///
/// # Errors
/// If the master cannot be asked, or serves no page.
pub async fn run(act: bool, json: bool, master: &Master) -> Result<u8, Failure> {
    let WebReport { address, code } = master.ask(WebQuery { act }).await?;
    let Some(address) = address else {
        let failure = Failure::new("the master serves no page");
        return Err(failure.hint("an operator sets `web = \"127.0.0.1:8817\"` in lmaster.toml and restarts lmaster"));
    };
    let url = url(&address, code.as_deref());
    let ssh = ssh(&address, &host(master));
    if json {
        answer_json(&WebJson { schema: SCHEMA, url: &url, ssh: &ssh })?;
        return Ok(exit::DONE);
    }
    let is_far = master.address().starts_with("tls://") || env::var_os("SSH_CONNECTION").is_some();
    let note = if is_far { format!("{url}\nfrom your own machine, first: {ssh}\n") } else { format!("{url}\n") };
    answer(&note)?;
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    if has_screen && !is_far {
        let mut browser = Command::new("xdg-open");
        // Without a browser, the printed address remains.
        let _ = browser.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
    Ok(exit::DONE)
}

fn url(address: &str, code: Option<&str>) -> String {
    match code {
        Some(code) => format!("http://{address}/act?code={code}"),
        None => format!("http://{address}/"),
    }
}

/// Returns the command that forwards the port of the page.
fn ssh(address: &str, host: &str) -> String {
    let port = address.rsplit(':').next().unwrap_or_default();
    format!("ssh -L {port}:{address} {host}")
}

/// Returns the master's machine as far as this program knows it.
fn host(master: &Master) -> String {
    let address = master.address();
    match address.strip_prefix("tls://") {
        Some(hosts) => {
            let first = hosts.split(',').next().unwrap_or_default();
            first.rsplit_once(':').map_or(first, |(host, _)| host).to_owned()
        }
        None => nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or("HOST".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_forwarded_from_where_the_page_is() {
        assert_eq!(ssh("127.0.0.1:8817", "head"), "ssh -L 8817:127.0.0.1:8817 head");
        assert_eq!(ssh("[::1]:80", "head"), "ssh -L 80:[::1]:80 head");
        assert_eq!(url("127.0.0.1:8817", None), "http://127.0.0.1:8817/");
        assert_eq!(url("127.0.0.1:8817", Some("ab")), "http://127.0.0.1:8817/act?code=ab");
        let host = |address: &str| host(&Master::at(address).expect("an address"));
        assert_eq!(host("tls://head.example:6818,other:6818"), "head.example");
    }
}
