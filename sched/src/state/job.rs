//! The record of a job: its phase, and its expected values while it is on its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limo_model::{
    Attempt, Cause, Causes, Dependency, Energy, Estimate, Evictions, Kept, Lease, NodeId, Part, Placement, Power,
    Request, Span, StopReason, Time, UnitId, UsedUp, Wait, width,
};
use serde::{Deserialize, Serialize};

use super::margin::JobMargin;
use super::parts::PartEnd;
use super::steps::StepSums;
use crate::round::{Account, Await, NewLimit};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Request, shared by jobs with equal ones.
    pub request: Arc<Request>,
    pub submitted: Time,
    /// Attempts made so far.
    pub attempts: u32,
    /// Usage of attempts that were requeued.
    pub(crate) lost: Account,
    pub phase: Phase,
    /// Number of times that it was ended to run again.
    #[serde(default, skip_serializing_if = "crate::round::is_zero")]
    pub restarts: u32,
    #[serde(default, skip_serializing_if = "Evictions::is_none")]
    pub evictions: Evictions,
    /// Work of its earlier attempts that it does not repeat.
    #[serde(default, skip_serializing_if = "Kept::is_none")]
    pub kept: Kept,
    /// The user who holds it, if it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Dependencies on other jobs that are not met yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependency>,
    /// Time since which it may run, if that is after its submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) eligible: Option<Time>,
    /// Its steps so far, if it has had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) steps: Option<Box<StepSums>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_limit: Option<NewLimit>,
}

/// The phase of a job. A finished job is no longer in the state. Most jobs wait: only the others need memory for an
/// assignment and a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting, with the last reason given by a round.
    Waiting(Option<Wait>),
    /// Assigned; its node has not reported that it runs.
    Starting(Box<Assignment>),
    Running(Box<Assignment>, Box<Running>),
    /// Suspended for these causes; it keeps its cores and its memory.
    Suspended(Box<Assignment>, Box<Running>, Causes),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub attempt: Attempt,
    pub placement: Placement,
    /// Estimate at the start of the job.
    pub estimate: Estimate,
    /// Draw above idle that is expected now: the estimate, corrected by readings, under the present caps; zero while it
    /// is suspended.
    pub draw: Power,
    /// Draw of each unit, in the order of its placement; set even for an even division.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shares: Vec<Power>,
    /// Time by which suspension and changed caps delay its expected end and its time limit.
    pub held: Span,
    pub assigned: Time,
    /// Time since which its draw comes from its estimate, on nodes without readings that contain it.
    pub(crate) hidden_since: Time,
    /// Reason why it is to end, and true if the command was given.
    pub stop: Option<(StopReason, bool)>,
    /// Nodes on which its part has ended, while others still run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<PartEnd>,
    /// True if no other job may be on its nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Time for which its nodes may run it without the master. Only a requeueable job has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Confirmations for which its start still waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) after: Vec<Await>,
    /// Part of the expected draw that begins later, because one of its nodes is waking.
    #[serde(default, skip_serializing_if = "super::is_nothing")]
    pub(crate) pending: Power,
    /// True if it measures its application at its cap, which it requested or explores. The cap does not rise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub measures: bool,
    /// The margin of its prediction, if the margin of a sum of jobs is divided among them.
    #[serde(default, skip_serializing_if = "JobMargin::is_none")]
    pub(crate) margin: JobMargin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub started: Time,
    /// Nodes whose readings contain its draw.
    pub seen_on: BTreeSet<NodeId>,
    /// Draw by readings, in thousandths of the expected one.
    pub measured_permille: i64,
    /// The same of a job over several units, for nodes with other values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) measured_on: BTreeMap<NodeId, i64>,
    /// Energy used until `since`; from then on it draws the expected power.
    pub spent: Energy,
    pub since: Time,
    /// Time since which it runs without an interruption.
    pub resumed: Time,
    /// True if it still runs as it was started.
    pub steady: bool,
    /// True if it was warned of its time limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) warned: bool,
    /// Usage at the time of the report that the allowance is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_up: Option<UsedUp>,
    /// Time of the last change of its number of nodes, and its core time until then in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resized: Option<(Time, u64)>,
    /// Work of this attempt up to its last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<Kept>,
}

impl Running {
    /// Returns the core time until now, in milliseconds.
    pub(crate) fn core_ms(&self, assignment: &Assignment, now: Time) -> u64 {
        let (since, before) = self.resized.unwrap_or((self.started, 0));
        before.saturating_add(assignment.core_ms(now - since))
    }

    /// Returns the expected usage until now.
    pub fn used(&self, assignment: &Assignment, now: Time) -> Energy {
        self.spent + assignment.draw * (now - self.since)
    }

    /// Returns its draw on a node by readings, in thousandths of the expected one.
    pub(crate) fn measured(&self, node: NodeId) -> i64 {
        self.measured_on.get(&node).copied().unwrap_or(self.measured_permille)
    }

    pub(crate) fn from(now: Time) -> Self {
        Self {
            started: now,
            seen_on: BTreeSet::new(),
            measured_permille: 1_000,
            measured_on: BTreeMap::new(),
            spent: Energy::ZERO,
            since: now,
            resumed: now,
            steady: true,
            warned: false,
            used_up: None,
            resized: None,
            kept: None,
        }
    }
}

impl Job {
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    /// Returns the time since which it may run. A policy counts its wait from this time.
    pub fn eligible(&self) -> Time {
        self.eligible.unwrap_or(self.submitted)
    }

    pub fn assignment(&self) -> Option<&Assignment> {
        match &self.phase {
            Phase::Waiting(_) => None,
            Phase::Starting(assignment) | Phase::Running(assignment, _) | Phase::Suspended(assignment, ..) => {
                Some(assignment)
            }
        }
    }

    /// Returns the data since its begin, if it began.
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

    /// Returns the causes of its suspension, if it is suspended.
    pub fn causes(&self) -> Option<&Causes> {
        match &self.phase {
            Phase::Suspended(_, _, causes) => Some(causes),
            _ => None,
        }
    }

    /// Returns true if a person or an owner suspended it.
    pub(crate) fn is_paused(&self) -> bool {
        self.causes().is_some_and(Causes::free_power)
    }

    /// Returns the time at which an owner evicts it, unless it is being ended.
    pub(crate) fn evicted_at(&self) -> Option<Time> {
        self.causes()?.evicted_at().filter(|_| self.assignment().is_some_and(|assignment| assignment.stop.is_none()))
    }

    /// Returns true if it is suspended without a cause: the next plan decides about it.
    pub(crate) fn may_continue(&self) -> bool {
        let ends = self.assignment().is_some_and(|assignment| assignment.stop.is_some());
        !ends && self.causes().is_some_and(Causes::is_empty)
    }

    /// Returns true if it is assigned and must not run before a confirmation.
    pub(crate) fn is_awaiting(&self) -> bool {
        let awaits = |assignment: &Assignment| !assignment.after.is_empty() && assignment.stop.is_none();
        matches!(&self.phase, Phase::Starting(assignment) if awaits(assignment))
    }

    /// Returns the time since which it is suspended for the upper limit.
    pub(crate) fn limited_since(&self) -> Option<Time> {
        self.causes()?.since_of(Cause::Limit)
    }

    /// Returns the end of its estimate, counted from its start. A suspended job has none.
    pub(crate) fn estimated_end(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting(_) | Phase::Suspended(..) => None,
            Phase::Starting(assignment) => Some(assignment.assigned + assignment.estimate.duration + assignment.held),
            Phase::Running(assignment, running) => {
                Some(running.started + assignment.estimate.duration + assignment.held)
            }
        }
    }

    /// Returns the time of its time limit, unless it is being ended.
    pub(crate) fn limit_end(&self) -> Option<Time> {
        match &self.phase {
            Phase::Running(assignment, running) if assignment.stop.is_none() => {
                self.request.time_limit.map(|limit| running.started + limit + assignment.held.max(Span::ZERO))
            }
            _ => None,
        }
    }

    /// Returns the time of its warning before the time limit, if it is still due.
    pub(crate) fn warning_at(&self) -> Option<Time> {
        let before = self.request.warning?.before;
        let is_warned = self.running().is_some_and(|running| running.warned);
        self.limit_end().filter(|_| !is_warned).map(|end| end - before)
    }

    /// Returns true if its usage must be checked: it runs with an allowance, and was not reported yet.
    pub(crate) fn is_on_allowance(&self) -> bool {
        self.request.allowance.is_some()
            && self.is_running_on()
            && self.running().is_some_and(|running| running.used_up.is_none())
    }

    /// Returns the expected end, seen from `now`. An overdue job is expected to take as long again as it is overdue,
    /// and at least a twentieth of its time. No better estimate is known.
    pub(crate) fn expected_end(&self, now: Time) -> Option<Time> {
        let duration = self.assignment()?.estimate.duration;
        let least = || duration.scaled(1, 20).max(Span::from_ms(1));
        if let Phase::Suspended(assignment, running, causes) = &self.phase {
            // The job counts as if it continued now, because the time of its resumption is unknown.
            let end = running.started + assignment.estimate.duration + assignment.held;
            return Some(now + (end - causes.since()).max(least()));
        }
        let end = self.estimated_end()?;
        Some(if end > now { end } else { now + (now - end).max(least()) })
    }

    /// Returns true if it has a unit, is not being ended, and is not suspended.
    pub(crate) fn is_active_and_kept(&self) -> bool {
        let kept = self.assignment().is_some_and(|assignment| assignment.stop.is_none());
        kept && !matches!(self.phase, Phase::Suspended(..))
    }

    /// Returns true if it runs and is not being ended.
    pub(crate) fn is_running_on(&self) -> bool {
        matches!(&self.phase, Phase::Running(assignment, _) if assignment.stop.is_none())
    }
}

impl Assignment {
    /// Returns true if it is to end only to run again.
    pub(crate) fn runs_again(&self) -> bool {
        self.stop.as_ref().is_some_and(|(why, _)| why.runs_again())
    }

    /// Returns the core time of a span, in milliseconds.
    pub(crate) fn core_ms(&self, span: Span) -> u64 {
        let cores: u64 = self.placement.iter().map(|part| u64::from(part.cores) * u64::from(part.count)).sum();
        cores.saturating_mul(u64::try_from(span.ms()).unwrap_or(0))
    }

    /// Returns its part, if it has a single one on one node.
    pub(crate) fn sole_part(&self) -> Option<&Part> {
        self.placement.first().filter(|part| self.placement.len() == 1 && part.count == 1)
    }

    /// Returns the cap with which it was started on a unit.
    pub(crate) fn cap_on(&self, unit: UnitId) -> Option<Power> {
        let mut parts = self.placement.iter().filter(|part| part.unit.unit == unit.unit);
        parts.find(|part| part.is_on(unit.node))?.cap
    }

    /// Returns the nodes on which its part has ended.
    pub(crate) fn left(&self) -> BTreeSet<NodeId> {
        self.ended.iter().map(|part| part.node).collect()
    }

    /// Returns its units, each with its part, in the order of its placement.
    pub(crate) fn units(&self) -> impl Iterator<Item = (UnitId, &Part)> {
        self.placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)))
    }

    /// Returns its expected draw on each of its units, if the division is even.
    pub(crate) fn even_share(&self) -> Option<Power> {
        self.shares.is_empty().then(|| self.draw.scaled(1, i64::from(width(&self.placement))))
    }

    /// Returns its expected draw on each of its units, in the order of its placement.
    pub(crate) fn draw_by_unit(&self) -> impl Iterator<Item = (UnitId, Power)> {
        let even = self.even_share();
        let share = move |index: usize| even.or_else(|| self.shares.get(index).copied()).unwrap_or_default();
        self.units().enumerate().map(move |(index, (unit, _))| (unit, share(index)))
    }

    /// Returns its expected draw on `node`.
    pub(crate) fn draw_on(&self, node: NodeId) -> Power {
        if let Some(share) = self.even_share() {
            let parts = self.placement.iter().filter(|part| part.is_on(node)).count();
            return share.scaled(i64::try_from(parts).unwrap_or(i64::MAX), 1);
        }
        self.draw_by_unit().filter(|(unit, _)| unit.node == node).map(|(_, draw)| draw).sum()
    }

    /// Changes its expected draw on `node`, divided among its units there as before.
    pub(crate) fn set_draw_on(&mut self, node: NodeId, draw: Power) {
        if self.sole_part().is_some() {
            self.draw = draw;
            return;
        }
        let before = self.draw_on(node);
        if let Some(share) = self.even_share() {
            self.shares = vec![share; width(&self.placement) as usize];
        }
        let mut first = 0;
        for part in &self.placement {
            if part.is_on(node) {
                let place = first + (node.0 - part.unit.node.0) as usize;
                if let Some(share) = self.shares.get_mut(place) {
                    *share = draw.scaled(share.mw(), before.mw().max(1));
                }
            }
            first += part.count as usize;
        }
        self.draw = self.shares.iter().copied().sum();
    }

    /// Returns the sum of its expected draws on its units: `draw`, rounded like its shares.
    pub(crate) fn draw_of_units(&self) -> Power {
        match self.even_share() {
            Some(share) => share.scaled(i64::from(width(&self.placement)), 1),
            None => self.shares.iter().copied().sum(),
        }
    }
}
