//! The ends of single nodes' parts of a multi-node job. The job keeps all its nodes until the last part ends.

use limo_model::{Attempt, JobId, NodeId, Outcome, Usage};

use crate::refused::Refused;
use crate::state::{PartEnd, State};

pub(super) fn part_ended(
    state: &mut State,
    (id, number): (JobId, Attempt),
    node: NodeId,
    (outcome, usage): (&Outcome, Usage),
) -> Result<(), Refused> {
    let job = state.jobs.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    let assignment = job.assignment_mut().filter(|assignment| assignment.attempt == number);
    let assignment = assignment.ok_or(Refused::OldAttempt { job: id, attempt: number })?;
    let here = assignment.placement.iter().any(|part| part.is_on(node));
    if !here || assignment.ended.iter().any(|part| part.node == node) {
        return Err(Refused::NoPart { job: id, node });
    }
    assignment.ended.push(PartEnd { node, outcome: outcome.clone(), usage });
    Ok(())
}
