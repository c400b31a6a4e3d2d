//! Renews the certificate of this master at two thirds of its life, if the authority is on this machine. The next
//! handshake uses the new one.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use limo_authority::{Directory, Wish};
use limo_identity::CertifiedRole;
use limo_proto::Credentials;

/// Longest sleep, after which the certificate and the clock are read again: both may have changed.
const LONGEST: Duration = Duration::from_secs(3600);

/// Shortest time between two attempts.
const SHORTEST: Duration = Duration::from_secs(1);

/// Renews the certificate for ever. `life` is the longest one, if it is not that of a master.
pub async fn keep(directory: Directory, life: Option<Duration>) {
    if !directory.has_authority() {
        return tracing::info!("the authority is not on this machine: renew the certificate of this master there");
    }
    loop {
        let pause = match Credentials::read(directory.path()) {
            Ok(credentials) => {
                let (now, own) = (SystemTime::now(), credentials.own().clone());
                match own.renewal().duration_since(now) {
                    Ok(left) if !left.is_zero() => left,
                    _ => {
                        let (place, name) = (directory.clone(), own.identity.name().to_owned());
                        let renewed = tokio::task::spawn_blocking(move || renew(&place, &name, life)).await;
                        match renewed.map_err(anyhow::Error::from).flatten() {
                            Ok(()) => {
                                tracing::info!("renewed the certificate of this master");
                                continue;
                            }
                            Err(error) => {
                                let error = format!("{error:#}");
                                tracing::error!(error, "cannot renew the certificate of this master; retrying");
                                // More often towards the end.
                                own.until.duration_since(now).unwrap_or_default() / 10
                            }
                        }
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot use the certificate of this master");
                LONGEST
            }
        };
        tokio::time::sleep(pause.clamp(SHORTEST, LONGEST)).await;
    }
}

fn renew(directory: &Directory, name: &str, life: Option<Duration>) -> Result<()> {
    let authority = directory.open_for_master()?;
    let wish = Wish { role: CertifiedRole::Master, name, life };
    directory.issue(&authority, wish, directory.path(), SystemTime::now()).context("cannot issue it")?;
    Ok(())
}
