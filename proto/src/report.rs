//! What the master tells clients about jobs, nodes and itself. Clients decide how to show it.

use limo_model::{
    Allowance, Band, Budget, Budgets, Cores, Dependency, Energy, Estimate, JobEnd, JobId, Memory, Meter, Mode,
    ModeSetting, Money, Power, Preset, Price, REASON_LIMIT, Span, Standing, TaskCounts, Tasks, Time, UnitKind, UsedUp,
    Wait,
};
use serde::{Deserialize, Serialize};

use crate::bound::{clip, clip_some};
use crate::outside::{FeedReport, GridReport, MeterReport};
use crate::state::{JobState, NodeSleep, NodeState};

/// A job as listings show it. Journals keep it of finished jobs: a new field stands at the end and has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its number; of a task of an array, that of the task.
    pub job: JobId,
    /// Where it is between submission and end.
    pub state: JobState,
    /// Name of the user who submitted it.
    pub user: String,
    /// As its user called it; the application unless given.
    pub name: String,
    /// By which profiles know it.
    pub application: String,
    /// As it could be typed into a shell.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub command: String,
    /// On each of its nodes.
    pub cores: Cores,
    /// On each of its nodes.
    pub memory: Memory,
    /// How long it may run, without the time in which it is suspended.
    pub time_limit: Option<Span>,
    /// When it is to be over.
    pub deadline: Option<Time>,
    /// When it is to have begun.
    pub start_by: Option<Time>,
    /// Names of its nodes, in the order of its tasks; empty before its first start.
    pub nodes: Vec<String>,
    /// As `node/unit`.
    pub units: Vec<String>,
    /// When the master accepted it.
    pub submitted: Time,
    /// When its last attempt began.
    pub started: Option<Time>,
    /// When it was over.
    pub ended: Option<Time>,
    /// Set once the job is over.
    pub end: Option<JobEnd>,
    /// Set while the job waits.
    pub wait: Option<Wait>,
    /// What the core expects of a job that is starting or running.
    pub estimate: Option<Estimate>,
    /// Energy above idle: so far by estimate while it runs, measured where it can be when it is over.
    pub energy: Option<Energy>,
    /// Of the time in which a price was known; `None` if none was.
    pub cost: Option<Money>,
    /// The cost if it had started at its submission; `None` if no price was known then.
    pub start_now_cost: Option<Money>,
    /// True if its watts are modelled by emulated hardware.
    pub emulated: bool,
    /// Of a job that ran and is over: whether its energy was measured, or estimated. Reports of before do not say it.
    #[serde(default)]
    pub measured: Option<bool>,
    /// How sure it is that a measured energy was the job's own, in thousandths.
    #[serde(default)]
    pub confidence: Option<u16>,
    /// The files on its node that stdout and stderr go to, where they do.
    #[serde(default, serialize_with = "clip_some::<_, 4096>")]
    pub stdout: Option<String>,
    /// See [`JobReport::stdout`].
    #[serde(default, serialize_with = "clip_some::<_, 4096>")]
    pub stderr: Option<String>,
    /// The user who holds it back.
    #[serde(default)]
    pub held: Option<String>,
    /// Not before then.
    #[serde(default)]
    pub begin: Option<Time>,
    /// What it still waits for to become of other jobs.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// Not while an earlier job of the same user and name is not over.
    #[serde(default)]
    pub singleton: bool,
    /// Of a task of an array: the array's own number, and the number of the task.
    #[serde(default)]
    pub task: Option<(JobId, u32)>,
    /// Of an array.
    #[serde(default)]
    pub array: Option<ArrayReport>,
    /// What it may use.
    #[serde(default)]
    pub allowance: Option<Allowance>,
    /// What it had used when its user was told that it is all that it may.
    #[serde(default)]
    pub used_up: Option<UsedUp>,
    /// Set while the job waits.
    #[serde(default)]
    pub priority: Option<Standing>,
    /// Those of its nodes that are unreachable, and since when, while the job is not over.
    #[serde(default)]
    pub unreachable: Vec<(String, Option<Time>)>,
}

/// How the tasks of an array are doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayReport {
    /// All of them, over or not.
    pub tasks: Tasks,
    /// Those that wait; where they are more than a thousand ranges, the first of them.
    pub waiting: Option<Tasks>,
    /// How many are on nodes.
    pub active: u32,
    /// How those ended that are over.
    pub ended: TaskCounts,
}

impl ArrayReport {
    /// How many tasks wait, also those that `waiting` has no room for.
    pub fn waiting_count(&self) -> u32 {
        let others = self.active.saturating_add(self.ended.all());
        self.waiting.as_ref().map_or(0, |_| self.tasks.count().saturating_sub(others))
    }
}

/// A node as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Unique within the cluster.
    pub name: String,
    /// Decides if it gets new jobs.
    pub state: NodeState,
    /// Why it is drained, and by whom.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub reason: Option<String>,
    /// In the order in which the node has them.
    pub units: Vec<UnitReport>,
    /// What jobs may have together.
    pub memory: Memory,
    /// What the jobs on it asked for.
    pub memory_used: Memory,
    /// Draw of the whole node without jobs.
    pub idle: Power,
    /// Believed draw of the whole node, `held` included.
    pub draw: Power,
    /// True if `draw` is a reading, or an estimate.
    pub measured: bool,
    /// What its draw is known from.
    pub meter: Meter,
    /// Since the node is known.
    pub energy: Energy,
    /// Of the time in which a price was known; `None` if none ever was.
    pub cost: Option<Money>,
    /// Connected to the master. A drained node may be disconnected.
    pub connected: bool,
    /// Since when it is not, if it ever was.
    pub unreachable_since: Option<Time>,
    /// What is held for jobs that ended when it was lost.
    pub held: Power,
    /// Where it is not awake.
    pub sleep: Option<NodeSleep>,
    /// Part of `energy`: asleep.
    pub asleep_energy: Energy,
    /// Part of `energy`: on the way to sleep and back.
    pub switching_energy: Energy,
}

impl NodeReport {
    /// Its state in words, such as `up` or `drained, unreachable`.
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
    /// Since when, if that is known.
    pub since: Option<Time>,
    /// True if its jobs have ended because of that.
    pub lost: bool,
    /// Jobs that are believed to run on it.
    pub jobs: u32,
    /// What is held for jobs that ended.
    pub held: Power,
}

/// An execution unit as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitReport {
    /// Unique within its node.
    pub name: String,
    /// Its type.
    pub hardware: String,
    /// CPU or accelerator.
    pub kind: UnitKind,
    /// All of them; 1 for an accelerator.
    pub cores: u32,
    /// Those that jobs have.
    pub cores_used: u32,
    /// The cap that the master holds it at.
    pub cap: Option<Power>,
    /// The lowest and the highest cap that it obeys.
    pub caps: Option<(Power, Power)>,
    /// The jobs on it.
    pub jobs: Vec<JobId>,
}

/// One node, as the master knows it and as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDetail {
    /// As the master knows it.
    pub report: NodeReport,
    /// What it has: lines for people. Or why it does not say.
    pub probe: Result<String, String>,
}

/// The cluster now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// When this was true, in the time of the cluster.
    pub now: Time,
    /// The policy in force.
    pub policy: Preset,
    /// The mode in force.
    pub mode: Mode,
    /// What an operator set.
    pub mode_setting: ModeSetting,
    /// The limits in force.
    pub band: Band,
    /// The periods that are not over.
    pub budgets: Budgets,
    /// The account of the period that runs.
    pub account: Option<BudgetAccount>,
    /// The next change of the limits.
    pub next_band: Option<(Time, Band)>,
    /// When the operator's limits ended, if they have.
    pub limits_ended: Option<Time>,
    /// The price in force, if one is known.
    pub price: Option<Price>,
    /// The next change of the price; at the end of the prices to `None`.
    pub next_price: Option<(Time, Option<Price>)>,
    /// When the prices ended, if they have.
    pub prices_ended: Option<Time>,
    /// Believed draw of the cluster, `held` included.
    pub draw: Power,
    /// Part of `draw` that is idle draw of registered nodes.
    pub idle: Power,
    /// Jobs that wait, tasks of arrays counted singly.
    pub waiting: u64,
    /// Jobs that nodes have: starting, running, suspended or stopping.
    pub running: u64,
    /// Nodes that are connected, drained ones too.
    pub nodes_up: u32,
    /// All nodes that are known.
    pub nodes: u32,
    /// True if any of the watts are modelled by emulated hardware.
    pub emulated: bool,
    /// Of the whole cluster, since the journal began.
    pub energy: Energy,
    /// Of the time in which a price was known; `None` if none ever was.
    pub cost: Option<Money>,
    /// Of finished jobs: what they cost, and what starting each at once would have cost, as far as that is known.
    pub jobs_cost: Option<Money>,
    /// See [`Status::jobs_cost`].
    pub jobs_start_now_cost: Option<Money>,
    /// Share of the time since the limits were first set that the believed draw was inside the band, in thousandths.
    pub in_band_permille: Option<u32>,
    /// Plans that the checker rejected.
    pub rejected_plans: u64,
    /// Why new jobs are refused at present.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub trouble: Option<String>,
    /// Who set the prices, where that is an operator.
    pub prices_by: Option<String>,
    /// Of prices, then of carbon intensities.
    pub feeds: Vec<FeedReport>,
    /// The operator's own band, where the grid's limits hold in its place.
    pub own_band: Option<Band>,
    /// Who may set limits from outside, in the order of the configuration.
    pub grid: Vec<GridReport>,
    /// Those at the master, each of which serves several nodes.
    pub meters: Vec<MeterReport>,
    /// Nodes that have jobs, or for which draw is held, and are not connected; and connected ones for which draw is held.
    /// At most [`UNREACHABLE_LIMIT`].
    pub unreachable: Vec<UnreachableReport>,
    /// The sum of what is held for lost nodes; part of `draw`.
    pub held: Power,
    /// Nodes that had jobs of other journals, at most [`FOREIGN_LIMIT`].
    pub foreign: Vec<ForeignReport>,
    /// Nodes that sleep, or are on their way to it or back. None of them is up.
    pub nodes_asleep: u32,
    /// Part of `energy`: of nodes asleep.
    pub asleep_energy: Energy,
    /// Part of `energy`: of nodes on the way to sleep and back.
    pub switching_energy: Energy,
}

/// Most unreachable nodes in a [`Status`].
pub const UNREACHABLE_LIMIT: usize = 100;

/// Most nodes with jobs of other journals in a [`Status`].
pub const FOREIGN_LIMIT: usize = 100;

/// Jobs that a node had from another master or an earlier state of this one. The node has ended them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignReport {
    /// Name of the node.
    pub node: String,
    /// When it reported them last.
    pub at: Time,
    /// How many it reported then.
    pub jobs: u32,
}

/// What became of the budget whose period runs, until [`Status::now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAccount {
    /// The period and its energy.
    pub budget: Budget,
    /// What of it has become available.
    pub released: Energy,
    /// By the whole cluster: as the master believes it up to the last monitoring stage, over-estimated since.
    pub spent: Energy,
    /// What of the released energy the policy keeps for the first waiting job.
    pub reserved: Energy,
}
