//! The token with which a machine joins a cluster once: `limo1.FINGERPRINT.ID.SECRET`. It names the authority, so that
//! the joining machine recognizes its master before it has a certificate.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

use crate::authority::{AuthorityError, Fingerprint};
use crate::hex;

/// First part of a token.
const FORMAT: &str = "limo1";

/// Public number of a token; 16 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; 8]);

/// SHA-256 of a token's secret, which does not reveal the secret; 64 hexadecimal digits as text.
#[derive(Debug, Clone, Copy)]
pub struct SecretHash([u8; 32]);

/// A token, with its secret of 160 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    authority: Fingerprint,
    id: TokenId,
    secret: [u8; 20],
}

/// Error of a text that is not a token. It does not repeat the text, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("this is not a token: it must be limo1.FINGERPRINT.ID.SECRET, as `lconf cluster join-token` prints it")]
pub struct TokenError;

impl JoinToken {
    /// Makes a token for the authority with this fingerprint.
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn new(authority: Fingerprint) -> Result<Self, AuthorityError> {
        let (mut id, mut secret) = ([0; 8], [0; 20]);
        getrandom::fill(&mut id).map_err(AuthorityError::Random)?;
        getrandom::fill(&mut secret).map_err(AuthorityError::Random)?;
        Ok(Self { authority, id: TokenId(id), secret })
    }

    /// Returns the fingerprint of the authority of the cluster.
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// Returns the public number.
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// Returns the hash of the secret, for storage.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret).into())
    }
}

impl SecretHash {
    /// Compares two hashes in constant time.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORMAT}.{}.{}.", self.authority, self.id)?;
        hex::write(f, &self.secret)
    }
}

/// Hides the secret.
impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({})", self.id)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(TokenError);
        let (format, authority, id, secret) = (part()?, part()?, part()?, part()?);
        if format != FORMAT || parts.next().is_some() {
            return Err(TokenError);
        }
        let secret = hex::read(secret).ok_or(TokenError)?;
        Ok(Self { authority: authority.parse().map_err(|_| TokenError)?, id: id.parse()?, secret })
    }
}

impl FromStr for TokenId {
    type Err = TokenError;
    fn from_str(text: &str) -> Result<Self, TokenError> {
        hex::read(text).map(Self).ok_or(TokenError)
    }
}

impl FromStr for SecretHash {
    type Err = TokenError;
    fn from_str(text: &str) -> Result<Self, TokenError> {
        hex::read(text).map(Self).ok_or(TokenError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        format!("limo1.{}.0123456789abcdef.{}", "0a".repeat(32), "f0".repeat(20))
    }

    #[test]
    fn tokens_are_read_as_they_are_printed() {
        let token: JoinToken = text().parse().expect("a token");
        assert_eq!(token.to_string(), text());
        assert_eq!(
            (token.id().to_string(), token.authority().to_string()),
            ("0123456789abcdef".into(), "0a".repeat(32))
        );
        let long = text() + "00";
        let part = text() + ".0";
        for bad in ["", "limo1", "limo2.a.b.c", &text()[..60], &long, &part, &text().replace("f0", "g0")] {
            assert_eq!(bad.parse::<JoinToken>(), Err(TokenError), "{bad}");
        }
    }

    #[test]
    fn a_token_is_recognized_by_its_hash_and_its_secret_is_not_shown() {
        let token: JoinToken = text().parse().expect("a token");
        // The digest was computed with sha256sum.
        let hash = "2c33a0cae63f447ef07e04692bb139a49b1d888b4c70e4db205683ac316a5a2c";
        assert_eq!(token.hash().to_string(), hash);
        assert!(token.hash().is(&hash.parse().expect("a hash")));
        let other = JoinToken::new(token.authority()).expect("random numbers");
        assert!(!token.hash().is(&other.hash()));
        assert_ne!(other.id(), token.id());
        assert!(!format!("{token:?}").contains("f0"));
    }
}
