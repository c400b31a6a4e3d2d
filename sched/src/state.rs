//! Everything that is recorded: settings, nodes, jobs, sums. Changed by events and by executed plans only.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    Attempt, Band, Budgets, Curve, Estimate, JobId, Meter, NodeId, NodeSpec, Placement, Power, Price, Profile,
    ProfileKey, Request, Span, Time, UnitId, UnitSpec, width,
};
use serde::{Deserialize, Serialize};

use crate::account::{Bill, NodeSums};
use crate::budget::Spending;
use crate::index::Index;
use crate::options::{Mode, ModeSetting, Options, Preset};
use crate::round::{Finished, StopReason, Wait};
use crate::structure::{JobMap, JobSet};

/// The whole recorded state. Its serialized form is a snapshot of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<Node>,
    /// In boxes: a job is too large to be moved about with its neighbours.
    pub(crate) jobs: JobMap<Box<Job>>,
    /// Waiting jobs. A number is given at submission, so the order of numbers is the order of submission, and a job
    /// that was taken back has its old place.
    pub(crate) queue: JobSet,
    /// Starting and running jobs.
    pub(crate) active: JobSet,
    pub(crate) next_job: u64,
    #[serde(with = "pairs")]
    pub(crate) profiles: BTreeMap<ProfileKey, Profile>,
    pub(crate) sums: Sums,
    /// What jobs drew on each node while no reading of it showed them: settled when they end or become visible.
    pub(crate) job_energy: NodeSums,
    pub(crate) job_cost: NodeSums,
    /// Over since the last round.
    pub(crate) finished: Vec<Finished>,
    /// Whether something happened that a plan could depend on.
    pub(crate) dirty: bool,
    pub(crate) wake_at: Option<Time>,
    pub(crate) spending: Spending,
    /// What can be found again from all the others: not part of a snapshot.
    #[serde(skip)]
    pub(crate) index: Index,
}

/// What operators and prices decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub preset: Preset,
    pub options: Options,
    pub mode_setting: ModeSetting,
    /// The mode in force; with [`ModeSetting::Auto`] it follows the price, with hysteresis.
    pub mode: Mode,
    /// In force.
    pub limits: Curve<Band>,
    /// What the operator set, while the grid's limits hold in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_limits: Option<Curve<Band>>,
    pub prices: Option<Curve<Price>>,
    pub budgets: Budgets,
}

impl Default for Settings {
    /// Without limits and prices nothing holds a job back.
    fn default() -> Self {
        Self {
            preset: Preset::Limo,
            options: Options::default(),
            mode_setting: ModeSetting::Auto,
            mode: Mode::High,
            limits: Curve::constant(Band::UNLIMITED),
            own_limits: None,
            prices: None,
            budgets: Budgets::default(),
        }
    }
}

impl Settings {
    /// What the operator allows, whether or not the grid allows as much.
    pub fn operator_limits(&self) -> &Curve<Band> {
        self.own_limits.as_ref().unwrap_or(&self.limits)
    }
}

/// Sums over the cluster since the journal began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sums {
    /// The believed draw, kept up to date.
    pub draw: Power,
    /// Since when `draw` holds.
    pub since: Time,
    pub bill: Bill,
    pub jobs_cost: limo_model::Money,
    pub jobs_start_now_cost: limo_model::Money,
    /// Time with limits, and the part of it with the draw inside them.
    pub limited: Span,
    pub inside: Span,
    pub rejected_plans: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) spec: NodeSpec,
    pub(crate) connected: bool,
    pub(crate) drained: Option<Box<Drained>>,
    pub(crate) suspect_until: Option<Time>,
    pub(crate) sleep: Sleep,
    pub(crate) reading: Option<Reading>,
    /// What it draws apart from jobs that no reading of it shows: its fresh reading, else its idle or sleeping draw.
    pub(crate) own: Power,
    /// What `own` came to until `since`.
    pub(crate) bill: Bill,
    pub(crate) since: Time,
    /// Since when no job is on it.
    pub(crate) idle_since: Time,
}

/// Whether a node is on. Switching is a state of the node, never a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sleep {
    #[default]
    Awake,
    GoingDown,
    Asleep,
    Waking,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    pub reason: String,
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub draw: Power,
    pub at: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub request: Request,
    pub submitted: Time,
    /// Attempts made so far.
    pub attempts: u32,
    pub phase: Phase,
}

/// Where a job is in its life. A finished job is no longer in the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// With the reason last told, once a round has looked at it.
    Waiting(Option<Wait>),
    /// Assigned; its node has not said that it runs.
    Starting(Assignment),
    Running(Assignment, Running),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub attempt: Attempt,
    pub placement: Placement,
    pub estimate: Estimate,
    pub assigned: Time,
    /// Since when its draw is taken from its estimate on the nodes whose readings do not show it.
    pub(crate) hidden_since: Time,
    /// Why it shall end, and whether the command to end it was given.
    pub stop: Option<(StopReason, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub started: Time,
    /// The nodes of which a reading contains it.
    pub seen_on: BTreeSet<NodeId>,
}

impl Job {
    pub fn assignment(&self) -> Option<&Assignment> {
        match &self.phase {
            Phase::Waiting(_) => None,
            Phase::Starting(assignment) | Phase::Running(assignment, _) => Some(assignment),
        }
    }

    pub(crate) fn assignment_mut(&mut self) -> Option<&mut Assignment> {
        match &mut self.phase {
            Phase::Waiting(_) => None,
            Phase::Starting(assignment) | Phase::Running(assignment, _) => Some(assignment),
        }
    }

    /// When its estimate ends, from its start on.
    pub(crate) fn estimated_end(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting(_) => None,
            Phase::Starting(assignment) => Some(assignment.assigned + assignment.estimate.duration),
            Phase::Running(assignment, running) => Some(running.started + assignment.estimate.duration),
        }
    }

    /// When it reaches its time limit, if nobody has told it to end.
    pub(crate) fn limit_end(&self) -> Option<Time> {
        match &self.phase {
            Phase::Running(assignment, running) if assignment.stop.is_none() => {
                self.request.time_limit.map(|limit| running.started + limit)
            }
            _ => None,
        }
    }

    /// When it is expected to end, seen from `now`. A job that is over its time is expected to take as long again as it
    /// has been over it, and at least a twentieth of its time: nothing better is known, and it has not ended.
    pub(crate) fn expected_end(&self, now: Time) -> Option<Time> {
        let end = self.estimated_end()?;
        let duration = self.assignment()?.estimate.duration;
        let least = duration.scaled(1, 20).max(Span::from_ms(1));
        Some(if end > now { end } else { now + (now - end).max(least) })
    }
}

impl Assignment {
    /// Its expected draw on each node of each of its parts: an even share.
    pub(crate) fn share(&self) -> Power {
        self.estimate.power.scaled(1, i64::from(width(&self.placement)))
    }

    /// Its expected draw on `node`.
    pub(crate) fn draw_on(&self, node: NodeId) -> Power {
        let parts = self.placement.iter().filter(|part| part.is_on(node)).count();
        self.share().scaled(i64::try_from(parts).unwrap_or(i64::MAX), 1)
    }
}

impl Node {
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn is_connected(&self) -> bool {
        self.connected
    }

    pub fn drained(&self) -> Option<&Drained> {
        self.drained.as_deref()
    }

    pub fn is_suspect(&self, now: Time) -> bool {
        self.suspect_until.is_some_and(|until| now < until)
    }

    /// Whether it may get new jobs.
    pub fn is_available(&self, now: Time) -> bool {
        self.connected && self.drained.is_none() && !self.is_suspect(now)
    }

    /// Whether its believed draw comes from a reading.
    pub fn is_measured(&self, now: Time, stale_after: Span) -> bool {
        self.reading.is_some_and(|reading| now - reading.at <= stale_after)
    }

    pub fn sleep(&self) -> Sleep {
        self.sleep
    }

    /// Whether a job could be put on it at once.
    pub(crate) fn is_usable(&self, now: Time) -> bool {
        self.is_available(now) && self.sleep == Sleep::Awake
    }

    /// Its draw with no job on it and no reading.
    pub(crate) fn still_draw(&self) -> Power {
        match (self.sleep, &self.spec.rest) {
            (Sleep::GoingDown, Some(rest)) => rest.down.draw,
            (Sleep::Asleep, Some(rest)) => rest.draw,
            (Sleep::Waking, Some(rest)) => rest.up.draw,
            _ => self.spec.idle,
        }
    }

    /// Each unit.
    pub fn units(&self) -> impl Iterator<Item = (UnitId, &UnitSpec)> {
        let id = |index: usize| UnitId { node: self.id, unit: u16::try_from(index).unwrap_or(u16::MAX) };
        self.spec.units.iter().enumerate().map(move |(index, spec)| (id(index), spec))
    }
}

impl State {
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Active jobs with a part on `node`. Nodes without a meter have no list of their own: every active job is looked at.
    pub(crate) fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        let metered = self.node(node).is_some_and(|node| node.spec.meter != Meter::None);
        if metered {
            let (first, last) = ((node, JobId(0)), (node, JobId(u64::MAX)));
            return self.index.occupants.range(first..=last).map(|(_, job)| *job).collect();
        }
        let is_on = |id: &JobId| {
            let assignment = self.jobs.get(*id).and_then(|job| job.assignment());
            assignment.is_some_and(|assignment| assignment.placement.iter().any(|part| part.is_on(node)))
        };
        self.active.iter().filter(is_on).collect()
    }
}

/// Maps whose keys are structs, as lists of pairs: the keys of a JSON object are strings.
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
