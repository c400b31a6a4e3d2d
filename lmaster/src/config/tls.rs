//! The listener for other machines: `[tls]`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

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
}

/// The listener for callers with certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    pub listen: SocketAddr,
    /// Directory of the master's certificate, the authorities and the revoked serials.
    pub dir: PathBuf,
}

impl TlsLayer {
    pub fn over(self, below: Self) -> Self {
        Self { listen: self.listen.or(below.listen), dir: self.dir.or(below.dir) }
    }

    pub fn resolve(self, state_dir: &Path) -> Option<TlsSettings> {
        let dir = self.dir.unwrap_or_else(|| state_dir.join("tls"));
        self.listen.map(|listen| TlsSettings { listen, dir })
    }
}
