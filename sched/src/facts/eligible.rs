//! Eligibility of a waiting job, from the record alone. Code that runs with every event uses the index instead, which
//! knows the earlier jobs of a name.

use limo_model::{Dependency, JobId, OverQuota, QueueSpec, Request, Time, Wait};

use crate::state::{Clock, Phase, State};

/// Returns the reason why a waiting job may not run yet; `None` for a job that policies may see. For a singleton it
/// reads every job.
pub(crate) fn not_eligible(state: &State, now: Time, id: JobId) -> Option<Wait> {
    let job = state.jobs.get(id)?;
    if let Some(by) = &job.held {
        return Some(Wait::Held { by: by.clone() });
    }
    if let Some(at) = begin_of(&job.request, &state.clock).filter(|at| *at > now) {
        return Some(Wait::Begin { at });
    }
    if let Some(Dependency { condition, job }) = job.after.first().copied() {
        return Some(Wait::Dependency { job, condition });
    }
    if wants_to_be_alone(&job.request) {
        let of = |request: &Request| request.user == job.request.user && request.name == job.request.name;
        let others = state.jobs.iter().filter(|(other, _)| *other < id && state.array_of(*other).is_none());
        if let Some((before, _)) = others.filter(|(_, other)| of(&other.request)).last() {
            return Some(Wait::Singleton { job: before });
        }
    }
    if let Some(wait) = closed_queue(state, &job.request) {
        return Some(wait);
    }
    state.is_in_line(id).then(|| match &job.phase {
        Phase::Waiting(Some(told)) => told.clone(),
        _ => Wait::Quota(OverQuota::Turn { job: id }),
    })
}

/// Returns the wait reason of a job whose queue is down or not configured.
pub(crate) fn closed_queue(state: &State, request: &Request) -> Option<Wait> {
    let queue = request.queue.as_ref()?;
    let spec = state.settings.queues.get(queue);
    let is_closed = spec.is_none_or(QueueSpec::is_closed);
    is_closed.then(|| Wait::Queue { queue: queue.clone(), is_known: spec.is_some() })
}

/// Returns the time at which a job may begin, in cluster time.
pub(crate) fn begin_of(request: &Request, clock: &Clock) -> Option<Time> {
    Some(clock.cluster(request.conditions.as_ref()?.begin?))
}

pub(crate) fn wants_to_be_alone(request: &Request) -> bool {
    request.conditions.as_ref().is_some_and(|conditions| conditions.singleton)
}
