//! Certificates of a cluster: its authority, the identities that it signs, and the TLS settings of both ends.
//! Independent of sockets and files.

#![warn(missing_docs)]

mod authority;
mod certificate;
mod name;
mod pem;
mod request;
mod serial;
mod settings;

pub use authority::{Authority, AuthorityError, BACKDATING, Fingerprint, Life};
pub use certificate::{Certificate, CertificateError};
pub use name::{CertifiedRole, Identity, IdentityError};
pub use pem::{PemError, certificate_pem, certificates, private_key};
pub use request::{KeyRequest, RequestError};
pub use serial::{Serial, SerialError};
pub use settings::{ALPN, Roots, SettingsError, caller, listener, server_name};
