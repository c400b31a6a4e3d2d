//! Actions on many jobs at a client's request, in slices. All jobs were checked before.

use std::fmt;

use limo_model::{JobId, Span};
use limo_sched::Event;

use super::commit::After;
use super::live::Live;
use super::numbers::Numbers;
use super::{Controller, PeerId};

/// Most jobs of a slice: a few milliseconds without service for other requests.
pub(super) const DEEDS: usize = 500;

/// Most bytes of launches that a slice may remove from the journal. SQLite reads each page that it frees, and other
/// readers wait meanwhile.
const FREED: usize = 16 << 20;

/// The action on each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Cancel,
    Signal(i32),
    Hold,
    Release,
    Requeue,
    Suspend,
    Resume,
    Priority(i32),
    TimeLimit(Option<Span>),
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancel => "cancellation",
            Self::Signal(signal) => return write!(f, "signal {signal}"),
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Requeue => "requeue",
            Self::Suspend => "suspension",
            Self::Resume => "resumption",
            Self::Priority(priority) => return write!(f, "priority {priority}"),
            Self::TimeLimit(Some(limit)) => return write!(f, "time limit {limit}"),
            Self::TimeLimit(None) => "removal of a time limit",
        })
    }
}

/// An action on jobs in progress.
#[derive(Debug)]
pub(super) struct Doing {
    deed: Deed,
    left: Numbers,
}

impl Doing {
    pub(super) fn new(deed: Deed, jobs: Numbers) -> Self {
        Self { deed, left: jobs }
    }
}

impl Controller {
    /// Runs one slice. Returns true if it was the last.
    pub(super) fn go_on_with(&mut self, peer: PeerId, doing: &mut Doing) -> bool {
        let by = self.caller(peer).map(|caller| caller.user.clone()).unwrap_or_default();
        for job in doing.left.take(self.slice(doing)) {
            self.act(peer, job, (doing.deed, &by));
        }
        doing.left.is_empty()
    }

    /// Returns the number of jobs in the next slice.
    fn slice(&self, doing: &Doing) -> usize {
        if !matches!(doing.deed, Deed::Cancel | Deed::Signal(_)) {
            return DEEDS;
        }
        let sizes = doing.left.iter().take(DEEDS).map(|job| self.submissions.get(job).map_or(0, Live::size));
        let before = sizes.scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size)));
        before.take_while(|before| *before < FREED).count()
    }

    /// Acts on one job. If the job has changed since the check, no action may be needed.
    fn act(&mut self, peer: PeerId, job: JobId, (deed, by): (Deed, &str)) {
        let by = by.to_owned();
        let event = match deed {
            Deed::Cancel => return self.cancel_for(peer, job),
            Deed::Signal(signal) => return self.send_signal(peer, job, signal),
            Deed::Hold => self.tx.core.check_hold(job).map(|()| Event::Held { job, by }),
            Deed::Release => self.tx.core.check_release(job).map(|()| Event::Released { job, by }),
            Deed::Requeue => self.tx.core.check_requeue(job).map(|()| Event::RequeueRequested { job, by }),
            Deed::Suspend => self.tx.core.check_suspend(job).map(|()| Event::SuspendRequested { job, by }),
            Deed::Resume => self.tx.core.check_resume(job).map(|()| Event::ResumeRequested { job, by }),
            Deed::Priority(priority) => {
                self.tx.core.check_priority(job, priority).map(|()| Event::PrioritySet { job, priority, by })
            }
            Deed::TimeLimit(limit) => {
                let checked = self.tx.core.check_time_limit(self.tx.now, job, limit);
                checked.map(|()| Event::TimeLimitSet { job, limit, by })
            }
        };
        if let Ok(event) = event {
            self.tx.must(event);
            if matches!(deed, Deed::TimeLimit(_)) {
                self.after(After::TimeLimit(job));
            }
        }
    }
}
