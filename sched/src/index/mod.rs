//! Data derived from the rest of the state, kept up to date so that the cost of a round depends only on the changes.
//! It has nodes by class and free cores, waiting jobs by shape, ends of running jobs. Decides nothing.

mod blocked;
mod classes;
#[cfg(debug_assertions)]
mod compare;
mod freed;
mod groups;
mod licences;
mod occupants;
mod payers;
mod plan_cache;
mod pool;
mod ranks;
mod resting;
mod shapes;
mod stock;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use limo_model::{JobId, Memory, NodeId, Power, Request, Span, Time, UnitId};

use crate::facts::Known;
use crate::state::{Assignment, Job, Node, Phase, Sleep, State};
use crate::structure::JobSet;

pub(crate) use blocked::Blocked;
pub(crate) use classes::{Class, Classes};
pub(crate) use freed::{Freed, Sole};
pub(crate) use groups::{GroupDraws, GroupRooms, KeptRoom};
pub(crate) use licences::{LicenceLine, LicenceLines, Turn, licences_of, turn};
pub use occupants::Occupants;
pub(crate) use payers::{PayerSums, Payers};
pub(crate) use plan_cache::{Gains, HeadReservation, PlanCache};
pub(crate) use pool::{PoolCell, PoolIndex, PoolKey};
pub(crate) use ranks::{Rank, Ranks, UnitOrder};
pub(crate) use resting::Resting;
pub(crate) use shapes::{Shape, Shapes, Way};

#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    pub names: BTreeMap<String, NodeId>,
    pub classes: Classes,
    pub shapes: Shapes,
    pub occupants: Occupants,
    /// Estimated ends of active jobs, with the resources that each returns.
    pub ends: BTreeMap<(Time, JobId), Freed>,
    /// Time limits of running jobs.
    pub limits: BTreeSet<(Time, JobId)>,
    /// Times at which running jobs must be warned.
    pub warnings: BTreeSet<(Time, JobId)>,
    /// Running jobs with an allowance that is not used up.
    pub allowed: BTreeSet<JobId>,
    /// Assigned jobs that wait for confirmations.
    pub awaiting: BTreeSet<JobId>,
    /// Jobs that must end and were not reported yet.
    pub to_stop: JobSet,
    /// Times at which nodes stop being suspect, or closed after a visit of their owner.
    pub reopens: BTreeSet<(Time, NodeId)>,
    /// Times at which owners evict suspended jobs.
    pub evictions: BTreeSet<(Time, JobId)>,
    /// Suspended jobs that the next plan may resume: no person or owner suspended them.
    pub suspended: BTreeSet<JobId>,
    /// All suspended jobs.
    pub standing: BTreeSet<JobId>,
    /// Active jobs that measure their application at a cap.
    pub measuring: BTreeSet<JobId>,
    /// Nodes with a capped unit.
    pub capped: BTreeSet<NodeId>,
    /// Nodes for which draw is held.
    pub held: BTreeSet<NodeId>,
    /// Nodes with readings, by the age of the reading.
    pub readings: BTreeSet<(Time, NodeId)>,
    /// Nodes with a reading that lacks changes of jobs.
    pub unseen: BTreeSet<NodeId>,
    /// Arrays with a task that may become a job.
    pub hungry: BTreeSet<JobId>,
    /// Waiting jobs without a reason so far.
    pub untold: BTreeSet<JobId>,
    /// Jobs of the queue with a range of nodes.
    pub moldable: BTreeSet<JobId>,
    /// Running malleable jobs.
    pub malleable: BTreeSet<JobId>,
    /// Number of finished, unreported jobs that were counted among the tasks of arrays.
    pub counted: usize,
    /// Idle draw of all nodes.
    pub idle: Power,
    /// Sum of the estimates of all active jobs except those that persons or owners suspended, and of the held draw of lost nodes.
    pub active_draw: Power,
    /// Believed draw of each group of nodes.
    pub groups: GroupDraws,
    /// Power that groups leave to starts; made when first needed after a change.
    pub rooms: OnceLock<GroupRooms>,
    /// Jobs that start on no node of a group in this round: a plan with their start would have exceeded its limit.
    pub barred: Vec<Arc<Request>>,
    /// Nodes that are not awake.
    pub sleeping: u32,
    /// Results of the last plan that are still valid.
    pub cache: Option<PlanCache>,
    /// Time until which the mode is constant, because the price is constant.
    pub mode_until: Option<Time>,
    /// The conditions of blocked jobs.
    pub blocked: Blocked,
    /// Reserved nodes, each with the names of its reservations.
    pub reserved: BTreeSet<(NodeId, String)>,
    /// Begins and ends of reservations.
    pub boundaries: BTreeSet<Time>,
    /// Sums over the jobs of payers, while there are quotas.
    pub payers: Option<Payers>,
    /// Holders of licences, and jobs that wait for them.
    pub licences: LicenceLines,
    /// Orders of nodes by their variation; made when first needed after a change.
    pub ranks: OnceLock<Ranks>,
    /// Free nodes in the order of the placement `pool`, while it is in force.
    pub pool: Option<PoolIndex>,
    /// Idle nodes that can sleep, while the policy lets them.
    pub resting: Option<Resting>,
}

impl Index {
    /// Makes the index of a state that is stored without one.
    pub fn of(state: &State, now: Time) -> Self {
        let mut index = Self::default();
        for node in &state.nodes {
            if !node.is_removed() {
                index.names.insert(node.spec.name.clone(), node.id);
            }
            index.idle += node.spec.idle;
            index.sleeping += u32::from(node.sleep != Sleep::Awake);
            index.classes.place(node, now);
            let reopens = [node.suspect_until, node.owner.closed_until].into_iter().flatten();
            index.reopens.extend(reopens.map(|until| (until, node.id)));
            index.readings.extend(node.reading.map(|reading| (reading.at, node.id)));
            index.unseen.extend(Some(node.id).filter(|_| !node.unseen.is_empty()));
            index.active_draw += node.held_draw();
            if !node.held.is_empty() {
                index.held.insert(node.id);
            }
            if node.caps.limits.iter().any(Option::is_some) {
                index.capped.insert(node.id);
            }
        }
        index.hungry.extend(state.arrays.keys());
        for (id, job) in state.jobs.iter() {
            match &job.phase {
                Phase::Waiting(told) => {
                    if told.is_none() && state.queue.contains(id) {
                        index.untold.insert(id);
                    }
                    if job.request.widths.is_some() && state.queue.contains(id) {
                        index.moldable.insert(id);
                    }
                }
                Phase::Starting(assignment) | Phase::Running(assignment, _) | Phase::Suspended(assignment, ..) => {
                    index.take(id, assignment);
                    index.active_draw += if job.is_paused() { Power::ZERO } else { assignment.estimate.power };
                    if assignment.stop.as_ref().is_some_and(|(_, told)| !told) {
                        index.to_stop.insert(id);
                    }
                    index.note_times(id, job);
                }
            }
        }
        index.note_reservations(state);
        index.queue_again(state);
        index.blocked = Blocked::of(state);
        index.groups = GroupDraws::of(state);
        index.payers = state.settings.have_quotas().then(|| Payers::of(state));
        index.licences = LicenceLines::of(state);
        index.rank_again(state);
        index.rest_again(state, now);
        index
    }

    /// Updates a node after a change of its ability to take jobs.
    pub fn refresh(&mut self, node: &Node, now: Time) {
        self.classes.refresh(node, now);
        self.rank(node);
        self.rest(node, now);
    }

    /// Updates a node among the idle ones; returns the time from which it may sleep.
    pub fn rest(&mut self, node: &Node, now: Time) -> Option<Time> {
        self.resting.as_mut()?.update(node, &self.classes, now)
    }

    /// Finds the idle nodes again, after a change of the rules for them.
    pub fn rest_again(&mut self, state: &State, now: Time) {
        self.resting = Resting::of(state, &self.classes, now);
    }

    /// Updates a node in the order of the placement `pool`.
    pub fn rank(&mut self, node: &Node) {
        if let Some(pool) = &mut self.pool {
            pool.rank(node, &self.classes);
        }
    }

    /// Counts a session that has ended at a node.
    pub fn count_session(&mut self, node: &Node, used: Span) {
        if let Some(pool) = &mut self.pool {
            pool.count(node, used);
        }
    }

    /// Puts all nodes into the order of the placement `pool`, if it is in force.
    pub fn rank_again(&mut self, state: &State) {
        self.pool = PoolIndex::of(state, &self.classes);
    }

    /// Updates the nodes of an assignment in the order of the placement `pool`.
    fn rank_nodes(&mut self, assignment: &Assignment) {
        if let Some(pool) = &mut self.pool {
            limo_model::nodes(&assignment.placement).for_each(|node| pool.update(node, &self.classes));
        }
    }

    /// Inserts every waiting job again, after a change on which estimates and shapes depend.
    pub fn queue_again(&mut self, state: &State) {
        self.cache = None;
        // With reserved nodes or limited groups, jobs of one shape may fit different nodes.
        self.shapes = Shapes::new(!state.reservations.is_empty() || state.settings.groups.are_limited());
        let jobs = state.queue.places().filter_map(|(place, id)| state.jobs.get(id).map(|job| (place, job)));
        for (place, job) in jobs {
            self.shapes.insert(Known::of(state), &self.classes, place, &job.request);
        }
    }

    /// Updates the needs of an application's waiting jobs after its profile has changed.
    pub fn estimate_again(&mut self, state: &State, application: &str) {
        self.cache = None;
        let waiting = state.queue.places();
        let waiting = waiting.filter_map(|(place, id)| state.jobs.get(id).map(|job| (place, &job.request)));
        for (place, request) in waiting.filter(|(_, request)| request.application == application) {
            self.shapes.insert(Known::of(state), &self.classes, place, request);
        }
    }

    /// Updates the reserved nodes, and the time at which they change.
    pub fn note_reservations(&mut self, state: &State) {
        self.reserved.clear();
        self.boundaries.clear();
        let is_ahead = |at: &Time| state.boundaries_seen.is_none_or(|seen| *at > seen);
        for (name, of) in &state.reservations {
            let nodes = of.nodes.iter().filter_map(|node| self.names.get(node));
            self.reserved.extend(nodes.map(|node| (*node, name.clone())));
            self.boundaries.extend([of.from, of.until].into_iter().filter(is_ahead));
        }
    }

    /// Returns the expected and the latest end of an active job.
    pub fn note_times(&mut self, id: JobId, job: &Job) {
        if let (Some(end), Some(assignment)) = (job.estimated_end(), job.assignment()) {
            self.ends.insert((end, id), self.freed_by(job, assignment));
        }
        self.note_bounds(id, job);
        if job.is_awaiting() {
            self.awaiting.insert(id);
        }
        if job.causes().is_some() {
            self.standing.insert(id);
            self.suspended.extend((!job.is_paused()).then_some(id));
        }
        self.evictions.extend(job.evicted_at().map(|at| (at, id)));
    }

    /// Notes the limits that end a running job.
    pub fn note_bounds(&mut self, id: JobId, job: &Job) {
        self.limits.extend(job.limit_end().map(|end| (end, id)));
        self.warnings.extend(job.warning_at().map(|at| (at, id)));
        self.allowed.extend(job.is_on_allowance().then_some(id));
        self.malleable.extend((job.request.malleable && job.is_running_on()).then_some(id));
    }

    pub fn forget_times(&mut self, id: JobId, job: &Job) {
        if let Some(end) = job.estimated_end() {
            self.ends.remove(&(end, id));
        }
        if let Some(end) = job.limit_end() {
            self.limits.remove(&(end, id));
        }
        if job.is_on_allowance() {
            self.allowed.remove(&id);
        }
        if job.request.malleable {
            self.malleable.remove(&id);
        }
        if let Some(at) = job.warning_at() {
            self.warnings.remove(&(at, id));
        }
        if let Some(at) = job.evicted_at() {
            self.evictions.remove(&(at, id));
        }
        self.suspended.remove(&id);
        self.standing.remove(&id);
        self.awaiting.remove(&id);
    }

    pub fn take(&mut self, job: JobId, assignment: &Assignment) {
        if assignment.measures {
            self.measuring.insert(job);
        }
        if assignment.alone {
            for (first, count) in limo_model::runs(&assignment.placement) {
                self.classes.take_whole(first, count);
            }
        }
        for part in &assignment.placement {
            match assignment.alone {
                true => self.classes.change_memory(part, Memory::saturating_add),
                false => self.classes.take(part),
            }
            self.classes.listed_nodes(part, |nodes| nodes.iter().for_each(|node| self.occupants.insert(*node, job)));
        }
        self.rank_nodes(assignment);
        if let Some(resting) = &mut self.resting {
            limo_model::nodes(&assignment.placement).for_each(|node| resting.remove(node));
        }
    }

    pub fn give(&mut self, job: JobId, assignment: &Assignment) {
        self.measuring.remove(&job);
        if assignment.alone {
            for (first, count) in limo_model::runs(&assignment.placement) {
                self.classes.give_whole(first, count);
            }
        }
        for part in &assignment.placement {
            match assignment.alone {
                true => self.classes.change_memory(part, Memory::saturating_sub),
                false => self.classes.give(part),
            }
            self.classes.listed_nodes(part, |nodes| nodes.iter().for_each(|node| self.occupants.remove(*node, job)));
        }
        self.rank_nodes(assignment);
    }

    /// Returns the cores of a unit that jobs have.
    pub fn cores_used(&self, unit: UnitId) -> u32 {
        self.classes.used(unit)
    }
}
