//! The address of the master.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, anyhow, bail};
use limo_proto::{Endpoint, SYSTEM_SOCKET};

/// Resolves the address of the master, or of several masters after commas. Without certificates the identity of other machines cannot be checked, so only this
/// machine is allowed.
pub fn endpoint(master: &str) -> anyhow::Result<Endpoint> {
    if let several @ [_, _, ..] = &*Endpoint::list(master) {
        return Ok(Endpoint::any_of(several.iter().map(|one| endpoint(one)).collect::<anyhow::Result<_>>()?)?);
    }
    if Endpoint::is_unix(master) || Endpoint::is_tls(master) {
        return Ok(master.parse()?);
    }
    let addresses = master.to_socket_addrs().map_err(|error| {
        let example = format!("write for example `unix:{SYSTEM_SOCKET}` or `127.0.0.1:6817`");
        match error.kind() {
            // This error comes before the resolver is asked.
            io::ErrorKind::InvalidInput => anyhow!("the master `{master}` is not an address: {example}"),
            _ => anyhow!("the address of the master `{master}` is unknown: {error}: {example}"),
        }
    })?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    match addresses.iter().find(|address| !address.ip().is_loopback()) {
        Some(elsewhere) => bail!(
            "the master `{master}` is at {elsewhere}, not on loopback: without certificates a node connects only to its own machine; use tls://{master}"
        ),
        None => {
            let first = addresses.first().with_context(|| format!("the master `{master}` has no address"))?;
            Ok(Endpoint::Loopback(*first))
        }
    }
}
