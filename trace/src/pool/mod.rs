//! Pools of HTCondor whose computers have owners: jobs from histories and event logs, sessions from logins.
//!
//! Files are read as streams in limited memory. No expression is evaluated.

mod attribute;
mod clock;
mod elements;
mod error;
mod fta;
mod groups_file;
mod htcondor;
mod job;
mod json;
mod lives;
mod log;
mod logins;
mod long;
mod newcastle;
mod opening;
mod prepared;
mod pseudonym;
mod read;
mod reader;
mod record;
mod sanitise;
mod session;
mod sort;
mod tally;
mod xml;

pub use attribute::Attribute;
pub use clock::PoolClock;
pub use error::PoolError;
pub use fta::{FtaTally, fta};
pub use groups_file::{Pool, PoolFileError};
pub use htcondor::import as htcondor;
pub use job::{Outcome, PoolJob, Transfers};
pub use logins::{LoginTally, logins};
pub use newcastle::{PoolYear, Validation};
pub use opening::OpeningHours;
pub use pseudonym::Pseudonyms;
pub use read::{is_jobs, jobs, sessions};
pub use reader::RecordReader;
pub use record::PoolRecord;
pub use sanitise::sanitise;
pub use session::{NameTable, Session, Sessions};
pub use tally::Tally;

/// Most bytes of a record, or of a line of one.
pub(crate) const RECORD_LIMIT: usize = 1024 * 1024;
/// Most attributes of a record. HTCondor writes one or two hundred.
pub(crate) const ATTRIBUTE_LIMIT: usize = 10_000;
/// Most jobs of event logs that are submitted and have not ended: about 70 MB.
pub(crate) const OPEN_LIMIT: usize = 500_000;
/// Most bytes of the name of a computer or a user.
pub(crate) const NAME_LIMIT: usize = 256;
