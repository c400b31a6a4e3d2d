//! Renews the certificate of the node, with a new key, at two thirds of its life and when the cluster trusts other
//! authorities. The next connection uses the new one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use limo_identity::{Fingerprint, KeyRequest};
use limo_proto::{Credentials, Endpoint, EnrolRequest, KeyBytes, Trusted, enrol, tls_directory};
use tracing::{debug, info, warn};

/// Longest time between two comparisons of the authorities.
const LONGEST: Duration = Duration::from_secs(3600);

/// Shortest time between two attempts.
const SHORTEST: Duration = Duration::from_secs(1);

/// Part of the life of a certificate after which the authorities are compared again, at least every hour.
const COMPARISONS: u32 = 10;

/// Renews the certificate for ever. Does nothing for a master that is not called over TLS.
pub async fn keep(master: Endpoint, trusted: Trusted) {
    let (Endpoint::Tls(_), Some(directory)) = (&master, tls_directory()) else { return };
    // Reason that was logged last.
    let mut told = None;
    loop {
        let pause = match Credentials::read(&directory) {
            Ok(credentials) => {
                let own = credentials.own().clone();
                match follow(&master, &trusted, (&directory, credentials)).await {
                    Ok(()) => told = None,
                    Err(error) => report(&format!("{error:#}"), &mut told),
                }
                own.until.duration_since(own.made).unwrap_or_default() / COMPARISONS
            }
            Err(error) => {
                report(&error.to_string(), &mut told);
                LONGEST
            }
        };
        tokio::time::sleep(pause.clamp(SHORTEST, LONGEST)).await;
    }
}

/// Renews the certificate if it is time, or if the cluster trusts other authorities than this node.
async fn follow(master: &Endpoint, trusted: &Trusted, (directory, credentials): (&Path, Credentials)) -> Result<()> {
    if SystemTime::now() < credentials.own().renewal() {
        let known: Result<BTreeSet<String>, _> =
            credentials.authorities().iter().map(|of| Fingerprint::of(of).map(|print| print.to_string())).collect();
        let found = enrol(master, trusted, EnrolRequest::Authorities).await?.authorities()?;
        if known? == found.into_iter().collect() {
            return Ok(());
        }
        info!("the cluster trusts other authorities");
    }
    renew(master, trusted, directory).await?;
    info!(directory = %directory.display(), "renewed the certificate");
    Ok(())
}

fn report(error: &str, told: &mut Option<String>) {
    if told.as_deref() == Some(error) {
        return debug!(error, "cannot keep the certificate up to date");
    }
    warn!(error, "cannot keep the certificate up to date; retrying");
    *told = Some(error.to_owned());
}

async fn renew(master: &Endpoint, trusted: &Trusted, directory: &Path) -> Result<()> {
    let request = KeyRequest::new()?;
    let key = KeyBytes::try_from(request.request().to_vec())?;
    let renewed = enrol(master, trusted, EnrolRequest::Renew { key }).await?.certificate()?;
    let stored = renewed.write(directory, &request.key_pem());
    stored.with_context(|| format!("cannot store the certificate in {}", directory.display()))
}
