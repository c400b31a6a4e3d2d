//! Every waiting job has a reason, and the jobs, times and limits in the reason are true.

use limo_model::{Condition, JobId, Time, Wait};
use limo_sched::Job;

use super::Run;

impl Run {
    pub(super) fn check_reasons(&self) {
        let (core, now) = (&self.world.core, self.world.now);
        for (id, job) in core.jobs().filter(|(_, job)| job.is_waiting()) {
            // An array has no other waiting part if all its tasks are jobs.
            if core.array(id).is_some_and(|array| array.left() == 0) {
                continue;
            }
            let reason = core.reason(id, now);
            assert!(reason.as_ref().is_some_and(|reason| self.is_so((id, job), reason)), "{id}: {reason:?} of {job:?}");
        }
    }

    fn is_so(&self, (id, job): (JobId, &Job), reason: &Wait) -> bool {
        let (core, now) = (&self.world.core, self.world.now);
        let ahead = |until: &Option<Time>| until.is_none_or(|until| until > now);
        let waits = |id: &JobId| core.job(*id).is_some_and(Job::is_waiting);
        match reason {
            Wait::Resources { until } | Wait::Band { until, .. } | Wait::Budget { until, .. } => ahead(until),
            Wait::Behind { job, until } => waits(job) && *job != id && ahead(until),
            Wait::Sooner { until } => *until > now,
            Wait::Price { at, .. } => *at > now,
            Wait::Begin { at } => core.clock().cluster(*at) > now,
            Wait::Held { by } => job.held.as_ref() == Some(by),
            Wait::Dependency { job: on, condition } => {
                job.after.iter().any(|after| (after.job, after.condition) == (*on, *condition))
                    && (core.job(*on).is_some() || core.state().is_coming(*on))
                    && (*condition != Condition::After || core.job(*on).is_none_or(|job| job.running().is_none()))
            }
            Wait::Singleton { job: other } => core.job(*other).is_some() && *other < id,
            Wait::Depth { depth } => core.view(now).queue_length() > *depth as usize,
            Wait::ArrayLimit { limit } => core.array(id).is_some_and(|array| array.live() >= *limit),
            Wait::Reserved { reservation, .. } | Wait::Reservation { reservation, from: Some(_) } => {
                core.reservations().contains_key(reservation)
            }
            Wait::Never { needs, most } => needs > most,
            Wait::Queue { queue, .. } => core.settings().queues.get(queue).is_some_and(|spec| spec.is_down),
            _ => true,
        }
    }
}
