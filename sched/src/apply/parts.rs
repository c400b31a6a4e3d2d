//! The ends of single nodes' parts of a multi-node job. The job keeps all its nodes until the last part ends.

use limo_model::{Attempt, JobId, NodeId, Outcome, Usage};

use crate::refused::Refused;
use crate::state::{Job, PartEnd, State};

pub(super) fn part_ended(
    state: &mut State,
    (id, number): (JobId, Attempt),
    node: NodeId,
    (outcome, usage): (&Outcome, Usage),
) -> Result<(), Refused> {
    let job = state.jobs.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    let is_in = job.assignment().is_some_and(|assignment| assignment.attempt == number);
    if !is_in {
        return Err(Refused::OldAttempt { job: id, attempt: number });
    }
    end_part(job, id, node, (outcome, usage))
}

/// Records the end of a node's part of the present attempt of a job or a step.
pub(super) fn end_part(
    job: &mut Job,
    id: JobId,
    node: NodeId,
    (outcome, usage): (&Outcome, Usage),
) -> Result<(), Refused> {
    let assignment = job.assignment_mut().ok_or(Refused::NoPart { job: id, node })?;
    let here = assignment.placement.iter().any(|part| part.is_on(node));
    if !here || assignment.ended.iter().any(|part| part.node == node) {
        return Err(Refused::NoPart { job: id, node });
    }
    assignment.ended.push(PartEnd { node, outcome: outcome.clone(), usage });
    Ok(())
}
