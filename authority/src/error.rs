//! Errors of a directory of an authority.

use std::io;
use std::path::PathBuf;

use limo_identity::{AuthorityError, CertificateError, CertifiedRole, IdentityError, PemError, RequestError};
use thiserror::Error;

use crate::issued::VALID_LIMIT;
use crate::tokens::TOKENS_LIMIT;

/// Error of a directory of an authority.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum DirectoryError {
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} exists: the cluster has an authority", .0.display())]
    Exists(PathBuf),
    #[error("{} has no authority", .0.display())]
    NoAuthority(PathBuf),
    #[error("{} has {found} certificates: it must have one", path.display())]
    Count { path: PathBuf, found: usize },
    #[error("{} cannot be used: {source}", path.display())]
    Pem { path: PathBuf, source: PemError },
    #[error("{} has a line that it should not have: {line}", path.display())]
    Line { path: PathBuf, line: String },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{role}/{name} has {VALID_LIMIT} valid certificates, which is the limit")]
    TooMany { role: CertifiedRole, name: String },
    #[error("there are {TOKENS_LIMIT} tokens that are neither used nor expired, which is the limit")]
    TooManyTokens,
    #[error("the token is unknown: it was used, or has expired")]
    UnknownToken,
    #[error("the token has expired")]
    ExpiredToken,
    #[error("the token is for the role {expected}, not for {found}")]
    OtherRole { expected: CertifiedRole, found: CertifiedRole },
    #[error("the token is for the name {expected}, not for {found}")]
    OtherName { expected: String, found: String },
    #[error("a rotation has begun: nodes are getting certificates of the new authority")]
    Rotating,
    #[error("no rotation has begun")]
    NotRotating,
    #[error("these have no certificate of the new authority: {}", .0.join(", "))]
    LeftBehind(Vec<String>),
    #[error("{role}/{name} has a valid certificate")]
    NameInUse { role: CertifiedRole, name: String },
}
