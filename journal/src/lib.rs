//! The journal: the events of the cluster, on disk before they are reported.
//!
//! One SQLite file, `journal.db`, in the state directory of the master, or a database of PostgreSQL, of which one master
//! holds the lease. One writer owns the only writing connection and commits many batches in one transaction; everything else only reads. The journal stores and returns data. It does
//! not interpret events, decides nothing, and repairs nothing: if a batch cannot be written, this batch and all later
//! ones are refused until the master has returned to the state on disk ([`Journal::recover`]).

#![warn(missing_docs)]

mod backup;
mod ballast;
mod batch;
mod changes;
mod compact;
mod db;
mod directory;
mod error;
mod finished;
mod history;
mod insert;
mod journal;
mod read;
mod reader;
mod readings;
mod schema;
mod script;
mod server;
mod statement;
mod states;
mod transfer;
mod writer;

pub use backup::{BACKUP_RESERVE, BackupError};
pub use ballast::BALLAST_BYTES;
pub use batch::{Batch, Entry, FinishedRow, NodeRow, ReadingRow, Recovered, StateRow, Submission};
pub use changes::*;
pub use compact::Compaction;
pub use directory::Blocked;
pub use error::{
    BallastError, CommitError, CompactError, LeaseLost, NoRoom, OpenError, QueryError, ReadError, RecoverError,
    TransferError, Unwritable,
};
pub use finished::{FinishedFilter, FinishedQuery, JobSum, SumBy};
pub use history::{History, HistoryEntry};
pub use journal::{Journal, Opening, Pending, QUEUE_ROOM};
pub use readings::NodeSum;
pub use server::lease::{LEASE, Lease};
pub use server::schema::Server;
pub use states::StateSum;
pub use transfer::{Place, transfer};
pub use writer::GROUP;
