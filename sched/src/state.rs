//! Everything that is recorded: settings, nodes, jobs, sums. Changed by events and by executed plans only.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    Attempt, Band, Curve, Estimate, JobId, Memory, NodeId, NodeSpec, Placement, Power, Price, Profile, ProfileKey,
    Request, Span, Time, UnitId, UnitSpec,
};
use serde::{Deserialize, Serialize};

use crate::account::Bill;
use crate::options::{Mode, ModeSetting, Options, Preset};
use crate::round::{Finished, StopReason, Wait};

/// The whole recorded state. Its serialized form is a snapshot of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<Node>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// Waiting jobs. A number is given at submission, so the order of numbers is the order of submission, and a job
    /// that was taken back has its old place.
    pub(crate) queue: BTreeSet<JobId>,
    /// Starting and running jobs.
    pub(crate) active: BTreeSet<JobId>,
    pub(crate) next_job: u64,
    #[serde(with = "pairs")]
    pub(crate) profiles: BTreeMap<ProfileKey, Profile>,
    pub(crate) sums: Sums,
    /// Over since the last round.
    pub(crate) finished: Vec<Finished>,
    /// Whether something happened that a plan could depend on.
    pub(crate) dirty: bool,
    pub(crate) wake_at: Option<Time>,
}

/// What operators and prices decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub preset: Preset,
    pub options: Options,
    pub mode_setting: ModeSetting,
    /// The mode in force; with [`ModeSetting::Auto`] it follows the price, with hysteresis.
    pub mode: Mode,
    pub limits: Curve<Band>,
    pub prices: Option<Curve<Price>>,
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
            prices: None,
        }
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
    pub(crate) drained: Option<Drained>,
    pub(crate) suspect_until: Option<Time>,
    pub(crate) reading: Option<Reading>,
    pub(crate) units: Vec<UnitUse>,
    pub(crate) memory_used: Memory,
    /// The believed draw, and since when it holds.
    pub(crate) draw: Power,
    pub(crate) draw_since: Time,
    pub(crate) bill: Bill,
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

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnitUse {
    pub cores: u32,
    pub jobs: BTreeSet<JobId>,
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
    /// Why it shall end, and whether the command to end it was given.
    pub stop: Option<(StopReason, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub started: Time,
    /// Whether a reading of its node contains it.
    pub visible: bool,
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

    /// When it is expected to end, seen from `now`. A job that is over its time is expected to take as long again as it
    /// has been over it, and at least a twentieth of its time: nothing better is known, and it has not ended.
    pub(crate) fn expected_end(&self, now: Time) -> Option<Time> {
        let (assignment, from) = match &self.phase {
            Phase::Waiting(_) => return None,
            Phase::Starting(assignment) => (assignment, assignment.assigned),
            Phase::Running(assignment, running) => (assignment, running.started),
        };
        let end = from + assignment.estimate.duration;
        let least = assignment.estimate.duration.scaled(1, 20).max(Span::from_ms(1));
        Some(if end > now { end } else { now + (now - end).max(least) })
    }
}

impl Assignment {
    /// Its expected draw on `node`: an even share for each part.
    pub(crate) fn draw_on(&self, node: NodeId) -> Power {
        let here = self.placement.iter().filter(|part| part.unit.node == node).count();
        let count = |parts: usize| i64::try_from(parts).unwrap_or(i64::MAX);
        self.estimate.power.scaled(count(here), count(self.placement.len()))
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
        self.drained.as_ref()
    }

    pub fn is_suspect(&self, now: Time) -> bool {
        self.suspect_until.is_some_and(|until| now < until)
    }

    /// Whether it may get new jobs.
    pub fn is_available(&self, now: Time) -> bool {
        self.connected && self.drained.is_none() && !self.is_suspect(now)
    }

    pub fn draw(&self) -> Power {
        self.draw
    }

    /// Whether `draw` comes from a reading.
    pub fn is_measured(&self, now: Time, stale_after: Span) -> bool {
        self.reading.is_some_and(|reading| now - reading.at <= stale_after)
    }

    pub fn bill(&self) -> &Bill {
        &self.bill
    }

    pub fn memory_used(&self) -> Memory {
        self.memory_used
    }

    /// Each unit with what is used of it.
    pub fn units(&self) -> impl Iterator<Item = (UnitId, &UnitSpec, &UnitUse)> {
        let id = |index: usize| UnitId { node: self.id, unit: u16::try_from(index).unwrap_or(u16::MAX) };
        self.spec.units.iter().zip(&self.units).enumerate().map(move |(index, (spec, used))| (id(index), spec, used))
    }
}

impl State {
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Active jobs with a part on `node`.
    pub(crate) fn jobs_on(&self, node: NodeId) -> BTreeSet<JobId> {
        self.node(node)
            .into_iter()
            .flat_map(|node| node.units.iter().flat_map(|unit| unit.jobs.iter().copied()))
            .collect()
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
