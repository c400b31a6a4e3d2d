//! The report of a whole cluster.

use limo_model::{
    Band, Budget, Budgets, Energy, JobShare, Mode, ModeSetting, Money, Parts, Power, Preset, Price, REASON_LIMIT, Time,
};
use serde::{Deserialize, Serialize};

use crate::bound::clip_some;
use crate::groups::GroupDraw;
use crate::licences::LicenceReport;
use crate::outside::{FeedReport, GridReport, MeterReport};
use crate::report::UnreachableReport;

/// Present state of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Cluster time of this report.
    pub now: Time,
    /// The policy in force.
    pub policy: Preset,
    /// The mode in force.
    pub mode: Mode,
    /// The operator's setting.
    pub mode_setting: ModeSetting,
    /// The limits in force.
    pub band: Band,
    /// The budget periods that are not over.
    pub budgets: Budgets,
    /// The account of the current period.
    pub account: Option<BudgetAccount>,
    /// The next change of the limits.
    pub next_band: Option<(Time, Band)>,
    /// End of the operator's limits, if they have ended.
    pub limits_ended: Option<Time>,
    /// The price in force, if one is known.
    pub price: Option<Price>,
    /// The next change of the price; to `None` at the end of the prices.
    pub next_price: Option<(Time, Option<Price>)>,
    /// End of the prices, if they have ended.
    pub prices_ended: Option<Time>,
    /// Believed draw of the cluster, `held` included.
    pub draw: Power,
    /// Part of `draw` that is idle draw of registered nodes.
    pub idle: Power,
    /// Waiting jobs; each task of an array counts.
    pub waiting: u64,
    /// Jobs on nodes: starting, running, suspended or stopping.
    pub running: u64,
    /// Connected nodes, including drained ones.
    pub nodes_up: u32,
    /// All known nodes.
    pub nodes: u32,
    /// True if any of the watts are modelled by emulated hardware.
    pub emulated: bool,
    /// Energy of the whole cluster since the journal began.
    pub energy: Energy,
    /// Cost for the time with a known price; `None` without any.
    pub cost: Option<Money>,
    /// Known costs of finished jobs, and their costs if each had started at once.
    pub jobs_cost: Option<Money>,
    /// See [`Status::jobs_cost`].
    pub jobs_start_now_cost: Option<Money>,
    /// Share of the time with the believed draw inside the band, in thousandths; since the limits were first set.
    pub in_band_permille: Option<u32>,
    /// Plans that the checker rejected.
    pub rejected_plans: u64,
    /// Reason why new jobs are refused, if they are.
    #[serde(serialize_with = "clip_some::<_, REASON_LIMIT>")]
    pub trouble: Option<String>,
    /// The operator who set the prices, if one did.
    pub prices_by: Option<String>,
    /// Feeds of prices, then of carbon intensities.
    pub feeds: Vec<FeedReport>,
    /// The operator's own band, if the grid's limits replace it.
    pub own_band: Option<Band>,
    /// Sources that may set limits, in the order of the configuration.
    pub grid: Vec<GridReport>,
    /// Meters of the master, each of which serves several nodes.
    pub meters: Vec<MeterReport>,
    /// Disconnected nodes with jobs or held draw, and connected ones with held draw. At most [`UNREACHABLE_LIMIT`].
    pub unreachable: Vec<UnreachableReport>,
    /// Sum of the held draw of lost nodes; part of `draw`.
    pub held: Power,
    /// Nodes that had jobs of other journals, at most [`FOREIGN_LIMIT`].
    pub foreign: Vec<ForeignReport>,
    /// Groups whose draw is limited.
    pub groups: Vec<GroupDraw>,
    /// Nodes that are asleep, falling asleep or waking. They are not up.
    pub nodes_asleep: u32,
    /// Part of `energy` used by nodes while asleep.
    pub asleep_energy: Energy,
    /// Part of `energy` used by nodes while falling asleep and waking.
    pub switching_energy: Energy,
    /// The parts of the policy in force: those of its preset, or others in their place.
    pub parts: Parts,
    /// Share of the jobs that allow it that explore caps.
    pub explore: JobShare,
    /// The configured licences.
    pub licences: Vec<LicenceReport>,
}

/// Most unreachable nodes in a [`Status`].
pub const UNREACHABLE_LIMIT: usize = 100;

/// Most nodes with jobs of other journals in a [`Status`].
pub const FOREIGN_LIMIT: usize = 100;

/// Jobs of a node from another master or an earlier state of this one. The node has ended them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignReport {
    /// Name of the node.
    pub node: String,
    /// Time of its last report of them.
    pub at: Time,
    /// Number of jobs in that report.
    pub jobs: u32,
}

/// The account of the current budget, until [`Status::now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAccount {
    /// The period and its energy.
    pub budget: Budget,
    /// Energy released so far.
    pub released: Energy,
    /// Energy used by the whole cluster: believed up to the last monitoring stage, and over-estimated since then.
    pub spent: Energy,
    /// Released energy that the policy keeps for the first waiting job.
    pub reserved: Energy,
}
