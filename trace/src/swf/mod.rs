//! The Standard Workload Format: eighteen numbers a line, header comments, plain or gzipped.
//!
//! [`Reader`] gives each line as it stands; [`load`] makes a [`Workload`](crate::Workload) of it under stated
//! [`Rules`]; [`write()`] writes one. What a request above the machine means is decided by whoever runs the workload.

mod error;
mod header;
mod load;
mod reader;
mod record;
mod sort;
mod write;

pub use error::{SwfError, WriteError};
pub use header::{Comment, Header};
pub use load::{Options, Processors, Rules, load, load_from};
pub use reader::Reader;
pub use record::{FIELDS, Field, Record};
pub use write::{write, write_to};
