//! The right of a caller with a certificate to stay: until the certificate ends or is revoked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use limo_authority::REVOKED_FILE;
use limo_files::Stamp;
use limo_identity::{Certificate, Serial};
use tokio::sync::watch;

/// Most revoked serials.
const REVOKED_LIMIT: usize = 100_000;

/// Interval between two looks at the file of revoked serials.
const EVERY: Duration = Duration::from_secs(1);

/// Longest sleep until the end of a certificate, after which the clock is read again: it may have been set.
const CLOCK_EVERY: Duration = Duration::from_secs(30);

type Serials = Arc<BTreeSet<Serial>>;

/// The serials that are revoked now.
#[derive(Debug, Clone)]
pub struct Revoked(watch::Receiver<Serials>);

impl Revoked {
    /// Reads the file of revoked serials in `dir`, and follows its changes within 1 s.
    ///
    /// # Errors
    /// If the file has a line that is not a serial.
    pub fn follow(dir: &Path) -> Result<Self> {
        let path = dir.join(REVOKED_FILE);
        let mut last = Stamp::of(&path).ok();
        let (tell, serials) = watch::channel(Arc::new(read(&path)?));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let now = Stamp::of(&path).ok();
                if tell.is_closed() {
                    return;
                }
                if now == last {
                    continue;
                }
                match read(&path) {
                    Ok(serials) => drop(tell.send(Arc::new(serials))),
                    Err(error) => {
                        tracing::error!(error = format!("{error:#}"), "the revoked certificates stay unchanged");
                    }
                }
                last = now;
            }
        });
        Ok(Self(serials))
    }

    /// Returns true if the serial is revoked.
    pub fn has(&self, serial: Serial) -> bool {
        self.0.borrow().contains(&serial)
    }
}

fn read(path: &Path) -> Result<BTreeSet<Serial>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let serials: Result<BTreeSet<Serial>, _> = lines.map(str::parse).collect();
    let serials = serials.with_context(|| format!("cannot use {}", path.display()))?;
    ensure!(serials.len() <= REVOKED_LIMIT, "{} has more than {REVOKED_LIMIT} serials", path.display());
    Ok(serials)
}

/// The right of one caller to stay.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The caller's certificate.
    pub certificate: Certificate,
    /// The caller's address.
    pub from: String,
    revoked: Revoked,
}

impl Pass {
    pub fn new(certificate: Certificate, from: String, revoked: Revoked) -> Self {
        Self { certificate, from, revoked }
    }

    /// Returns the reason why the caller may no longer stay, if there is one at `now`.
    pub fn over(&self, now: SystemTime) -> Option<&'static str> {
        if self.revoked.has(self.certificate.serial) {
            Some("the certificate is revoked")
        } else if self.certificate.until <= now {
            Some("the certificate has expired")
        } else {
            None
        }
    }

    /// Waits until the caller may no longer stay, and returns the reason. Safe to cancel.
    pub async fn ended(&mut self) -> &'static str {
        loop {
            let now = SystemTime::now();
            if let Some(reason) = self.over(now) {
                return reason;
            }
            let left = self.certificate.until.duration_since(now).unwrap_or_default();
            tokio::select! {
                // Without its sender the master is about to end.
                Ok(()) = self.revoked.0.changed() => {}
                () = tokio::time::sleep(left.min(CLOCK_EVERY)) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revoked_serials_are_lines() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(REVOKED_FILE);
        assert_eq!(read(&path).expect("no file"), BTreeSet::new());
        let serials = ["00000000000000000000000000000001", "ffffffffffffffffffffffffffffffff"];
        std::fs::write(&path, format!("# comment\n{}\n\n {} \n", serials[0], serials[1])).expect("written");
        let expected: BTreeSet<Serial> = [1, u128::MAX].map(|number| Serial(number.to_be_bytes())).into();
        assert_eq!(read(&path).expect("serials"), expected);
        std::fs::write(&path, "1\n").expect("written");
        assert!(format!("{:#}", read(&path).expect_err("short")).contains("`1` is not a serial"));
    }

    #[tokio::test]
    async fn a_revoked_or_expired_certificate_ends_its_connection() {
        let (tell, serials) = watch::channel(Serials::default());
        let certificate = |until| Certificate {
            identity: "limo://00000000000000000000000000000000/node/n1".parse().expect("an identity"),
            serial: Serial([7; 16]),
            made: SystemTime::UNIX_EPOCH,
            until,
        };
        let pass = |until| Pass::new(certificate(until), String::new(), Revoked(serials.clone()));
        let now = SystemTime::now();
        assert_eq!(pass(now).ended().await, "the certificate has expired");
        let mut valid = pass(now + Duration::from_secs(3600));
        assert_eq!(valid.over(now), None);
        assert_eq!(valid.over(now + Duration::from_secs(3600)), Some("the certificate has expired"));
        let waiting = tokio::spawn(async move { valid.ended().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        tell.send(Arc::new([Serial([7; 16])].into())).expect("followed");
        assert_eq!(waiting.await.expect("no panic"), "the certificate is revoked");
    }
}
