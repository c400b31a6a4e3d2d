//! Everything that is recorded: settings, nodes, jobs, sums. Changed by events and by executed plans only.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    Attempt, Band, Budgets, Curve, Energy, Estimate, JobId, Meter, NodeId, NodeSpec, Part, Placement, Power, Price,
    Profile, ProfileKey, Request, Span, Time, UnitId, UnitSpec, width,
};
use serde::{Deserialize, Serialize};

use crate::account::{Bill, NodeSums};
use crate::budget::Spending;
use crate::index::Index;
use crate::options::{Mode, ModeSetting, Options, Preset};
use crate::round::{Account, Finished, StopReason, Wait};
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
    /// Who set or forgot the prices last; empty where nobody ever did.
    #[serde(default)]
    pub prices_by: String,
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
            prices_by: String::new(),
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
    pub(crate) caps: Caps,
    /// What it was told that it has not confirmed, and by how much its readings are off until then.
    pub(crate) unseen: Vec<(Change, Power)>,
}

/// What a node confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    Caps,
    /// A job stands still, or goes on.
    Pause(JobId),
}

/// The caps of a node's units, as they were told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Caps {
    /// By unit; shorter where the rest has none.
    pub limits: Vec<Option<Power>>,
    pub generation: u64,
    /// When they last changed.
    pub changed: Time,
    /// Units, by index, whose cap the node could not set.
    pub failed: BTreeSet<u16>,
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
    /// What attempts used from which it was taken to run again.
    pub(crate) lost: Account,
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
    /// Its processes stand still, since then; it keeps its cores and its memory.
    Suspended(Assignment, Running, Time),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub attempt: Attempt,
    pub placement: Placement,
    /// As it was started.
    pub estimate: Estimate,
    /// Draw above idle that is expected of it now: the estimate, corrected by readings, under the caps of now; none while
    /// it is suspended.
    pub draw: Power,
    /// By how much suspension and changed caps put off its expected end, and its time limit.
    pub held: Span,
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
    /// What readings say that it draws, in thousandths of what is expected of it.
    pub measured_permille: i64,
    /// What it used until `since`, from when on it draws what is expected of it now.
    pub spent: Energy,
    pub since: Time,
    /// Since when it runs without a pause.
    pub resumed: Time,
    /// Whether it runs as it was started.
    pub steady: bool,
}

impl Running {
    /// What it used until now, as far as is expected of it.
    pub fn used(&self, assignment: &Assignment, now: Time) -> Energy {
        self.spent + assignment.draw * (now - self.since)
    }

    pub(crate) fn from(now: Time) -> Self {
        Self {
            started: now,
            seen_on: BTreeSet::new(),
            measured_permille: 1_000,
            spent: Energy::ZERO,
            since: now,
            resumed: now,
            steady: true,
        }
    }
}

impl Job {
    pub fn assignment(&self) -> Option<&Assignment> {
        match &self.phase {
            Phase::Waiting(_) => None,
            Phase::Starting(assignment) | Phase::Running(assignment, _) | Phase::Suspended(assignment, ..) => {
                Some(assignment)
            }
        }
    }

    /// Since it began, where it did.
    pub fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Waiting(_) | Phase::Starting(_) => None,
            Phase::Running(_, running) | Phase::Suspended(_, running, _) => Some(running),
        }
    }

    pub(crate) fn running_mut(&mut self) -> Option<(&mut Assignment, &mut Running)> {
        match &mut self.phase {
            Phase::Waiting(_) | Phase::Starting(_) => None,
            Phase::Running(assignment, running) | Phase::Suspended(assignment, running, _) => {
                Some((assignment, running))
            }
        }
    }

    pub(crate) fn assignment_mut(&mut self) -> Option<&mut Assignment> {
        match &mut self.phase {
            Phase::Waiting(_) => None,
            Phase::Starting(assignment) | Phase::Running(assignment, _) | Phase::Suspended(assignment, ..) => {
                Some(assignment)
            }
        }
    }

    /// When its estimate ends, from its start on. A suspended job has no end.
    pub(crate) fn estimated_end(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting(_) | Phase::Suspended(..) => None,
            Phase::Starting(assignment) => Some(assignment.assigned + assignment.estimate.duration + assignment.held),
            Phase::Running(assignment, running) => {
                Some(running.started + assignment.estimate.duration + assignment.held)
            }
        }
    }

    /// When it reaches its time limit, if nobody has told it to end.
    pub(crate) fn limit_end(&self) -> Option<Time> {
        match &self.phase {
            Phase::Running(assignment, running) if assignment.stop.is_none() => {
                self.request.time_limit.map(|limit| running.started + limit + assignment.held.max(Span::ZERO))
            }
            _ => None,
        }
    }

    /// When it is expected to end, seen from `now`. A job that is over its time is expected to take as long again as it
    /// has been over it, and at least a twentieth of its time: nothing better is known, and it has not ended.
    pub(crate) fn expected_end(&self, now: Time) -> Option<Time> {
        let duration = self.assignment()?.estimate.duration;
        let least = duration.scaled(1, 20).max(Span::from_ms(1));
        if let Phase::Suspended(assignment, running, since) = &self.phase {
            // As if it went on now: nobody knows when it will.
            let end = running.started + assignment.estimate.duration + assignment.held;
            return Some(now + (end - *since).max(least));
        }
        let end = self.estimated_end()?;
        Some(if end > now { end } else { now + (now - end).max(least) })
    }

    /// Whether it has a unit, nobody has told it to end, and it is not suspended.
    pub(crate) fn is_active_and_kept(&self) -> bool {
        let kept = self.assignment().is_some_and(|assignment| assignment.stop.is_none());
        kept && !matches!(self.phase, Phase::Suspended(..))
    }

    /// Whether it runs and nobody has told it to end.
    pub(crate) fn is_running_on(&self) -> bool {
        matches!(&self.phase, Phase::Running(assignment, _) if assignment.stop.is_none())
    }
}

impl Assignment {
    /// Its part, where it is on one unit of one node: only such a job is held at caps.
    pub(crate) fn sole_part(&self) -> Option<&Part> {
        match &self.placement[..] {
            [part] if part.count == 1 => Some(part),
            _ => None,
        }
    }

    /// Its expected draw on each node of each of its parts: an even share.
    pub(crate) fn share(&self) -> Power {
        self.draw.scaled(1, i64::from(width(&self.placement)))
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

    /// The cap of a unit.
    pub fn cap(&self, unit: u16) -> Option<Power> {
        self.caps.limits.get(usize::from(unit)).copied().flatten()
    }

    /// The caps of its units, as they were told last, and the number of that telling.
    pub fn caps(&self) -> (u64, Vec<Option<Power>>) {
        (
            self.caps.generation,
            (0..self.spec.units.len()).map(|unit| self.caps.limits.get(unit).copied().flatten()).collect(),
        )
    }

    /// The lowest and the highest cap of a unit, where it can be capped.
    pub(crate) fn cap_range(&self, unit: u16) -> Option<(Power, Power)> {
        let range = self.spec.units.get(usize::from(unit))?.caps;
        range.filter(|_| !self.caps.failed.contains(&unit))
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
