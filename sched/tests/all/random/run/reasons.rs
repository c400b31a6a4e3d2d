//! Every waiting job has a reason, and the jobs, times and limits in the reason are true.

use limo_model::{Condition, JobId, Time, Wait};
use limo_sched::{Job, Phase};

use super::Run;

impl Run {
    pub(super) fn check_reasons(&self) {
        let (core, now) = (&self.world.core, self.world.now);
        for (id, job) in core.jobs().filter(|(_, job)| job.is_waiting()) {
            let reason = core.reason(id, now);
            // If all tasks of an array are jobs, its reason is that of a waiting one.
            if core.array(id).is_some_and(|array| array.left() == 0) {
                let of_tasks = core
                    .jobs()
                    .filter(|(task, job)| job.is_waiting() && core.array_of(*task).is_some_and(|(own, _)| own == id));
                let of_tasks: Vec<_> = of_tasks.map(|(task, _)| core.reason(task, now)).collect();
                assert!(of_tasks.contains(&reason) || of_tasks.is_empty(), "{id}: {reason:?} instead of {of_tasks:?}");
                continue;
            }
            assert!(reason.as_ref().is_some_and(|reason| self.is_so((id, job), reason)), "{id}: {reason:?} of {job:?}");
        }
    }

    fn is_so(&self, (id, job): (JobId, &Job), reason: &Wait) -> bool {
        let (core, now) = (&self.world.core, self.world.now);
        let ahead = |until: &Option<Time>| until.is_none_or(|until| until > now);
        let waits =
            |id: &JobId| core.job(*id).is_some_and(|job| job.is_waiting() || matches!(job.phase, Phase::Suspended(..)));
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
