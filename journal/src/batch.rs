//! Input and output of the journal. Plain data.

use std::collections::BTreeMap;

use limo_model::{Drawn, Energy, JobId, JournalId, Money, Time};
use limo_sched::{Event, Round};

use crate::changes::ChangeRow;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Something that happened.
    Event(Event),
    /// The policy's round after all earlier events.
    Round(Round),
}

/// The launch data of an accepted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Its number, unique in the journal.
    pub job: JobId,
    /// Chosen at random by the client, so that a repeated submission is not a second job.
    pub key: [u8; 16],
    /// The submitter.
    pub uid: u32,
    /// Arguments, environment, directory: opaque to the journal. Kept until the job is finished.
    pub launch: Vec<u8>,
}

/// A job that is over, as listings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRow {
    /// Its number; for a task of an array, that of the task.
    pub job: JobId,
    /// Name of the user who submitted it.
    pub user: String,
    /// As its user called it; several jobs may have one name.
    pub name: String,
    /// The application by which profiles know it.
    pub application: String,
    /// Its end, such as `completed`, as listings and filters name it.
    pub state: String,
    /// Time at which the master accepted it.
    pub submitted: Time,
    /// `None` if it never ran.
    pub started: Option<Time>,
    /// Time of its end, or of its cancellation if it never ran.
    pub ended: Time,
    /// Above idle.
    pub energy: Energy,
    /// If it is known.
    pub cost: Option<Money>,
    /// Cost of a start at its submission.
    pub start_now_cost: Option<Money>,
    /// True if its watts are modelled by emulated hardware.
    pub emulated: bool,
    /// True if its energy was measured, false if estimated; `None` in rows that are older than this column.
    pub measured: Option<bool>,
    /// Everything else that a listing shows, as JSON; opaque to the journal.
    pub report: String,
}

/// Draw of a node in an interval, as far as one process observed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingRow {
    /// Its name; empty for the whole cluster.
    pub node: String,
    /// Begin of that process's observation in the interval. A row with the same node, interval and begin is replaced.
    pub since: Time,
    /// The interval, and the energy and the extremes in it.
    pub drawn: Drawn,
}

/// The incarnation of a node: of its state directory and of its kernel. It is durable with the first assignment that the
/// node gets in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// The node, as it registered.
    pub name: String,
    /// Identifies the state directory; chosen at random when that is made.
    pub instance: String,
    /// The kernel's boot id.
    pub boot: String,
}

/// Entries that are written together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The generation of the state that this batch continues: [`Recovered::generation`]. A batch of another generation
    /// is refused, because it was made on top of a batch that is not on disk.
    pub generation: u64,
    /// In the order in which they happened.
    pub entries: Vec<(Time, Entry)>,
    /// Newly accepted jobs.
    pub submissions: Vec<Submission>,
    /// Jobs that are over. Their launches are deleted; their keys stay.
    pub finished: Vec<FinishedRow>,
    /// Recorded draw.
    pub readings: Vec<ReadingRow>,
    /// Rows of intervals that began before this are deleted.
    pub forget_readings: Option<Time>,
    /// The state after these entries, opaque to the journal. Replaces the snapshot before.
    pub snapshot: Option<String>,
    /// Changes by operators, in their order.
    pub changes: Vec<ChangeRow>,
    /// Each replaces the row of the same name.
    pub nodes: Vec<NodeRow>,
    /// Texts that are opaque to the journal, by name; each replaces the one before.
    pub kept: BTreeMap<String, String>,
}

/// The state on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Identity of the journal.
    pub journal: JournalId,
    /// The newest snapshot, where there is one.
    pub snapshot: Option<String>,
    /// All entries after the snapshot, in order. Bounded by how often the master takes snapshots.
    pub entries: Vec<(Time, Entry)>,
    /// Accepted jobs that are not finished, by number.
    pub live: Vec<Submission>,
    /// For the batches that continue this state. Grows with each opening and each recovery.
    pub generation: u64,
    /// By name.
    pub nodes: BTreeMap<String, NodeRow>,
    /// Texts of [`Batch::kept`], by name.
    pub kept: BTreeMap<String, String>,
    /// Reason why nothing can be written, if so. No generation has begun then: every batch is refused until a recovery
    /// returns `None` here.
    pub read_only: Option<String>,
}
