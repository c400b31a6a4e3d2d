//! Standard Workload Format: eighteen numbers a line, header comments, plain or gzipped.
//!
//! [`Reader`] returns each line unchanged; [`load`] makes a [`Workload`](crate::Workload) by [`Rules`]; [`write()`]
//! writes one. The simulation decides about requests larger than the machine.

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
