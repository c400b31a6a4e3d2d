//! The address of a master: a Unix socket or a port on loopback. Parses and prints; opens nothing.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// The prefix of a Unix socket's path in the text of an endpoint.
pub const UNIX_PREFIX: &str = "unix:";

/// Longest path of a Unix socket in bytes: the kernel's `sun_path` less its closing zero.
const PATH_LIMIT: usize = 107;

/// An address of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An absolute path of at most 107 bytes.
    Unix(PathBuf),
    /// An address on loopback.
    Loopback(SocketAddr),
}

/// Errors in the text of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum EndpointError {
    #[error("`{0}` is not an endpoint: write unix:/PATH or an address such as 127.0.0.1:6817")]
    Syntax(String),
    #[error("the socket path `{}` is relative: write it from / on", .0.display())]
    Relative(PathBuf),
    #[error("the socket path `{}` has {} bytes: the kernel allows {PATH_LIMIT}", .0.display(), .0.as_os_str().len())]
    TooLong(PathBuf),
    #[error("{0} is not on this machine: without certificates Limo speaks only over loopback")]
    NotLoopback(SocketAddr),
}

impl Endpoint {
    /// Makes the endpoint of a Unix socket.
    ///
    /// # Errors
    /// If the path is relative or longer than the kernel allows.
    pub fn unix(path: &Path) -> Result<Self, EndpointError> {
        if !path.is_absolute() {
            return Err(EndpointError::Relative(path.to_owned()));
        }
        if path.as_os_str().len() > PATH_LIMIT {
            return Err(EndpointError::TooLong(path.to_owned()));
        }
        Ok(Self::Unix(path.to_owned()))
    }

    /// Returns true if `text` names a Unix socket rather than a host and a port.
    pub fn is_unix(text: &str) -> bool {
        text.starts_with(UNIX_PREFIX) || text.contains('/')
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if Self::is_unix(text) {
            return Self::unix(Path::new(text.strip_prefix(UNIX_PREFIX).unwrap_or(text)));
        }
        let address: SocketAddr = text.parse().map_err(|_| EndpointError::Syntax(text.to_owned()))?;
        if address.ip().is_loopback() { Ok(Self::Loopback(address)) } else { Err(EndpointError::NotLoopback(address)) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
            Self::Loopback(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_paths_or_loopback_addresses() {
        let unix = Endpoint::Unix("/run/limo/master.sock".into());
        assert_eq!("unix:/run/limo/master.sock".parse(), Ok(unix.clone()));
        assert_eq!("/run/limo/master.sock".parse(), Ok(unix.clone()));
        assert_eq!(unix.to_string().parse(), Ok(unix));
        let loopback: Endpoint = "[::1]:6817".parse().expect("an address");
        assert_eq!(loopback.to_string(), "[::1]:6817");
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        let refused = |text: &str| text.parse::<Endpoint>().expect_err(text).to_string();
        assert_eq!(refused("unix:here"), "the socket path `here` is relative: write it from / on");
        assert_eq!(
            refused("192.0.2.1:1"),
            "192.0.2.1:1 is not on this machine: without certificates Limo speaks only over loopback"
        );
        let long = format!("/{}", "a".repeat(107));
        assert!(refused(&long).ends_with("has 108 bytes: the kernel allows 107"));
        assert!("/".to_owned().parse::<Endpoint>().is_ok() && long[..107].parse::<Endpoint>().is_ok());
        assert!(refused("nowhere").starts_with("`nowhere` is not an endpoint"));
    }
}
