//! Finds the master's address, and the users who may run the master. Opens no connection.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use limo_proto::{Endpoint, Newest, SYSTEM_SOCKET, ServiceUserError, Trusted, user_socket};
use thiserror::Error;

use crate::master::AskError;

pub(crate) const EXAMPLE_ADDRESS: &str = "127.0.0.1:6817";

/// Options that name the master.
#[derive(Debug, Clone, clap::Args)]
pub struct MasterArg {
    /// Address of the master
    #[arg(id = "master", long, env = "LIMO_MASTER", value_name = "ENDPOINT", hide_env_values = true)]
    #[arg(global = true, help_heading = "General")]
    address: Option<Address>,
    /// Also trust a master that runs as this user
    #[arg(long, env = "LIMO_MASTER_USER", value_name = "USER", hide_env_values = true, value_parser = service_user)]
    #[arg(global = true, help_heading = "General")]
    master_user: Option<(String, Trusted)>,
}

fn service_user(text: &str) -> Result<(String, Trusted), ServiceUserError> {
    Ok((text.to_owned(), Trusted::with_service_user(Some(text))?))
}

/// Address of a master as users write it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    /// A Unix socket, or hosts that are called over TLS.
    Fixed(Endpoint),
    /// `HOST:PORT`; the name is resolved at each call.
    Host(String),
    /// Several masters of one cluster, of which one leads.
    Several(Vec<Address>),
}

/// Error of a text that is not an address of a master.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not an address: write unix:/PATH, tls://HOST:PORT or HOST:PORT, for example {EXAMPLE_ADDRESS}")]
pub struct AddressError {
    text: String,
}

impl FromStr for Address {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError { text: text.to_owned() };
        if let several @ [_, _, ..] = &*Endpoint::list(text) {
            let each: Result<Vec<Self>, _> = several.iter().map(|one| one.parse()).collect();
            return each.map(Self::Several).map_err(|_| wrong());
        }
        if Endpoint::is_unix(text) || Endpoint::is_tls(text) {
            return text.parse().map(Self::Fixed).map_err(|_| wrong());
        }
        let parts = text.rsplit_once(':');
        match parts.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)) {
            Some(_) => Ok(Self::Host(text.to_owned())),
            None => Err(wrong()),
        }
    }
}

impl Address {
    fn text(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.to_string(),
            Self::Host(text) => text.clone(),
            Self::Several(each) => each.iter().map(Self::text).collect::<Vec<_>>().join(","),
        }
    }

    /// Returns the endpoints, in order.
    async fn endpoints(&self) -> Result<Vec<Endpoint>, AskError> {
        let text = match self {
            Self::Fixed(endpoint) => return Ok(vec![endpoint.clone()]),
            Self::Host(text) => text,
            Self::Several(each) => {
                let mut endpoints = Vec::new();
                for address in each {
                    endpoints.extend(Box::pin(address.endpoints()).await?);
                }
                return Ok(vec![Endpoint::any_of(endpoints)?]);
            }
        };
        let lookup = |source| AskError::Lookup { address: text.clone(), source };
        let found = tokio::net::lookup_host(text).await.map_err(lookup)?;
        let local = |address: std::net::SocketAddr| match address.ip().is_loopback() {
            true => Ok(Endpoint::Loopback(address)),
            false => Err(AskError::NotLoopback { address: text.clone(), found: address }),
        };
        found.map(local).collect()
    }
}

impl MasterArg {
    /// Returns the given master, or the default one.
    pub fn master(&self) -> Master {
        Master {
            address: self.address.clone(),
            user: self.master_user.clone(),
            settled: Arc::default(),
            newest: Arc::default(),
        }
    }

    /// Returns the address of the given master as users write it.
    pub fn given(&self) -> Option<String> {
        self.address.as_ref().map(|_| self.master().address())
    }
}

/// Master at an address, or the default one of this user or machine. It does not change after its first answer.
#[derive(Debug, Clone)]
pub struct Master {
    address: Option<Address>,
    user: Option<(String, Trusted)>,
    settled: Arc<OnceLock<Endpoint>>,
    newest: Arc<Mutex<Newest>>,
}

impl Master {
    /// Makes a master at an address.
    ///
    /// # Errors
    /// [`AddressError`] if the text is not an address.
    pub fn at(text: &str) -> Result<Self, AddressError> {
        Ok(Self { address: Some(text.parse()?), user: None, settled: Arc::default(), newest: Arc::default() })
    }

    /// Returns the address for messages: the given one, or the socket in use.
    pub fn address(&self) -> String {
        match (&self.address, self.settled.get()) {
            (Some(address), _) => address.text(),
            (None, Some(endpoint)) => endpoint.to_string(),
            (None, None) => default_endpoint().map_or_else(|error| error.to_string(), |endpoint| endpoint.to_string()),
        }
    }

    /// Returns the options with which another client finds the same master.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--master".to_owned(), self.address()];
        if let Some((user, _)) = &self.user {
            arguments.extend(["--master-user".to_owned(), user.clone()]);
        }
        arguments
    }

    pub(crate) fn trusted(&self) -> Trusted {
        self.user.as_ref().map_or_else(Trusted::own, |(_, trusted)| *trusted)
    }

    /// Returns the newest master that this program has met.
    pub(crate) fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the default socket that answered, so that later calls go to the same master.
    pub(crate) fn settle(&self, endpoint: Endpoint) {
        if self.address.is_none() {
            // This fails if an endpoint was set before, which is then the same.
            let _ = self.settled.set(endpoint);
        }
    }

    /// Returns the endpoints to call, in order.
    ///
    /// # Errors
    /// If the host is unknown or is another machine.
    pub(crate) async fn endpoints(&self) -> Result<Vec<Endpoint>, AskError> {
        match (&self.address, self.settled.get()) {
            (Some(address), _) => address.endpoints().await,
            (None, Some(endpoint)) => Ok(vec![endpoint.clone()]),
            (None, None) => Ok(vec![default_endpoint()?]),
        }
    }
}

/// Returns the socket of the user's own master if it exists, else the one of the machine.
fn default_endpoint() -> Result<Endpoint, limo_proto::EndpointError> {
    let own = user_socket().filter(|path| path.exists());
    Endpoint::unix(&own.unwrap_or_else(|| PathBuf::from(SYSTEM_SOCKET)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_refused() {
        for good in [
            "127.0.0.1:6817",
            "localhost:1",
            "[::1]:6817",
            "unix:/run/limo/master.sock",
            "tls://a:1,b:2",
            "unix:/a,localhost:1",
        ] {
            assert_eq!(Master::at(good).map(|master| master.address()), Ok(good.to_owned()));
        }
        assert_eq!(Master::at("/a/b").map(|master| master.address()), Ok("unix:/a/b".to_owned()));
        for bad in ["", "localhost", ":6817", "host:", "host:0", "host:65536", "unix:here", "a/b", "tls://a", "/a,"] {
            let error = Master::at(bad).expect_err(bad).to_string();
            let expected =
                "is not an address: write unix:/PATH, tls://HOST:PORT or HOST:PORT, for example 127.0.0.1:6817";
            assert_eq!(error, format!("`{bad}` {expected}"));
        }
    }

    #[tokio::test]
    async fn a_master_that_has_answered_stays_the_same_one() {
        let master = Master { address: None, user: None, settled: Arc::default(), newest: Arc::default() };
        let first: Endpoint = "/first/master.sock".parse().expect("a path");
        master.settle(first.clone());
        master.clone().settle("/second/master.sock".parse().expect("a path"));
        assert_eq!(master.endpoints().await.expect("known"), [first]);
        assert_eq!(master.address(), "unix:/first/master.sock");
    }
}
