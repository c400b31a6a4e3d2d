//! The numbers of nodes of moldable jobs: which ranges are accepted, the number of a waiting job, and a change of that of
//! a running one, which is malleable.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use limo_model::{JobId, NodeId, Placement, Power, Request, Span, Time, width};

use super::jobs::with_times;
use super::nodes::{release, take};
use super::quota;
use crate::cluster::Cluster;
use crate::facts::{Known, estimate, shares_at_start};
use crate::refused::Refused;
use crate::state::{Assignment, Job, Phase, Running, State};

/// Refuses a range that no plan could choose from.
pub(super) fn check(request: &Request) -> Result<(), Refused> {
    let is_plain = request.accelerators.is_none() && request.cap.is_none();
    if request.malleable && (request.widths.is_none() || !is_plain) {
        return Err(Refused::Malleable);
    }
    let Some(widths) = request.widths else { return Ok(()) };
    if !widths.is_sound() || !widths.contains(request.nodes.get()) {
        return Err(Refused::Widths { widths });
    }
    if request.is_packed() { Err(Refused::PackedWidths) } else { Ok(()) }
}

/// Gives a moldable job of the queue this number of nodes.
pub(crate) fn set_width(cluster: &mut Cluster, id: JobId, nodes: NonZeroU32) {
    let Some(job) = cluster.state.jobs.get_mut(id).filter(|job| job.request.nodes != nodes) else { return };
    let before = Arc::clone(&job.request);
    let request = before.at_width(nodes);
    job.request = cluster.requests.share(&request);
    let index = &mut cluster.index;
    index.cache = None;
    if let Some(place) = cluster.state.queue.place(id) {
        index.shapes.remove(place, &before);
        index.shapes.insert(Known::of(&cluster.state), &index.classes, place, &request);
    }
}

/// Returns true if the quota of the job's user admits it on this number of nodes.
pub(crate) fn may_have(cluster: &mut Cluster, now: Time, id: JobId, nodes: NonZeroU32) -> bool {
    let Some(job) = cluster.state.jobs.get(id) else { return false };
    if !cluster.state.charges.contains_key(&id) || job.request.nodes == nodes {
        return true;
    }
    let request = job.request.at_width(nodes);
    quota::would_admit(cluster, now, id, &request)
}

/// Charges a job to the quota of its user for the number of nodes that was chosen.
pub(crate) fn charge_width(cluster: &mut Cluster, id: JobId) {
    if cluster.state.charges.contains_key(&id)
        && let Some(job) = cluster.state.jobs.get(id)
    {
        let request = Arc::clone(&job.request);
        quota::charge_again(cluster, id, &request);
    }
}

/// A running job before a change of its number of nodes.
#[derive(Debug, Clone)]
pub(crate) struct AsRunning {
    pub request: Arc<Request>,
    pub assignment: Assignment,
    pub running: Running,
}

impl AsRunning {
    /// Returns a running job that is not being ended.
    pub fn of(job: &Job) -> Option<Self> {
        match &job.phase {
            Phase::Running(assignment, running) if job.is_running_on() => Some(Self {
                request: Arc::clone(&job.request),
                assignment: Assignment::clone(assignment),
                running: Running::clone(running),
            }),
            _ => None,
        }
    }

    /// Returns the same job on other nodes from now on. Its draw and its rest change with the number of nodes.
    fn on(&self, state: &State, now: Time, placement: Placement) -> Self {
        let (was, is) = (width(&self.assignment.placement), width(&placement));
        let mut after = self.clone();
        // Readings of the nodes do not contain the job from now on.
        after.assignment.hidden_since = now;
        after.running.seen_on = BTreeSet::new();
        if placement == self.assignment.placement {
            return after;
        }
        after.request = Arc::new(self.request.at_width(NonZeroU32::new(is).unwrap_or(NonZeroU32::MIN)));
        let end = self.running.started + self.assignment.estimate.duration + self.assignment.held;
        let rest = (end - now).max(Span::ZERO);
        let (longer, shorter) = self.durations(state, &after.request, (was, is));
        let draw = |draw: Power| draw.scaled(i64::from(is), i64::from(was.max(1)));
        after.assignment.held = self.assignment.held + (rest.scaled(longer, shorter.max(1)) - rest);
        after.assignment.estimate.power = draw(self.assignment.estimate.power);
        after.assignment.draw = draw(self.assignment.draw);
        after.assignment.placement = placement;
        after.running = Running {
            spent: self.running.used(&self.assignment, now),
            since: now,
            resized: Some((now, self.running.core_ms(&self.assignment, now))),
            measured_on: BTreeMap::new(),
            steady: false,
            ..after.running
        };
        after
    }

    /// Returns two numbers in the proportion of the duration on the new nodes to that on the old ones: from profiles of
    /// several numbers of nodes, else the work is divided evenly.
    fn durations(&self, state: &State, request: &Request, (was, is): (u32, u32)) -> (i64, i64) {
        let known = Known::of(state);
        let unit = self.assignment.placement.first().and_then(|part| state.unit(part.unit));
        let by_profiles = unit.filter(|unit| known.widths(request, unit).len() > 1).map(|unit| {
            let on = |request: &Request| {
                let unlimited = Request { time_limit: None, ..request.clone() };
                estimate(known, &unlimited, unit).duration.ms()
            };
            (on(request), on(&self.request))
        });
        by_profiles.unwrap_or((i64::from(was), i64::from(is)))
    }
}

/// Gives a running malleable job these nodes from now on, in place of its present ones. `before` is the job as it was when
/// the round began: what it has had since then does not matter, because no time has passed.
pub(crate) fn resize(cluster: &mut Cluster, now: Time, id: JobId, before: &AsRunning, placement: Placement) {
    let Some(present) = cluster.state.jobs.get(id).and_then(|job| AsRunning::of(job)) else { return };
    let seen: Vec<NodeId> = present.running.seen_on.iter().copied().collect();
    release(cluster, now, id, &present.assignment, &seen);
    let AsRunning { request, mut assignment, running } = before.on(&cluster.state, now, placement);
    let request = cluster.requests.share(&request);
    if let Some(job) = cluster.state.jobs.get_mut(id) {
        job.request = request;
    }
    if assignment.placement != before.assignment.placement
        && let Some(job) = cluster.state.jobs.get(id)
    {
        assignment.shares = shares_at_start(&cluster.state, job, &assignment.placement, assignment.draw);
    }
    let (books, owner) = (&mut cluster.books, &before.request);
    books.give_owned(owner, &present.assignment.placement);
    books.take_owned(owner, &assignment.placement);
    take(cluster, now, id, &assignment);
    quota::placed(cluster, now, id, &assignment);
    with_times(cluster, id, |job| job.phase = Phase::Running(Box::new(assignment), Box::new(running)));
    (cluster.index.cache, cluster.index.rooms) = (None, OnceLock::new());
}
