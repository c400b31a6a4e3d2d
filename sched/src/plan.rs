//! A plan: the proposal of a policy, which is checked before it is executed.

use limo_model::{Energy, Estimate, JobId, Memory, NodeId, Placement, Power, Time, UnitId, Wait, Widths};
use serde::{Deserialize, Serialize};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub starts: Vec<Start>,
    /// Units with a new cap; `None` lifts the cap.
    pub caps: Vec<(UnitId, Option<Power>)>,
    /// Jobs to suspend for the upper limit: running ones, and jobs that a person resumes without enough power for
    /// them.
    pub suspends: Vec<JobId>,
    /// Suspended jobs to resume.
    pub resumes: Vec<JobId>,
    /// Running jobs to be ended and run again later.
    pub requeues: Vec<JobId>,
    /// Running malleable jobs with their new placements.
    pub resizes: Vec<(JobId, Placement)>,
    /// Jobs with `--immediate` that cannot start at once.
    pub refusals: Vec<(JobId, Wait)>,
    /// Wait reasons of the other jobs that were considered.
    pub waits: Vec<(JobId, Wait)>,
    /// True if the plan stopped early because no further job can start. The next plan after a start or a refusal
    /// gives the other wait reasons.
    pub is_unfinished: bool,
    /// Time at which the plan could change without an event.
    pub wake_at: Option<Time>,
    /// Free nodes to put to sleep, as runs of adjacent nodes: the first and their number.
    pub sleeps: Vec<(NodeId, u32)>,
    /// Energy reserved for the first waiting job.
    pub reserved: Energy,
}

impl Plan {
    /// Returns true if another plan follows at once and gives the wait reasons.
    pub(crate) fn is_followed(&self) -> bool {
        !self.starts.is_empty() || !self.refusals.is_empty()
    }

    /// Returns true if the plan changes running jobs.
    pub(crate) fn steers(&self) -> bool {
        let keeps = self.caps.is_empty() && self.suspends.is_empty() && self.resumes.is_empty();
        !(keeps && self.requeues.is_empty() && self.resizes.is_empty())
    }
}

/// A job to start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub job: JobId,
    pub placement: Placement,
    pub estimate: Estimate,
    /// True if it needs power that unconfirmed orders free: it is released after their confirmations.
    pub waits_for_relief: bool,
    /// True if the job explores its cap.
    pub explores: bool,
}

/// A rule that a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    #[error("job {job} is not waiting")]
    NotWaiting { job: JobId },
    #[error("job {job} is in the plan more than once")]
    Twice { job: JobId },
    #[error("job {job} is neither started nor given a wait reason")]
    NoReason { job: JobId },
    #[error("job {job} is refused although it did not request an immediate start")]
    RefusedPatient { job: JobId },
    #[error("job {job} requested an immediate start, but waits")]
    ImmediateWaits { job: JobId },
    #[error("job {job} is started on no unit")]
    NoPart { job: JobId },
    #[error("job {job} is placed on a unit that does not exist")]
    NoUnit { job: JobId },
    #[error("job {job} is placed on a node that takes no jobs")]
    NodeUnavailable { job: JobId },
    #[error("job {job} is placed where it must not run")]
    NotAllowed { job: JobId },
    #[error("job {job} gets {nodes} nodes, not the requested number")]
    Nodes { job: JobId, nodes: u32 },
    #[error("job {job} gets {nodes} nodes, outside of its range {widths}")]
    Width { job: JobId, nodes: u32, widths: Widths },
    #[error("job {job} gets {cores} cores, not the requested number")]
    Cores { job: JobId, cores: u32 },
    #[error("job {job} gets {memory} of memory, not the requested amount")]
    Memory { job: JobId, memory: Memory },
    #[error("job {job} gets a cap of {cap}, which its unit does not obey")]
    Cap { job: JobId, cap: Power },
    #[error("job {job} does not get the cap of {cap} that it requests")]
    NotAtCap { job: JobId, cap: Power },
    #[error("{cores} cores of a unit with {total} would be taken")]
    CoresTaken { unit: UnitId, cores: u32, total: u32 },
    #[error("{memory} of a node with {total} would be taken")]
    MemoryTaken { node: NodeId, memory: Memory, total: Memory },
    #[error("two jobs would share an accelerator")]
    AcceleratorShared { unit: UnitId },
    #[error("{held} of the licence {licence} would be held: there are {total}")]
    Licences { licence: String, held: u64, total: u32 },
    #[error("{held} {what} of {of} would run: the limit is {most}")]
    OverQuota { of: String, what: String, held: u64, most: u32 },
    #[error("the draw would be {draw}: the upper limit is {high}")]
    UpperLimit { draw: Power, high: Power },
    #[error("the draw of the group {group} would be {draw}: its limit is {limit}")]
    GroupLimit { group: String, draw: Power, limit: Power },
    #[error("the estimated draw would be {draw}: the budget is released at {rate}")]
    ReleaseRate { draw: Power, rate: Power },
    #[error("the budget would be overspent by {missing} at {} ms", at.unix_ms())]
    Overspent { missing: Energy, at: Time },
    #[error("a cap of {cap} is set on a unit that does not obey it")]
    UnitCap { unit: UnitId, cap: Power },
    #[error("job {job} shares a unit that has another cap than the job")]
    SharedCap { job: JobId },
    #[error("job {job} is suspended or requeued, but does not run or does not permit it")]
    NotPreemptible { job: JobId },
    #[error("job {job} is resumed, but not suspended")]
    NotSuspended { job: JobId },
    #[error("a node is ordered to sleep that is not awake, has jobs, cannot sleep, or may not yet")]
    CannotSleep { node: NodeId },
    #[error("the next plan is requested for {} ms, which is not after now", at.unix_ms())]
    WakeInPast { at: Time },
    #[error("job {job} may not run yet: {}", wait.kind())]
    NotEligible { job: JobId, wait: Wait },
    #[error("job {job} is placed on a node that is reserved ({reservation}) before it would be over")]
    Reserved { job: JobId, reservation: String },
    #[error("job {job} gets a node more than once")]
    NodeTwice { job: JobId },
    #[error("job {job} must be alone on its nodes, but another one is there")]
    NotAlone { job: JobId },
    #[error("job {job} does not get as many accelerators of one type on each of its nodes as it asked for")]
    Accelerators { job: JobId },
    #[error("job {job} does not get the cores that it asked for beside its accelerators on each of its nodes")]
    HostCores { job: JobId },
    #[error("job {job} is resumed while a person suspends it")]
    SuspendedByPerson { job: JobId },
    #[error("job {job} explores a cap of {cap}, which it must not")]
    Explores { job: JobId, cap: Power },
    #[error("job {job} gets a cap of {cap}, which the policy may not choose for it")]
    NotItsCap { job: JobId, cap: Power },
    #[error("job {job} gets other nodes while it runs, but is not malleable")]
    NotMalleable { job: JobId },
    #[error("job {job} gets node {}, which is not free", node.0)]
    NodeTaken { job: JobId, node: NodeId },
    #[error("job {job} gets {chunks} chunks and not what it asked for")]
    Chunks { job: JobId, chunks: u64 },
}
