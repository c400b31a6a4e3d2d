//! The address of a master: a Unix socket, a port on loopback, or hosts that are called over TLS. Parses and prints;
//! opens nothing.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// The prefix of a Unix socket's path in the text of an endpoint.
pub const UNIX_PREFIX: &str = "unix:";

/// The prefix of hosts that are called over TLS.
pub const TLS_PREFIX: &str = "tls://";

/// Most hosts of one endpoint.
const HOSTS_LIMIT: usize = 16;

/// Longest path of a Unix socket in bytes: the kernel's `sun_path` less its closing zero.
const PATH_LIMIT: usize = 107;

/// An address of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An absolute path of at most 107 bytes.
    Unix(PathBuf),
    /// An address on loopback.
    Loopback(SocketAddr),
    /// Hosts that are called over TLS, in order: 1 to 16 of `HOST:PORT`. Names are resolved at each call.
    Tls(Vec<String>),
    /// Several endpoints of this machine, 2 to 16: the masters of one cluster, of which one leads.
    AnyOf(Vec<Endpoint>),
}

/// Errors in the text of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum EndpointError {
    #[error("`{0}` is not an endpoint: write unix:/PATH, tls://HOST:PORT or an address such as 127.0.0.1:6817")]
    Syntax(String),
    #[error("the socket path `{}` is relative: write it from / on", .0.display())]
    Relative(PathBuf),
    #[error("the socket path `{}` has {} bytes: the kernel allows {PATH_LIMIT}", .0.display(), .0.as_os_str().len())]
    TooLong(PathBuf),
    #[error("{0} is not on this machine: without certificates Limo speaks only over loopback; use tls://{0}")]
    NotLoopback(SocketAddr),
    #[error("`{0}` does not name the hosts of a master: write tls://HOST:PORT, and further hosts after commas")]
    Hosts(String),
    #[error("an endpoint has at most {HOSTS_LIMIT} hosts, and this one has {0}")]
    TooManyHosts(usize),
    #[error("an address has at most {HOSTS_LIMIT} masters, and this one has {0}")]
    TooManyMasters(usize),
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
        text.starts_with(UNIX_PREFIX) || (text.contains('/') && !Self::is_tls(text))
    }

    /// Returns true if `text` names hosts that are called over TLS.
    pub fn is_tls(text: &str) -> bool {
        text.starts_with(TLS_PREFIX)
    }

    /// Splits a list of endpoints of this machine. The hosts after `tls://` are one endpoint.
    pub fn list(text: &str) -> Vec<&str> {
        if Self::is_tls(text) { vec![text] } else { text.split(',').collect() }
    }

    /// Makes one endpoint of several.
    ///
    /// # Errors
    /// If there are more than 16.
    pub fn any_of(mut endpoints: Vec<Self>) -> Result<Self, EndpointError> {
        match (endpoints.pop(), endpoints.len()) {
            (Some(only), 0) => Ok(only),
            (Some(last), 1..HOSTS_LIMIT) => {
                endpoints.push(last);
                Ok(Self::AnyOf(endpoints))
            }
            (Some(_), before) => Err(EndpointError::TooManyMasters(before + 1)),
            (None, _) => Err(EndpointError::Syntax(String::new())),
        }
    }

    /// Returns the endpoints of all masters.
    pub(crate) fn each(&self) -> Vec<Self> {
        match self {
            Self::AnyOf(endpoints) => endpoints.clone(),
            Self::Tls(hosts) => hosts.iter().map(|host| Self::Tls(vec![host.clone()])).collect(),
            one => vec![one.clone()],
        }
    }

    fn tls(hosts: &str) -> Result<Self, EndpointError> {
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.len() > HOSTS_LIMIT {
            return Err(EndpointError::TooManyHosts(hosts.len()));
        }
        let is_host = |text: &&str| {
            text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        match hosts.iter().find(|host| !is_host(host)) {
            Some(wrong) => Err(EndpointError::Hosts((*wrong).to_owned())),
            None => Ok(Self::Tls(hosts.into_iter().map(str::to_owned).collect())),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let several @ [_, _, ..] = &*Self::list(text) {
            return Self::any_of(several.iter().map(|one| one.parse()).collect::<Result<_, _>>()?);
        }
        if Self::is_unix(text) {
            return Self::unix(Path::new(text.strip_prefix(UNIX_PREFIX).unwrap_or(text)));
        }
        if let Some(hosts) = text.strip_prefix(TLS_PREFIX) {
            return Self::tls(hosts);
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
            Self::Tls(hosts) => write!(f, "{TLS_PREFIX}{}", hosts.join(",")),
            Self::AnyOf(endpoints) => {
                for (place, endpoint) in endpoints.iter().enumerate() {
                    write!(f, "{}{endpoint}", if place == 0 { "" } else { "," })?;
                }
                Ok(())
            }
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
        let hosts = "tls://m1.example:6818,[2001:db8::1]:6818";
        let tls = Endpoint::Tls(vec!["m1.example:6818".to_owned(), "[2001:db8::1]:6818".to_owned()]);
        assert_eq!(hosts.parse(), Ok(tls.clone()));
        assert_eq!(tls.to_string(), hosts);
    }

    #[test]
    fn several_masters_of_a_machine_are_one_endpoint() {
        let text = "unix:/a.sock,unix:/b.sock,127.0.0.1:6817";
        let several: Endpoint = text.parse().expect("three endpoints");
        assert!(matches!(&several, Endpoint::AnyOf(each) if each.len() == 3), "{several:?}");
        assert_eq!((several.to_string().as_str(), several.each().len()), (text, 3));
        let hosts: Endpoint = "tls://a:1,b:2".parse().expect("two hosts");
        assert_eq!(hosts.each(), [Endpoint::Tls(vec!["a:1".into()]), Endpoint::Tls(vec!["b:2".into()])]);
        assert!("unix:/a.sock,".parse::<Endpoint>().is_err());
        let many = vec!["/a.sock"; 17].join(",");
        assert_eq!(many.parse::<Endpoint>(), Err(EndpointError::TooManyMasters(17)));
    }

    #[test]
    fn hosts_of_tls_have_ports() {
        for bad in ["", "host", "host:0", ":1", "host:1,", "host:65536", "a/b:1"] {
            assert!(matches!(format!("tls://{bad}").parse::<Endpoint>(), Err(EndpointError::Hosts(_))), "{bad}");
        }
        let hosts = |count: usize| format!("tls://{}", vec!["h:1"; count].join(","));
        assert!(hosts(16).parse::<Endpoint>().is_ok());
        assert_eq!(hosts(17).parse::<Endpoint>(), Err(EndpointError::TooManyHosts(17)));
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        let refused = |text: &str| text.parse::<Endpoint>().expect_err(text).to_string();
        assert_eq!(refused("unix:here"), "the socket path `here` is relative: write it from / on");
        assert_eq!(
            refused("192.0.2.1:1"),
            "192.0.2.1:1 is not on this machine: without certificates Limo speaks only over loopback; use tls://192.0.2.1:1"
        );
        let long = format!("/{}", "a".repeat(107));
        assert!(refused(&long).ends_with("has 108 bytes: the kernel allows 107"));
        assert!("/".to_owned().parse::<Endpoint>().is_ok() && long[..107].parse::<Endpoint>().is_ok());
        assert!(refused("nowhere").starts_with("`nowhere` is not an endpoint"));
    }
}
