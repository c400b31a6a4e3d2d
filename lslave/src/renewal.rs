//! Renews the certificate of the node at two thirds of its life, with a new key. The next connection uses the new one.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use limo_identity::KeyRequest;
use limo_proto::{Credentials, Endpoint, EnrolRequest, KeyBytes, Trusted, enrol, tls_directory};
use tracing::{debug, info, warn};

/// Longest sleep, after which the files and the clock are read again: both may have changed.
const LONGEST: Duration = Duration::from_secs(3600);

/// Shortest time between two attempts.
const SHORTEST: Duration = Duration::from_secs(1);

/// Renews the certificate for ever. Does nothing for a master that is not called over TLS.
pub async fn keep(master: Endpoint, trusted: Trusted) {
    let (Endpoint::Tls(_), Some(directory)) = (&master, tls_directory()) else { return };
    // Reason that was logged last.
    let mut told = None;
    loop {
        let pause = match Credentials::read(&directory) {
            Ok(credentials) => {
                let (now, own) = (SystemTime::now(), credentials.own().clone());
                match own.renewal().duration_since(now) {
                    Ok(left) if !left.is_zero() => left.min(LONGEST),
                    _ => match renew(&master, &trusted, &directory).await {
                        Ok(()) => {
                            info!(directory = %directory.display(), "renewed the certificate");
                            told = None;
                            continue;
                        }
                        Err(error) => {
                            report(&format!("{error:#}"), &mut told);
                            // More often towards the end.
                            own.until.duration_since(now).unwrap_or_default() / 10
                        }
                    },
                }
            }
            Err(error) => {
                report(&error.to_string(), &mut told);
                LONGEST
            }
        };
        tokio::time::sleep(pause.clamp(SHORTEST, LONGEST)).await;
    }
}

fn report(error: &str, told: &mut Option<String>) {
    if told.as_deref() == Some(error) {
        return debug!(error, "cannot renew the certificate");
    }
    warn!(error, "cannot renew the certificate; retrying");
    *told = Some(error.to_owned());
}

async fn renew(master: &Endpoint, trusted: &Trusted, directory: &Path) -> Result<()> {
    let request = KeyRequest::new()?;
    let key = KeyBytes::try_from(request.request().to_vec())?;
    let renewed = enrol(master, trusted, EnrolRequest::Renew { key }).await?.certificate()?;
    let stored = renewed.write(directory, &request.key_pem());
    stored.with_context(|| format!("cannot store the certificate in {}", directory.display()))
}
