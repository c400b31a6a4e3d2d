//! `lconf cert`: issues, lists and revokes certificates, with the files of the authority.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use limo_authority::{Directory, Issued, Wish};
use limo_client::{Align, AskError, Clock, Failure, Master, NewKey, Table, answer, exit};
use limo_identity::{CertifiedRole, Fingerprint, Serial};
use limo_model::{Span, Time};
use limo_proto::{Credentials, EnrolRequest, tls_directory};

use crate::authority::{AuthorityArg, failure};
use crate::cluster::store;

#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// Make a key and a certificate, in a directory to be copied to its owner
    Issue {
        /// Role: node, user, operator, read-only, submit-host, or master
        role: CertifiedRole,
        /// Name of the node or user
        name: String,
        /// Directory for the files
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Life, if shorter than that of the role: 30d for machines, 24h for users and operators, 90d for masters
        #[arg(long, value_name = "SPAN")]
        life: Option<Span>,
        #[command(flatten)]
        authority: AuthorityArg,
    },
    /// Renew the certificate of this machine, a submit host or one that only asks; a node renews its own
    Renew,
    /// Replace the authority: a new one signs from now on, and both are trusted until --finish
    Rotate {
        /// End the rotation: trust only the new authority
        #[arg(long)]
        finish: bool,
        /// End it even if some have no certificate of the new authority, and can no longer connect
        #[arg(long, requires = "finish")]
        force: bool,
        #[command(flatten)]
        authority: AuthorityArg,
    },
    /// List the certificates that were issued
    List {
        #[command(flatten)]
        authority: AuthorityArg,
    },
    /// Revoke certificates: the master closes their connections within seconds and accepts no more
    Revoke {
        /// Serials, or ROLE/NAME for all certificates of an owner
        #[arg(required = true, value_name = "SERIAL|ROLE/NAME")]
        which: Vec<String>,
        #[command(flatten)]
        authority: AuthorityArg,
    },
}

/// Runs a command.
///
/// # Errors
/// If a file of the authority cannot be used, a certificate is unknown, or the master refuses.
pub async fn run(command: &CertCommand, master: &Master) -> Result<u8, Failure> {
    match command {
        CertCommand::Issue { role, name, out, life, authority } => {
            let life = life.map(|life| Duration::from_millis(u64::try_from(life.ms()).unwrap_or(0)));
            let directory = authority.directory()?;
            // During a rotation, callers check the certificate of the master by the former authority.
            let opened = match role {
                CertifiedRole::Master => directory.open_for_master(),
                _ => directory.open(),
            };
            let opened = opened.map_err(failure)?;
            let wish = Wish { role: *role, name, life };
            let issued = directory.issue(&opened, wish, out, SystemTime::now()).map_err(failure)?;
            let end = Clock::system().show_full(end(&issued));
            answer(&format!("{}\nserial {}\nvalid until {end}\n", issued.identity, issued.serial))?;
        }
        CertCommand::Renew => renew(master).await?,
        CertCommand::Rotate { finish, force, authority } => rotate(&authority.directory()?, *finish, *force)?,
        CertCommand::List { authority } => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            answer(&table(&authority.directory()?.issued().map_err(failure)?, now, &Clock::system()))?;
        }
        CertCommand::Revoke { which, authority } => {
            let directory = authority.directory()?;
            let issued = directory.issued().map_err(failure)?;
            let serials: Result<Vec<Vec<Serial>>, Failure> = which.iter().map(|text| named(text, &issued)).collect();
            directory.revoke(&serials?.concat()).map_err(failure)?;
        }
    }
    Ok(exit::DONE)
}

/// Gets another certificate of the same name, for a new key.
async fn renew(master: &Master) -> Result<(), Failure> {
    let directory = tls_directory();
    let directory = directory.ok_or_else(|| Failure::new("this user has no home").hint("set LIMO_TLS_DIR"))?;
    let new = NewKey::at(directory)?;
    let answer = master.enrol(EnrolRequest::Renew { key: new.bytes()? }).await?;
    store(&answer.certificate().map_err(AskError::from)?, &new)
}

/// Begins a rotation, or ends it.
fn rotate(directory: &Directory, finish: bool, force: bool) -> Result<(), Failure> {
    let now = SystemTime::now();
    if !finish {
        let new = directory.rotate(now).map_err(failure)?;
        let fingerprint = Fingerprint::of(new.certificate()).map_err(Failure::new)?;
        return answer(&format!(
            "fingerprint {fingerprint}\nnodes renew their certificates within an hour; then: lconf cert rotate --finish\n"
        ));
    }
    let own = Credentials::read(directory.path()).map_err(Failure::new)?.own().clone();
    let life = own.until.duration_since(own.made).ok();
    directory.finish_rotation(own.identity.name(), life, force, now).map_err(failure)
}

fn end(issued: &Issued) -> Time {
    Time::from_unix_ms(i64::try_from(issued.until).unwrap_or(i64::MAX / 1000).saturating_mul(1000))
}

fn table(issued: &[(Issued, bool)], now: u64, clock: &Clock) -> String {
    let columns = ["ROLE", "NAME", "SERIAL", "VALID UNTIL", "STATE"];
    let mut table = Table::new(&columns.map(|title| (title, Align::Left)));
    for (issued, is_revoked) in issued {
        let state = match (is_revoked, !issued.is_valid(now)) {
            (true, _) => "revoked",
            (false, true) => "expired",
            (false, false) => "valid",
        };
        let (role, name) = (issued.identity.role().to_string(), issued.identity.name().to_owned());
        table.row([role, name, issued.serial.to_string(), clock.show_full(end(issued)), state.to_owned()]);
    }
    table.render()
}

/// Returns the serials that a word names and that are not revoked.
fn named(text: &str, issued: &[(Issued, bool)]) -> Result<Vec<Serial>, Failure> {
    let is_named = |issued: &Issued| match text.split_once('/') {
        Some((role, name)) => issued.identity.role().name() == role && issued.identity.name() == name,
        None => issued.serial.to_string() == text,
    };
    let found: Vec<&(Issued, bool)> = issued.iter().filter(|(issued, _)| is_named(issued)).collect();
    if found.is_empty() {
        let message = format!("the authority has issued no certificate `{text}`");
        return Err(Failure::new(message).hint("see `lconf cert list`"));
    }
    Ok(found.into_iter().filter(|(_, is_revoked)| !is_revoked).map(|(issued, _)| issued.serial).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(serial: u8, identity: &str, until: u64) -> Issued {
        let identity = format!("limo://00000000000000000000000000000000/{identity}");
        Issued {
            serial: Serial([serial; 16]),
            identity: identity.parse().expect("an identity"),
            until,
            authority: String::new(),
        }
    }

    #[test]
    fn certificates_are_named_by_serial_or_owner() {
        let all = [(issued(1, "node/n1", 9), true), (issued(2, "node/n1", 9), false), (issued(3, "user/n1", 9), false)];
        assert_eq!(named("node/n1", &all), Ok(vec![Serial([2; 16])]));
        assert_eq!(named(&"03".repeat(16), &all), Ok(vec![Serial([3; 16])]));
        assert_eq!(named(&"01".repeat(16), &all), Ok(vec![]), "it is revoked already");
        assert!(named("node/n2", &all).is_err());
    }

    #[test]
    fn the_list_says_which_certificates_are_valid() {
        let all =
            [(issued(1, "node/n1", 60), false), (issued(2, "node/n2", 61), false), (issued(3, "user/a", 61), true)];
        let text = table(&all, 60, &Clock::utc(Time::from_unix_ms(60_000)));
        let states: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(states, ["expired", "valid", "revoked"]);
    }
}
