//! The time that jobs have run, without their suspensions.

use std::collections::BTreeMap;

use limo_model::{JobId, Span, Time};
use limo_sched::{Command, Core, Event};

/// Time that a job has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    since: Option<Time>,
    /// Work of earlier attempts that checkpoints kept for the last one.
    pub kept: Span,
    /// Time of the last attempt.
    pub last: Span,
    /// Time of the attempts before it.
    pub before: Span,
    /// True if caps or nodes of the last attempt changed.
    pub moved: bool,
}

/// Times of all jobs that are not over.
#[derive(Debug, Default)]
pub struct Works(BTreeMap<JobId, Work>);

impl Works {
    /// Takes an event. `kept` returns the work that checkpoints have kept of the earlier attempts of a job.
    pub fn event(&mut self, at: Time, event: &Event, kept: impl FnOnce(JobId) -> Span) {
        let (Event::Started { job, .. } | Event::Paused { job, .. } | Event::Ended { job, .. }) = event else { return };
        let work = self.0.entry(*job).or_default();
        match event {
            Event::Started { .. } => {
                let before = work.before + work.last;
                *work = Work { since: Some(at), kept: kept(*job), before, ..Work::default() }
            }
            Event::Paused { paused: false, .. } => _ = work.since.get_or_insert(at),
            _ => work.last = work.last + work.since.take().map_or(Span::ZERO, |since| at - since),
        }
    }

    pub fn command(&mut self, core: &Core, command: &Command) {
        let moved = match command {
            Command::Cap { node, .. } => core.jobs_on(*node),
            Command::Resize { job, .. } => vec![*job],
            _ => return,
        };
        for job in moved {
            self.0.entry(job).or_default().moved = true;
        }
    }

    /// Returns the time of a job that is over.
    pub fn take(&mut self, job: JobId) -> Work {
        self.0.remove(&job).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Attempt, Outcome, Usage};

    use super::*;

    #[test]
    fn suspensions_and_earlier_attempts_are_not_time_of_the_last_one() {
        let mut works = Works::default();
        let [job, other] = [1, 2].map(JobId);
        // The job has saved 2 s when it runs again.
        let kept = |secs: i64| move |of| if secs < 30 || of != job { Span::ZERO } else { Span::from_secs(2) };
        let mut at = |secs: i64, event: Event| works.event(Time::from_unix_ms(secs * 1_000), &event, kept(secs));
        let started = |job, attempt| Event::Started { job, attempt: Attempt(attempt) };
        let paused = |paused| Event::Paused { job, attempt: Attempt(1), paused };
        let ended = |job, attempt| Event::Ended {
            job,
            attempt: Attempt(attempt),
            outcome: Outcome::Exited(0),
            usage: Usage::default(),
        };
        at(0, started(other, 1));
        at(10, started(job, 1));
        at(13, paused(true));
        // Suspended and evicted after 3 s.
        at(20, ended(job, 1));
        at(30, started(job, 2));
        at(35, paused(true));
        at(45, paused(false));
        at(47, paused(false));
        at(50, ended(job, 2));
        let seconds = Span::from_secs;
        let work = works.take(job);
        assert_eq!((work.kept, work.last, work.before, work.moved), (seconds(2), seconds(10), seconds(3), false));
        assert_eq!(works.take(job), Work::default());
    }
}
