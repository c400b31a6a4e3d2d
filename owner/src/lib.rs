//! Owners of a machine: people who sit at it, and come before jobs.
//!
//! A source (`source`) tells from one place if the owner is there: the login manager (`logind`), the times of input (`input`), the
//! terminals of users who are logged in (`tty`), the CPU time that is not of jobs (`load`), or a command of the operator
//! (`command`). `watch` runs each source in a thread of its own. The owner is there if any source says so. No content of
//! input is kept.

#![warn(missing_docs)]

mod choice;
mod command;
mod error;
mod input;
mod load;
mod logind;
mod signs;
mod source;
mod tty;
mod utmp;
mod watch;

pub use choice::{OwnerChoice, OwnerChoiceError, probe};
pub use error::OwnerError;
pub use source::{NamedSource, Place, Source};
pub use watch::{News, watch};
