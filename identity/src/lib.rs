//! Certificates of a cluster: its authority, the identities that it signs, and the TLS settings of both ends.
//! Independent of sockets and files.

#![warn(missing_docs)]

mod authority;
mod certificate;
mod hex;
mod joining;
mod name;
mod pem;
mod request;
mod serial;
mod settings;
mod token;

pub use authority::{Authority, AuthorityError, BACKDATING, Fingerprint, FingerprintError, Life};
pub use certificate::{Certificate, CertificateError};
pub use joining::{JOIN_ALPN, join_listener, joiner};
pub use name::{CertifiedRole, Identity, IdentityError};
pub use pem::{PemError, certificate_pem, certificates, private_key};
pub use request::{KeyRequest, RequestError};
pub use serial::{Serial, SerialError};
pub use settings::{ALPN, Roots, SettingsError, caller, listener, server_name};
pub use token::{JoinToken, SecretHash, TokenError, TokenId};
