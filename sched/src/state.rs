//! The recorded state: settings, nodes, jobs, sums. Only events and executed plans change it.

mod activities;
mod array;
mod arrivals;
mod clock;
mod groups;
mod job;
mod learned;
mod margin;
mod node;
mod parts;
mod program;
mod ranking;
mod reliefs;
mod sessions;
mod slept;
mod steps;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    Accounts, AdmissionRule, Band, Budgets, Curve, Fairshare, Groups, IdleRule, JobId, JobShare, Lease, Licences, Mode,
    ModeSetting, Money, NodeId, OrderRule, Parts, PlacementRule, Power, Preset, Price, Profile, ProfileKey, QosClasses,
    Queues, Quotas, Reservation, Slowdown, SlowdownKey, Span, Time, UnitId, UnitSpec, Variation, nodes,
};
use serde::{Deserialize, Serialize};

use crate::account::{Bill, NodeSums};
use crate::budget::Spending;
use crate::options::{Options, PoolRank};
use crate::round::{Await, Finished};
use crate::structure::{JobMap, JobSet, Queue};

pub(crate) use array::array_of;
pub use array::{Array, Ended};
pub use arrivals::Arrivals;
pub use clock::Clock;
pub use job::{Assignment, Job, Phase, Running};
pub(crate) use learned::{LearnedValues, hour_of_week};
pub(crate) use margin::JobMargin;
pub(crate) use node::Change;
pub use node::{Drained, Held, Node, Owner, Reading, Sleep};
pub use parts::{PartEnd, joined};
pub(crate) use program::Program;
pub use program::SearchResult;
pub(crate) use ranking::Ranking;
pub use reliefs::Reliefs;
pub(crate) use sessions::{SessionBegins, group_place};
pub use slept::Slept;
pub(crate) use steps::{StepSums, Steps};
pub use users::{Charge, Payer, Used};

/// The whole recorded state. Its serialized form is a snapshot of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<Node>,
    /// The jobs are boxed, because they are too large to be moved together with their neighbours.
    pub(crate) jobs: JobMap<Box<Job>>,
    /// Waiting jobs. Job numbers are in the order of submission, and a job that was taken back keeps its place. Jobs
    /// are ranked by priority if their priorities differ.
    pub(crate) queue: Queue,
    /// Waiting jobs that may not run yet. Policies do not see them.
    #[serde(default, skip_serializing_if = "JobSet::is_empty")]
    pub(crate) blocked: JobSet,
    /// Arrays that are not over, by their own number. Only a few of their tasks are jobs at a time.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) arrays: BTreeMap<JobId, Array>,
    /// Starting and running jobs.
    pub(crate) active: JobSet,
    pub(crate) next_job: u64,
    #[serde(with = "pairs")]
    pub(crate) profiles: BTreeMap<ProfileKey, Profile>,
    /// Differences of units from the profiles of their hardware.
    #[serde(default, skip_serializing_if = "Variation::is_empty")]
    pub(crate) variation: Variation,
    /// Laws of the slowdown by caps, set by operators.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slowdowns: BTreeMap<SlowdownKey, Slowdown>,
    pub(crate) sums: Sums,
    /// Energy of jobs on each node while no reading showed them; settled when they end or a reading shows them.
    pub(crate) job_energy: NodeSums,
    pub(crate) job_cost: NodeSums,
    /// Jobs that ended since the last round.
    pub(crate) finished: Vec<Finished>,
    /// Jobs that persons suspended, without a command to their nodes so far.
    #[serde(default, skip_serializing_if = "JobSet::is_empty")]
    pub(crate) to_suspend: JobSet,
    /// True if an event has happened that could change a plan.
    pub(crate) dirty: bool,
    pub(crate) wake_at: Option<Time>,
    pub(crate) spending: Spending,
    /// Reservations that are not over, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reservations: BTreeMap<String, Reservation>,
    /// Time up to which begins and ends of reservations were handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boundaries_seen: Option<Time>,
    #[serde(default, skip_serializing_if = "Ranking::is_idle")]
    pub(crate) ranking: Ranking,
    /// Blocked jobs that only wait for a quota.
    #[serde(default, skip_serializing_if = "JobSet::is_empty")]
    pub(crate) over_quota: JobSet,
    /// Blocked jobs that only wait for their licences.
    #[serde(default, skip_serializing_if = "JobSet::is_empty")]
    pub(crate) over_licence: JobSet,
    /// The charge of each running or queued job to its quotas.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) charges: BTreeMap<JobId, Charge>,
    /// Usage by user name, recorded while quotas or shares exist.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) used: BTreeMap<String, Used>,
    /// Usage by account and user, recorded likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) account_used: BTreeMap<String, BTreeMap<String, Used>>,
    #[serde(default, skip_serializing_if = "Clock::is_default")]
    pub(crate) clock: Clock,
    /// Starts whose last confirmation has come, and whose nodes did not get the command yet.
    #[serde(default, skip_serializing_if = "JobSet::is_empty")]
    pub(crate) to_release: JobSet,
    /// Unconfirmed orders that lower the draw.
    #[serde(default, skip_serializing_if = "Reliefs::is_empty")]
    pub(crate) reliefs: Reliefs,
    /// The search of the order `program`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<Box<Program>>,
    /// Begins of sessions, while they are ranked: for nodes in no group, then for each group in the order of names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) session_begins: Vec<SessionBegins>,
    /// Values of the rank `learned`: of nodes in no group, then of each group in the order of names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) learned: Vec<LearnedValues>,
    /// Steps of running jobs.
    #[serde(default, skip_serializing_if = "Steps::is_idle")]
    pub(crate) steps: Steps,
}

/// The choices of operators, and the mode that follows from prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub preset: Preset,
    pub options: Options,
    pub mode_setting: ModeSetting,
    /// The mode in force; with [`ModeSetting::Auto`] it follows the price, with hysteresis.
    pub mode: Mode,
    /// Limits in force.
    pub limits: Curve<Band>,
    /// The operator's limits, while limits of the grid replace them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_limits: Option<Curve<Band>>,
    pub prices: Option<Curve<Price>>,
    /// The user who set or removed the prices last; empty if they were never set.
    #[serde(default)]
    pub prices_by: String,
    pub budgets: Budgets,
    #[serde(default, skip_serializing_if = "Quotas::is_empty")]
    pub quotas: Quotas,
    #[serde(default, skip_serializing_if = "Queues::is_empty")]
    pub queues: Queues,
    #[serde(default, skip_serializing_if = "Groups::is_empty")]
    pub groups: Groups,
    #[serde(default, skip_serializing_if = "Licences::is_empty")]
    pub licences: Licences,
    #[serde(default, skip_serializing_if = "Accounts::is_empty")]
    pub accounts: Accounts,
    #[serde(default, skip_serializing_if = "QosClasses::is_empty")]
    pub qos: QosClasses,
    /// Users whose submissions are refused.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub denied: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Fairshare::is_default")]
    pub fairshare: Fairshare,
    /// The lease that a requeueable job gets at its assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Share of the jobs that allow it that explore caps.
    #[serde(default, skip_serializing_if = "JobShare::is_none")]
    pub explore: JobShare,
    /// Arrivals under the order `by-arrivals`; empty under others.
    #[serde(default, skip_serializing_if = "Arrivals::is_empty")]
    pub arrivals: Arrivals,
}

impl Settings {
    /// Returns the parts of the policy as they were chosen.
    pub fn chosen_parts(&self) -> Parts {
        self.options.parts_of(self.preset)
    }

    pub(crate) fn is_by_arrivals(&self) -> bool {
        self.chosen_parts().order == OrderRule::ByArrivals
    }

    /// Returns the parts in force now. A group may let its nodes sleep under each policy.
    pub fn parts(&self) -> Parts {
        let parts = self.chosen_parts().at_arrivals(self.arrivals.are_rare());
        if self.groups.put_to_sleep() { Parts { idle: IdleRule::PowerOff, ..parts } } else { parts }
    }

    /// Returns the highest estimated draw that the admission allows under a band: the upper limit, or its multiple.
    pub(crate) fn ceiling(&self, band: Band) -> Power {
        let high = band.high();
        match self.parts().admission {
            // DEC starts nothing above the limit.
            AdmissionRule::Relaxed if self.is_by_arrivals() && !self.arrivals.are_rare() => high,
            AdmissionRule::Relaxed => high.scaled(self.options.relaxed_factor.into(), 1),
            _ => high,
        }
    }
}

impl Default for Settings {
    /// Returns settings without limits and prices; they block no job.
    fn default() -> Self {
        Self {
            preset: Preset::DEFAULT,
            options: Options::default(),
            mode_setting: ModeSetting::Auto,
            mode: Mode::High,
            limits: Curve::constant(Band::UNLIMITED),
            own_limits: None,
            prices: None,
            prices_by: String::new(),
            budgets: Budgets::default(),
            quotas: Quotas::default(),
            queues: Queues::default(),
            groups: Groups::default(),
            licences: Licences::default(),
            accounts: Accounts::default(),
            qos: QosClasses::default(),
            denied: BTreeSet::new(),
            fairshare: Fairshare::default(),
            lease: None,
            explore: JobShare::NONE,
            arrivals: Arrivals::default(),
        }
    }
}

impl Settings {
    /// Returns the operator's limits, even while limits of the grid replace them.
    pub fn operator_limits(&self) -> &Curve<Band> {
        self.own_limits.as_ref().unwrap_or(&self.limits)
    }
}

/// Sums over the cluster since the journal began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sums {
    /// The believed draw, kept up to date.
    pub draw: Power,
    /// Time since which `draw` holds.
    pub since: Time,
    pub bill: Bill,
    /// Sum over the jobs with a known cost.
    pub jobs_cost: Option<Money>,
    pub jobs_start_now_cost: Option<Money>,
    /// Time with limits, and the part of it in which the draw was within them.
    pub limited: Span,
    pub inside: Span,
    pub rejected_plans: u64,
    /// Part of `draw` that begins later: jobs wait for their nodes to wake.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub pending: Power,
}

impl Sums {
    /// The believed draw now; `draw` also contains the draw of jobs that start later.
    pub fn drawn(&self) -> Power {
        self.draw - self.pending
    }
}

impl State {
    /// Returns the result of the last search of the order `program`, if there are jobs to put in order.
    pub fn search(&self) -> Option<SearchResult> {
        self.program.as_ref().map(|program| program.found)
    }

    /// Adds a finished job to those that the next round reports. Mostly it is the only one.
    pub(crate) fn finish(&mut self, finished: Finished) {
        if self.finished.is_empty() {
            self.finished.reserve_exact(1);
        }
        self.finished.push(finished);
    }

    /// Returns true if a job waits in the line of a quota, or of its licences.
    pub(crate) fn is_in_line(&self, id: JobId) -> bool {
        self.over_quota.contains(id) || self.over_licence.contains(id)
    }

    /// Returns true if begins of sessions are ranked.
    pub(crate) fn counts_begins(&self) -> bool {
        self.ranks_by(PoolRank::S6)
    }

    /// Returns true if ends of attempts change the ranks of groups.
    pub(crate) fn learns(&self) -> bool {
        self.ranks_by(PoolRank::Learned)
    }

    fn ranks_by(&self, rank: PoolRank) -> bool {
        self.settings.chosen_parts().placement == PlacementRule::Pool && self.settings.options.pool.rank == rank
    }

    /// Returns what the rank `learned` knows about a group at an hour of the week.
    pub(crate) fn learned_at(&self, group: Option<u16>, hour: u8) -> i32 {
        self.learned.get(group_place(group)).map_or(0, |values| values.at(hour))
    }

    /// Returns the number of sessions that lately began in a group.
    pub(crate) fn lately_begun(&self, group: Option<u16>, now: Time) -> u64 {
        let begins = self.session_begins.get(group_place(group));
        begins.map_or(0, |begins| begins.within(now, self.settings.options.pool.window))
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    pub(crate) fn unit(&self, id: UnitId) -> Option<&UnitSpec> {
        self.node(id.node)?.spec.units.get(usize::from(id.unit))
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Returns the power that unconfirmed orders free: those on which a start may count, and the others, which are
    /// overdue or to nodes that are away.
    pub(crate) fn relief(&self) -> (Power, Power) {
        self.reliefs_that(|_| true)
    }

    /// Returns the same for orders to any of the nodes that `is_in` accepts.
    pub(crate) fn relief_in(&self, is_in: impl Fn(&Node) -> bool) -> (Power, Power) {
        self.reliefs_that(|awaited| self.awaited_nodes(awaited).any(&is_in))
    }

    fn reliefs_that(&self, counts: impl Fn(&Await) -> bool) -> (Power, Power) {
        let is_away = |awaited: &Await| self.awaited_nodes(awaited).any(|node| !node.connected);
        self.reliefs.power(counts, is_away)
    }

    /// Returns the expected draw of starts that end before they begin.
    pub(crate) fn never_begins(&self) -> Power {
        let assignments = self.active.iter().filter_map(|id| self.jobs.get(id)?.assignment());
        assignments.filter(|assignment| assignment.stop.is_some()).map(|assignment| assignment.pending).sum()
    }

    /// Returns the nodes that must give a confirmation.
    pub(crate) fn awaited_nodes<'a>(&'a self, awaited: &Await) -> impl Iterator<Item = &'a Node> + use<'a> {
        let (node, job) = match awaited {
            Await::Capped { node, .. } => (Some(*node), None),
            Await::Paused { job, .. } => (None, self.jobs.get(*job).and_then(|job| job.assignment())),
        };
        let placement = job.map_or(&[][..], |assignment| &assignment.placement);
        node.into_iter().chain(nodes(placement)).filter_map(|node| self.node(node))
    }
}

pub(crate) fn is_nothing(power: &Power) -> bool {
    power.is_zero()
}

/// Stores maps with struct keys as lists of pairs, because the keys of a JSON object are strings.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Vec::<(K, V)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
    }
}
