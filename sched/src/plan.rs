//! What a policy returns: a proposal, which the checker looks at before anything of it is done.

use limo_model::{Energy, Estimate, JobId, NodeId, Placement, Power, Time, UnitId, Wait};

use crate::policy::Memo;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub starts: Vec<Start>,
    /// Units to be held at another cap than now; `None` lifts it.
    pub caps: Vec<(UnitId, Option<Power>)>,
    /// Running jobs whose processes shall stand still.
    pub suspends: Vec<JobId>,
    /// Suspended jobs that shall go on.
    pub resumes: Vec<JobId>,
    /// Running jobs to be ended and run again later.
    pub requeues: Vec<JobId>,
    /// Jobs with `--immediate` that cannot start at once.
    pub refusals: Vec<(JobId, Wait)>,
    /// Why each other job that was looked at waits.
    pub waits: Vec<(JobId, Wait)>,
    /// Whether it left off once it was clear that nobody else starts: why the others wait is told by the plan that follows
    /// one which starts or refuses something.
    pub is_unfinished: bool,
    /// When the plan could become another one without any event.
    pub wake_at: Option<Time>,
    /// Free nodes to put to sleep: runs of neighbours, each the first and how many.
    pub sleeps: Vec<(NodeId, u32)>,
    /// Energy held back for the first job that waits.
    pub reserved: Energy,
    /// What the policy wants to know again if nothing happens but submissions.
    pub memo: Option<Memo>,
}

impl Plan {
    /// Whether another plan follows at once, which tells why jobs wait.
    pub(crate) fn is_followed(&self) -> bool {
        !self.starts.is_empty() || !self.refusals.is_empty()
    }

    /// Whether it changes something about jobs that run.
    pub(crate) fn steers(&self) -> bool {
        !(self.caps.is_empty() && self.suspends.is_empty() && self.resumes.is_empty() && self.requeues.is_empty())
    }
}

/// A job to start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub job: JobId,
    pub placement: Placement,
    pub estimate: Estimate,
}
