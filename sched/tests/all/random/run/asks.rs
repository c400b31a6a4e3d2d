//! Submissions in a random run, and the conditions of jobs.

use std::num::NonZeroU32;

use limo_model::{Condition, Conditions, Dependency, JobId, Request, Span, Tasks};
use limo_sched::{Event, Job, Phase, Refused};

use super::Run;
use crate::random::{Ask, request};

impl Run {
    pub(super) fn submit(&mut self, ask: &Ask) -> Result<(), Refused> {
        let (now, job) = (self.world.now, self.world.core.next_job());
        let conditions = self.conditions(ask.conditions);
        let request = Box::new(Request { conditions, ..request(now, ask) });
        let tasks = ask.tasks.map(|(count, limit)| Tasks::first(count).expect("few").at_most(NonZeroU32::new(limit)));
        for job in job.0..=job.0 + tasks.as_ref().map_or(0, |tasks| u64::from(tasks.count())) {
            self.world.takes.insert(JobId(job), Span::from_secs(ask.takes));
            if (ask.takes + i64::try_from(job).expect("few")) % 4 == 0 {
                self.world.fails.insert(JobId(job));
            }
        }
        self.world.apply(match tasks {
            None => Event::Submitted { job, request },
            Some(tasks) => Event::ArraySubmitted { job, tasks, request },
        })
    }

    /// Makes one or two kinds of conditions; none for 0.
    fn conditions(&self, (kind, number): (u8, u8)) -> Option<Box<Conditions>> {
        let on = |condition| self.anybody(number).map(|job| Dependency { condition, job });
        let condition = Condition::ALL[usize::from(kind % 4)];
        let conditions = match kind {
            0 => return None,
            1 => Conditions { hold: true, ..Conditions::default() },
            2 => Conditions { singleton: true, ..Conditions::default() },
            3 => {
                let begin = Some(self.world.now + Span::from_secs(4 * i64::from(number)));
                Conditions { begin, singleton: number % 2 == 0, ..Conditions::default() }
            }
            _ => Conditions { dependencies: on(condition).into_iter().collect(), ..Conditions::default() },
        };
        Some(Box::new(conditions))
    }

    /// Checks that no job runs before its conditions are met.
    pub(super) fn check_conditions(&self) {
        for (id, job) in self.world.core.jobs() {
            let conditions = job.request.conditions.as_deref().cloned().unwrap_or_default();
            let too_soon = conditions.begin.is_some_and(|begin| begin > self.world.now);
            let same = |of: &Job| of.request.name == job.request.name && of.request.user == job.request.user;
            let alone = |(other, of): (JobId, &Job)| other >= id || !same(of);
            let is_free =
                job.after.is_empty() && !too_soon && (!conditions.singleton || self.world.core.jobs().all(alone));
            let stops = job.assignment().is_some_and(|assignment| assignment.stop.is_some());
            assert!(is_free || matches!(job.phase, Phase::Waiting(Some(_))), "job {id} may not run: {job:?}");
            assert!(
                job.held.is_none() || stops || matches!(job.phase, Phase::Waiting(Some(_))),
                "job {id} is held: {job:?}"
            );
        }
    }
}
