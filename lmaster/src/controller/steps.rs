//! Steps of jobs: their submission, and nodes that a job holds for them.

use std::collections::BTreeSet;

use limo_model::{Attempt, JobId, NodeId, Outcome, Request, Step};
use limo_proto::{Hold, Launch, StepOf};
use limo_sched::{Assignment, Refused};
use nix::libc::SIGTERM;

use super::multi_node::{nodes_of, place_of};
use super::{Caller, Controller, Live};

/// Checks the request of a step beyond the checks of the core. A step begins as soon as its job has room, and ends with it.
pub(super) fn check(request: &Request, launch: &Launch) -> Result<(), String> {
    if launch.hold != Hold::Nothing && request.step.is_some() {
        return Err("a step runs its command on all of its nodes: it holds none".into());
    }
    if launch.hold != Hold::Nothing && launch.terminal.is_some() {
        return Err("a job that holds nodes for steps has no terminal".into());
    }
    if request.step.is_none() {
        return Ok(());
    }
    let refused = [
        ("tasks of an array", launch.array.is_some()),
        ("conditions for its start", request.conditions.is_some()),
        ("a range of nodes", request.widths.is_some()),
        ("packed tasks", request.is_packed()),
        ("a queue", request.queue.is_some()),
        ("licences", !request.licences.is_empty()),
        ("mail", request.mail.is_some()),
        ("a reservation", request.reservation.is_some()),
        ("a cap of its own", request.cap.is_some()),
        ("an allowance of its own", request.allowance.is_some()),
        ("restarts", request.may_requeue),
        ("checkpoints", request.restart.checkpoint.is_some()),
    ];
    match refused.iter().find(|(_, is_asked)| *is_asked) {
        Some((what, _)) => Err(format!("a step of a job cannot have {what}")),
        None => Ok(()),
    }
}

impl Controller {
    /// Fixes the number and the size of a step from the allocation of its job.
    ///
    /// # Errors
    /// If the job is not the caller's, or the tasks do not fit.
    pub(super) fn settle_step(&self, caller: &Caller, request: &mut Request, step: Step) -> Result<(), String> {
        let job = step.of;
        let (Some(of), Some(live)) = (self.tx.core.job(job), self.live_of(job)) else {
            return Err(Refused::NoAllocation { job }.to_string());
        };
        if live.uid != caller.uid {
            return Err(Refused::AllocationOfOther { job, user: live.request.user.clone() }.to_string());
        }
        request.step = Some(Step { number: of.step_count(), ..step });
        request.account.clone_from(&of.request.account);
        request.qos.clone_from(&of.request.qos);
        let allocated = |request: &Request| self.tx.core.allocated_cores(job, &request.include);
        request.settle(allocated).map_err(|error| error.to_string())
    }

    /// Returns the place of a step, with the present attempt of its job; `None` for other jobs.
    pub(super) fn step_of(&self, live: &Live) -> Option<StepOf> {
        let Step { of, number, .. } = live.request.step?;
        let attempt = self.tx.core.job(of)?.assignment()?.attempt;
        Some(StepOf { job: of, attempt, number })
    }

    /// Returns true if the nodes that a job only holds must end, because its command has, or one of them did.
    pub(super) fn held_for_nothing(&self, live: &Live, assignment: &Assignment) -> bool {
        let ended: BTreeSet<NodeId> = assignment.ended.iter().map(|part| part.node).collect();
        match live.launch.hold {
            Hold::Nothing => false,
            Hold::Others => nodes_of(assignment).first().is_some_and(|first| ended.contains(first)),
            Hold::All => !ended.is_empty(),
        }
    }

    /// Returns the end of a job's part. A node that the job only holds runs no command, so stopping it before it is ready is
    /// not a failure.
    pub(super) fn end_of_part(&self, job: JobId, attempt: Attempt, node: NodeId, outcome: Outcome) -> Outcome {
        let index = self.assignment(job, attempt).and_then(|assignment| place_of(assignment, node));
        let is_held = self.live_of(job).zip(index).is_some_and(|(live, index)| live.launch.hold.covers(index));
        if is_held && outcome == Outcome::Signaled(SIGTERM) { Outcome::Exited(0) } else { outcome }
    }

    /// Returns true for a job that is a step of another one.
    pub(super) fn is_step(&self, job: JobId) -> bool {
        self.submissions.get(job).is_some_and(|live| live.request.step.is_some())
    }
}
