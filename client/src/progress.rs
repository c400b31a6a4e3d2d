//! Shows the progress of jobs or of an array on one terminal line while the program waits for them.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::time::Duration;

use limo_model::{JobId, Span};
use limo_proto::{JobReport, JobState};
use tokio::time::Instant;

use crate::in_place::InPlace;
use crate::{AskError, Master};

/// Interval between updates: short for a person, and little work for the master.
const EVERY: Duration = Duration::from_secs(1);

/// Progress line; cleared at the end.
pub(crate) struct Progress<'a> {
    program: &'a str,
    line: InPlace,
    /// Time of the first count, and the number of tasks that had ended by then.
    first: Option<(Instant, u64)>,
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.line.wipe();
    }
}

impl<'a> Progress<'a> {
    pub fn new(program: &'a str) -> Self {
        Self { program, line: InPlace::default(), first: None }
    }

    /// Shows progress until the future is dropped. Shows nothing if stderr is not a terminal.
    pub async fn watch(&mut self, master: &Master, ids: &[JobId]) -> Infallible {
        if io::stderr().is_terminal() {
            // The caller, which waits for the jobs, reports problems with the master.
            let _ = self.look(master, ids).await;
            self.line.wipe();
        }
        std::future::pending().await
    }

    async fn look(&mut self, master: &Master, ids: &[JobId]) -> Result<(), AskError> {
        let mut session = master.session().await?;
        loop {
            tokio::time::sleep(EVERY).await;
            let mut jobs = Vec::with_capacity(ids.len());
            for id in ids {
                jobs.push(session.job(*id).await?);
            }
            let tally = Tally::of(&jobs);
            if tally.all() <= 1 {
                continue;
            }
            let (since, over) = *self.first.get_or_insert((Instant::now(), tally.over()));
            let left = tally.time_left(tally.over() - over.min(tally.over()), since.elapsed());
            self.line.show(&format!("{}: {}", self.program, tally.in_words(left)));
        }
    }
}

/// Numbers of jobs and tasks by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    done: u64,
    failed: u64,
    cancelled: u64,
    running: u64,
    left: u64,
}

impl Tally {
    fn of(jobs: &[JobReport]) -> Self {
        let mut tally = Self::default();
        for job in jobs {
            match (&job.array, job.state) {
                (Some(array), _) => {
                    tally.done += u64::from(array.ended.completed);
                    tally.failed += u64::from(array.ended.failed);
                    tally.cancelled += u64::from(array.ended.cancelled);
                    tally.running += u64::from(array.active);
                    tally.left += u64::from(array.waiting_count());
                }
                (None, JobState::Waiting) => tally.left += 1,
                (None, JobState::Completed) => tally.done += 1,
                (None, JobState::Cancelled | JobState::Refused) => tally.cancelled += 1,
                (None, state) if state.is_over() => tally.failed += 1,
                (None, _) => tally.running += 1,
            }
        }
        tally
    }

    fn over(&self) -> u64 {
        self.done + self.failed + self.cancelled
    }

    fn all(&self) -> u64 {
        self.over() + self.running + self.left
    }

    /// Estimates the time left from the pace at which `ended` tasks have ended within `elapsed`.
    fn time_left(&self, ended: u64, elapsed: Duration) -> Option<Span> {
        let seconds = u64::checked_div((self.running + self.left).checked_mul(elapsed.as_millis() as u64)?, ended)?;
        Some(Span::from_secs(i64::try_from(seconds / 1_000).ok()?))
    }

    /// Formats the counts: `310 done, 2 failed, 50 running, 638 left, about 12min`.
    fn in_words(&self, left: Option<Span>) -> String {
        let mut words = format!("{} done", self.done);
        for (count, word) in
            [(self.failed, "failed"), (self.cancelled, "cancelled"), (self.running, "running"), (self.left, "left")]
        {
            if count > 0 {
                words += &format!(", {count} {word}");
            }
        }
        left.map_or(words.clone(), |span| format!("{words}, about {span}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_fake::{finished_job, running_job, waiting_job};
    use limo_model::{Outcome, TaskCounts};
    use limo_proto::ArrayReport;

    fn array() -> JobReport {
        let tasks: limo_model::Tasks = "0-999".parse().expect("tasks");
        let ended = TaskCounts { completed: 310, failed: 2, cancelled: 0 };
        let array = ArrayReport { waiting: tasks.from(362), tasks, active: 50, ended };
        JobReport { array: Some(array), ..waiting_job(12) }
    }

    #[test]
    fn jobs_and_tasks_are_counted_by_state() {
        let tally = Tally::of(&[array()]);
        assert_eq!(tally.in_words(None), "310 done, 2 failed, 50 running, 638 left");
        let exited = |id, code| finished_job(id, Outcome::Exited(code));
        let jobs = [exited(1, 0), exited(2, 3), running_job(3), waiting_job(4), array()];
        assert_eq!(Tally::of(&jobs).in_words(None), "311 done, 3 failed, 51 running, 639 left");
        assert_eq!(Tally::of(&jobs[..1]).in_words(None), "1 done");
    }

    #[test]
    fn time_left_follows_the_pace_so_far() {
        let tally = Tally::of(&[array()]);
        let left = |ended, seconds| tally.time_left(ended, Duration::from_secs(seconds));
        // The remaining 688 tasks take 344 s at two a second.
        assert_eq!(left(20, 10), Some(Span::from_secs(344)));
        assert_eq!(tally.in_words(left(20, 10)), "310 done, 2 failed, 50 running, 638 left, about 5min44s");
        assert_eq!(left(0, 10), None, "no pace is known");
    }
}
