//! The identity in a certificate: cluster, role and name, as the URI `limo://CLUSTER/ROLE/NAME`.

use std::fmt;
use std::str::FromStr;

use limo_model::ClusterId;
use thiserror::Error;

use crate::serial::Serial;

/// Longest name in bytes.
const NAME_LIMIT: usize = 64;

/// The role that a certificate gives to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertifiedRole {
    /// A master: the only role that may listen.
    Master,
    /// A node, which may register under the name of the certificate only.
    Node,
    /// A user, who controls only its own jobs.
    User,
    /// An operator, who controls everything.
    Operator,
    /// A machine that only asks, such as one that draws graphs.
    ReadOnly,
    /// A machine that acts for its users, but not for root or an operator.
    SubmitHost,
}

impl CertifiedRole {
    /// All roles.
    pub const ALL: [Self; 6] = [Self::Master, Self::Node, Self::User, Self::Operator, Self::ReadOnly, Self::SubmitHost];

    /// Roles of machines, which join with a token.
    pub const JOINING: [Self; 3] = [Self::Node, Self::ReadOnly, Self::SubmitHost];

    /// Returns the role's name in a URI and in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Node => "node",
            Self::User => "user",
            Self::Operator => "operator",
            Self::ReadOnly => "read-only",
            Self::SubmitHost => "submit-host",
        }
    }
}

impl fmt::Display for CertifiedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CertifiedRole {
    type Err = IdentityError;
    fn from_str(text: &str) -> Result<Self, IdentityError> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| IdentityError::Role(clipped(text)))
    }
}

/// The owner of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    cluster: ClusterId,
    role: CertifiedRole,
    name: String,
}

/// Error in the parts of an identity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum IdentityError {
    #[error("`{0}` is not an identity: it must be limo://CLUSTER/ROLE/NAME")]
    Syntax(String),
    #[error("`{0}` is not a role: master, node, user, operator, read-only, submit-host")]
    Role(String),
    #[error("`{0}` cannot be a name: write 1 to {NAME_LIMIT} of a-z, A-Z, 0-9, `.`, `_` and `-`")]
    Name(String),
}

/// Shortens a peer's text for an error.
fn clipped(text: &str) -> String {
    text.chars().take(80).collect()
}

impl Identity {
    /// Makes an identity.
    ///
    /// # Errors
    /// If the name is empty, too long, or has another character than letters, digits, `.`, `_` and `-`.
    pub fn new(cluster: ClusterId, role: CertifiedRole, name: &str) -> Result<Self, IdentityError> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > NAME_LIMIT || !name.bytes().all(is_good) {
            return Err(IdentityError::Name(clipped(name)));
        }
        Ok(Self { cluster, role, name: name.to_owned() })
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns the role.
    pub fn role(&self) -> CertifiedRole {
        self.role
    }

    /// Returns the name of the node, user or master.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limo://{}/{}/{}", self.cluster, self.role, self.name)
    }
}

impl FromStr for Identity {
    type Err = IdentityError;
    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let wrong = || IdentityError::Syntax(clipped(text));
        let mut parts = text.strip_prefix("limo://").ok_or_else(wrong)?.splitn(3, '/');
        let mut part = || parts.next().ok_or_else(wrong);
        let (cluster, role, name) = (part()?, part()?, part()?);
        let cluster: Serial = cluster.parse().map_err(|_| wrong())?;
        Self::new(ClusterId(cluster.0), role.parse()?, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn identities_are_read_as_they_are_printed() {
        for role in ["master", "node", "user", "operator", "read-only", "submit-host"] {
            let text = format!("limo://{CLUSTER}/{role}/n-1.a_B");
            assert_eq!(text.parse::<Identity>().map(|identity| identity.to_string()), Ok(text));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let refused = |text: &str| text.parse::<Identity>().expect_err(text);
        assert!(matches!(refused("https://a/node/b"), IdentityError::Syntax(_)));
        assert!(matches!(refused("limo://a/node/b"), IdentityError::Syntax(_)));
        assert!(matches!(refused(&format!("limo://{CLUSTER}/node")), IdentityError::Syntax(_)));
        assert_eq!(refused(&format!("limo://{CLUSTER}/owner/b")), IdentityError::Role("owner".to_owned()));
        let long = "a".repeat(65);
        for name in ["", "a/b", "a b", "a\n", "ä", &long] {
            assert!(matches!(refused(&format!("limo://{CLUSTER}/node/{name}")), IdentityError::Name(_)), "{name}");
        }
    }
}
