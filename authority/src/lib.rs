//! The directory of a cluster's authority: its key, the certificates that it has issued, those that are revoked, and the
//! tokens with which machines join. `lconf` and `lmaster` use it; a lock keeps their changes apart. Opens no connection.

#![warn(missing_docs)]

mod directory;
mod error;
mod issued;
mod rotation;
mod tokens;

pub use directory::{Directory, REVOKED_FILE, Wish};
pub use error::DirectoryError;
pub use issued::Issued;
pub use tokens::{Admission, TOKENS_LIMIT};
