//! The listener for other machines: `[tls]`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use limo_model::{Span, as_text};
use serde::Deserialize;

/// Shortest life of certificates. A third of it remains after the first attempt to renew one.
const SHORTEST_LIFE: Span = Span::from_secs(3);

/// The same settings in flags, variables and the file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsLayer {
    /// Also listen on this address for callers with certificates, also of other machines; for port 0, DIR/tls-address
    /// has the chosen port [default: none]
    #[arg(id = "tls_listen", long = "tls-listen", value_name = "ADDRESS:PORT", env = "LIMO_TLS_LISTEN")]
    listen: Option<SocketAddr>,
    /// Read the certificates of the cluster from this directory [default: tls in the state directory]
    #[arg(id = "tls_dir", long = "tls-dir", value_name = "DIR", env = "LIMO_TLS_DIR")]
    dir: Option<PathBuf>,
    /// Longest life of certificates that this master issues and renews [default: 90d for itself, 30d for machines, 24h
    /// for users]
    #[arg(id = "tls_life", long = "tls-life", value_name = "SPAN", env = "LIMO_TLS_LIFE")]
    #[serde(with = "as_text::option")]
    life: Option<Span>,
}

/// The listener for callers with certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    pub listen: SocketAddr,
    /// Directory of the master's certificate, the authorities and the revoked serials.
    pub dir: PathBuf,
    /// Longest life of issued certificates, if it is not that of their roles.
    pub life: Option<Duration>,
}

impl TlsLayer {
    pub fn over(self, below: Self) -> Self {
        Self { listen: self.listen.or(below.listen), dir: self.dir.or(below.dir), life: self.life.or(below.life) }
    }

    /// Returns the settings, if there is an address.
    ///
    /// # Errors
    /// If the life is too short for renewals.
    pub fn resolve(self, state_dir: &Path) -> Result<Option<TlsSettings>> {
        let dir = self.dir.unwrap_or_else(|| state_dir.join("tls"));
        if let Some(life) = self.life {
            ensure!(life >= SHORTEST_LIFE, "life of [tls] is {life}: it must be at least {SHORTEST_LIFE}");
        }
        // The life is positive.
        let life = self.life.map(|life| Duration::from_millis(u64::try_from(life.ms()).unwrap_or_default()));
        Ok(self.listen.map(|listen| TlsSettings { listen, dir, life }))
    }
}
