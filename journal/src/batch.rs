//! Input and output of the journal. Plain data.

use std::collections::BTreeMap;

use limo_model::{Drawn, Energy, JobId, JournalId, Money, NodeActivity, Span, Time};
use limo_sched::{Event, Round};

use crate::changes::ChangeRow;

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An event of the cluster.
    Event(Event),
    /// The policy's round after all earlier events.
    Round(Round),
}

/// The launch data of an accepted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Number of the job, unique in the journal.
    pub job: JobId,
    /// Random key from the client, so that a repeated submission does not make a second job.
    pub key: [u8; 16],
    /// The submitter.
    pub uid: u32,
    /// Arguments, environment, directory: opaque to the journal. Kept until the job is finished.
    pub launch: Vec<u8>,
}

/// A job that is over, as listings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRow {
    /// Number of the job; for a task of an array, that of the task.
    pub job: JobId,
    /// Name of the user who submitted the job.
    pub user: String,
    /// Name given by the user; several jobs may have the same name.
    pub name: String,
    /// Name of the application in profiles.
    pub application: String,
    /// Final state, such as `completed`, as in listings and filters.
    pub state: String,
    /// Time at which the master accepted it.
    pub submitted: Time,
    /// Time of the start; `None` if the job never ran.
    pub started: Option<Time>,
    /// Time of the end, or of the cancellation if the job never ran.
    pub ended: Time,
    /// Energy above idle.
    pub energy: Energy,
    /// Cost, if it is known.
    pub cost: Option<Money>,
    /// Cost that a start at submission would have had.
    pub start_now_cost: Option<Money>,
    /// True if emulated hardware modelled the job's watts.
    pub emulated: bool,
    /// True if the energy was measured, false if it was estimated; `None` in rows from before this column existed.
    pub measured: Option<bool>,
    /// The remaining parts of a listing, as JSON; opaque to the journal.
    pub report: String,
    /// For a step, the number of its job.
    pub step_of: Option<JobId>,
}

/// Draw of a node in an interval, as one process observed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingRow {
    /// Name of the node; empty for the whole cluster.
    pub node: String,
    /// Time at which the process's observation of the interval began. A row with the same node, interval and begin is
    /// replaced.
    pub since: Time,
    /// Interval with its energy and extremes.
    pub drawn: Drawn,
}

/// Time and energy of a node in one of its states during an hour, as one process observed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow {
    /// Begin of the hour.
    pub at: Time,
    /// Name of the node.
    pub node: String,
    /// Its state.
    pub state: NodeActivity,
    /// Time at which the process's observation of the hour began. A row with the same hour, node, state and begin is
    /// replaced.
    pub since: Time,
    /// Time in the state.
    pub span: Span,
    /// Energy by the node's meter during `seen`.
    pub energy: Energy,
    /// Part of the time for which the energy is known.
    pub seen: Span,
}

/// The incarnation of a node: of its state directory and of its kernel. It is durable together with its first
/// assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Name with which the node registered.
    pub name: String,
    /// Random identity of the state directory, chosen when it is created.
    pub instance: String,
    /// The kernel's boot id.
    pub boot: String,
}

/// Entries that are written together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Generation of the state that this batch continues: [`Recovered::generation`]. A batch of another generation is
    /// refused, because it follows a batch that is not on disk.
    pub generation: u64,
    /// Entries in the order in which they happened.
    pub entries: Vec<(Time, Entry)>,
    /// Newly accepted jobs.
    pub submissions: Vec<Submission>,
    /// Finished jobs. Their launches are deleted, but not their keys.
    pub finished: Vec<FinishedRow>,
    /// Recorded draw.
    pub readings: Vec<ReadingRow>,
    /// Recorded states of nodes.
    pub states: Vec<StateRow>,
    /// Time before which rows of intervals are deleted.
    pub forget_readings: Option<Time>,
    /// State after these entries, opaque to the journal. Replaces the previous snapshot.
    pub snapshot: Option<String>,
    /// Changes by operators, in order.
    pub changes: Vec<ChangeRow>,
    /// Rows that replace those with the same name.
    pub nodes: Vec<NodeRow>,
    /// Texts by name, opaque to the journal; each replaces the previous one.
    pub kept: BTreeMap<String, String>,
}

/// The state on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Identity of the journal.
    pub journal: JournalId,
    /// The newest snapshot, if there is one.
    pub snapshot: Option<String>,
    /// All entries after the snapshot, in order. The master's snapshots limit their number.
    pub entries: Vec<(Time, Entry)>,
    /// Accepted jobs that are not finished, by number.
    pub live: Vec<Submission>,
    /// Generation for the batches that continue this state. It grows with each opening and each recovery.
    pub generation: u64,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeRow>,
    /// Texts of [`Batch::kept`], by name.
    pub kept: BTreeMap<String, String>,
    /// Reason why nothing can be written, if so. Then no generation has begun: every batch is refused until a recovery
    /// returns `None` here.
    pub read_only: Option<String>,
}
