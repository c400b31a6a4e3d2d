//! Reports about jobs, nodes and the master. Clients decide how to show them.

use std::num::NonZeroU32;

use limo_model::{
    Allowance, CheckpointFailure, Containment, Cores, Dependency, Energy, Estimate, Evictions, JobEnd, JobId, Labels,
    LicenceCount, Memory, Meter, Money, Power, REASON_LIMIT, Span, Standing, TaskCounts, Tasks, Time, UnitKind, Usage,
    UsedUp, Wait, Widths,
};
use serde::{Deserialize, Serialize};

use crate::bound::{clip, clip_some};
use crate::state::{JobState, NodeSleep, NodeState};
use crate::suspension::Suspension;

/// A job in listings. Journals keep the reports of finished jobs: a new field goes to the end and has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// Number; for a task of an array, the task's number.
    pub job: JobId,
    /// State between submission and end.
    pub state: JobState,
    /// Name of the user who submitted the job.
    pub user: String,
    /// Name chosen by the user, or else the application.
    pub name: String,
    /// Name for profiles.
    pub application: String,
    /// Command, formatted as shell input.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub command: String,
    /// Cores on each of its nodes, or of each packed task.
    pub cores: Cores,
    /// Memory on each of its nodes, or of each packed task.
    pub memory: Memory,
    /// Longest run, without suspensions.
    pub time_limit: Option<Span>,
    /// Deadline for its end.
    pub deadline: Option<Time>,
    /// Deadline for its start.
    pub start_by: Option<Time>,
    /// Names of its nodes, in the order of its tasks; empty before its first start.
    pub nodes: Vec<String>,
    /// Units, each as `node/unit`.
    pub units: Vec<String>,
    /// Time at which the master accepted it.
    pub submitted: Time,
    /// Start of its last attempt.
    pub started: Option<Time>,
    /// Time of its end.
    pub ended: Option<Time>,
    /// End of the job, once it is over.
    pub end: Option<JobEnd>,
    /// Reason for waiting, while the job waits.
    pub wait: Option<Wait>,
    /// The core's estimate for a job that is starting or running.
    pub estimate: Option<Estimate>,
    /// Energy above idle: estimated while it runs; once it is over, measured if possible.
    pub energy: Option<Energy>,
    /// Cost for the time with a known price; `None` without any.
    pub cost: Option<Money>,
    /// The cost if it had started at its submission; `None` without a known price then.
    pub start_now_cost: Option<Money>,
    /// True if its watts are modelled by emulated hardware.
    pub emulated: bool,
    /// True if the energy was measured, for a job that ran and is over. Older reports do not contain it.
    #[serde(default)]
    pub measured: Option<bool>,
    /// Confidence that a measured energy was the job's own, in thousandths.
    #[serde(default)]
    pub confidence: Option<u16>,
    /// The files on its node for stdout and stderr, if any.
    #[serde(default, serialize_with = "clip_some::<_, 4096>")]
    pub stdout: Option<String>,
    /// See [`JobReport::stdout`].
    #[serde(default, serialize_with = "clip_some::<_, 4096>")]
    pub stderr: Option<String>,
    /// The user who holds it.
    #[serde(default)]
    pub held: Option<String>,
    /// Begin time.
    #[serde(default)]
    pub begin: Option<Time>,
    /// Dependencies that are not met yet.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// True if the job waits for earlier jobs of the same user and name.
    #[serde(default)]
    pub singleton: bool,
    /// For a task of an array: the number of the array, and the number of the task.
    #[serde(default)]
    pub task: Option<(JobId, u32)>,
    /// Tasks of an array; `None` for other jobs.
    #[serde(default)]
    pub array: Option<ArrayReport>,
    /// Allowance of energy and money.
    #[serde(default)]
    pub allowance: Option<Allowance>,
    /// Exhausted limit, once its user was notified.
    #[serde(default)]
    pub used_up: Option<UsedUp>,
    /// Priority, while the job waits.
    #[serde(default)]
    pub priority: Option<Standing>,
    /// Unreachable nodes with the start of their absence, while the job is not over.
    #[serde(default)]
    pub unreachable: Vec<(String, Option<Time>)>,
    /// Suspension, while the job is suspended.
    #[serde(default)]
    pub suspended: Option<Suspension>,
    /// Set for a job of packed tasks. Its cores and memory are those of each task.
    #[serde(default)]
    pub packed: Option<PackedTasks>,
    /// The cap that the job explores, while it is starting or running.
    #[serde(default)]
    pub explores: Option<Power>,
    /// Its queue, if queues were configured at its submission.
    #[serde(default)]
    pub queue: Option<String>,
    /// For a moldable job, the range of its number of nodes, and the number that the last plan chose.
    #[serde(default)]
    pub widths: Option<(Widths, NonZeroU32)>,
    /// Number of its evictions.
    #[serde(default)]
    pub evictions: Evictions,
    /// Running time up to its last checkpoint, in all attempts together; `None` before the first one.
    #[serde(default)]
    pub kept: Option<Span>,
    /// The reason, if a checkpoint has failed since.
    #[serde(default)]
    pub checkpoint_failed: Option<CheckpointFailure>,
    /// For a step, its job and its number among the steps of that job.
    #[serde(default)]
    pub step: Option<(JobId, u32)>,
    /// Number of steps that the job has had so far.
    #[serde(default)]
    pub steps: u32,
    /// Number of its nodes; before its first start, of those that it needs. At least 1, but 0 in older reports.
    #[serde(default)]
    pub node_count: u32,
    /// Cores on all of its nodes together; before its first start, those that it needs. `None` if it takes all cores of a node
    /// that is not chosen yet, and in older reports.
    #[serde(default)]
    pub total_cores: Option<u32>,
    /// Working directory of its command.
    #[serde(default, serialize_with = "clip_some::<_, 4096>")]
    pub directory: Option<String>,
    /// Resources that its last attempt used, once it is over and if it ran. For an array, those of its tasks that are over.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Licences that it needs.
    #[serde(default)]
    pub licences: Vec<LicenceCount>,
    /// Its account.
    #[serde(default)]
    pub account: Option<String>,
    /// Its QOS.
    #[serde(default)]
    pub qos: Option<String>,
    /// Texts of its user.
    #[serde(default)]
    pub labels: Option<Box<Labels>>,
}

/// The tasks of a job that are placed one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedTasks {
    /// Number of tasks.
    pub count: u32,
    /// Tasks on each of [`JobReport::nodes`]; empty before its first start.
    pub per_node: Vec<u32>,
}

/// The state of an array's tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayReport {
    /// All tasks, including finished ones.
    pub tasks: Tasks,
    /// Waiting tasks; only the first thousand ranges.
    pub waiting: Option<Tasks>,
    /// Number of tasks on nodes.
    pub active: u32,
    /// Counts of finished tasks by their end.
    pub ended: TaskCounts,
}

impl ArrayReport {
    /// Returns the number of waiting tasks, including those missing in `waiting`.
    pub fn waiting_count(&self) -> u32 {
        let others = self.active.saturating_add(self.ended.all());
        self.waiting.as_ref().map_or(0, |_| self.tasks.count().saturating_sub(others))
    }
}

/// A node in listings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Name, unique within the cluster.
    pub name: String,
    /// State, which decides if the node gets new jobs.
    pub state: NodeState,
    /// Its group, if it is in one.
    pub group: Option<String>,
    /// Reason of its drain, with the operator, or a fault of its settings.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub reason: Option<String>,
    /// Units in the order of the node.
    pub units: Vec<UnitReport>,
    /// Memory for jobs.
    pub memory: Memory,
    /// Memory that its jobs requested.
    pub memory_used: Memory,
    /// Draw of the whole node without jobs.
    pub idle: Power,
    /// Believed draw of the whole node, `held` included.
    pub draw: Power,
    /// True if `draw` is a reading; false if it is an estimate.
    pub measured: bool,
    /// The source of its measured draw.
    pub meter: Meter,
    /// Energy since the node was first registered.
    pub energy: Energy,
    /// Cost for the time with a known price; `None` without any.
    pub cost: Option<Money>,
    /// True if connected to the master. A drained node may be disconnected.
    pub connected: bool,
    /// Start of the disconnection, if the node was connected before and is not now.
    pub unreachable_since: Option<Time>,
    /// Held draw of jobs that ended when it was lost.
    pub held: Power,
    /// Stage of its sleep; `None` if it is awake.
    pub sleep: Option<NodeSleep>,
    /// Part of `energy` used while asleep.
    pub asleep_energy: Energy,
    /// Part of `energy` used while falling asleep and waking.
    pub switching_energy: Energy,
    /// Its hold on the processes of jobs; `None` while it is not connected.
    pub containment: Option<Containment>,
}

impl NodeReport {
    /// Returns the node's state in words, such as `up` or `drained, unreachable`.
    pub fn state_in_words(&self) -> String {
        match self.state {
            NodeState::Drained if let Some(sleep) = self.sleep => {
                format!("{}, {}", self.state.name(), sleep.in_words())
            }
            NodeState::Drained if !self.connected => format!("{}, unreachable", self.state.name()),
            NodeState::Sleeps(sleep) => sleep.in_words().to_owned(),
            state => state.name().to_owned(),
        }
    }
}

/// An unreachable node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableReport {
    /// Name of the node.
    pub name: String,
    /// Start of the absence, if known.
    pub since: Option<Time>,
    /// True if its jobs have ended because of the absence.
    pub lost: bool,
    /// Number of jobs that are believed to run on it.
    pub jobs: u32,
    /// Held draw of jobs that ended.
    pub held: Power,
}

/// An execution unit in listings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitReport {
    /// Name, unique within the node.
    pub name: String,
    /// Type of the unit.
    pub hardware: String,
    /// CPU or accelerator.
    pub kind: UnitKind,
    /// Number of cores; 1 for an accelerator.
    pub cores: u32,
    /// Number of cores in use by jobs.
    pub cores_used: u32,
    /// The cap in force.
    pub cap: Option<Power>,
    /// Lowest and highest cap that it obeys.
    pub caps: Option<(Power, Power)>,
    /// Jobs on the unit.
    pub jobs: Vec<JobId>,
}

/// A node: the master's view and the node's own report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDetail {
    /// The master's view.
    pub report: NodeReport,
    /// The node's report of its hardware as lines for people, or the reason if it is missing.
    pub probe: Result<String, String>,
}
