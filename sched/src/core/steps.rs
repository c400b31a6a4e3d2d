//! Starts and stops of steps. A step gets free resources of its job's allocation at once; no policy is asked.

use limo_model::{Attempt, Energy, Estimate, EstimateSource, JobId, Placement, Power, Span, Time, Wait};

use super::Core;
use crate::cluster::Cluster;
use crate::facts::Allotment;
use crate::round::{Command, Round};
use crate::state::{Assignment, Job, JobMargin, Phase, State};

/// Most waiting steps of a job that one round looks at without a start.
const DEPTH: usize = 100;

impl Core {
    /// Returns the steps of a job that are not over, in order of submission.
    pub fn steps_of(&self, job: JobId) -> impl Iterator<Item = (JobId, &Job)> {
        self.cluster.state.steps.of(job)
    }

    /// Returns all steps that are not over, by their own job numbers.
    pub fn steps(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.cluster.state.steps.iter()
    }

    /// Returns the cores of the job's allocation on each node that a step may use.
    pub fn allocated_cores(&self, job: JobId, include: &[String]) -> Vec<u32> {
        let state = &self.cluster.state;
        let assignment = state.jobs.get(job).and_then(|job| job.assignment());
        assignment.map_or_else(Vec::new, |assignment| Allotment::of(state, assignment).cores(include))
    }
}

/// Adds the stops of steps, and starts those for which their jobs have room.
pub(super) fn act(cluster: &mut Cluster, now: Time, round: &mut Round) {
    let state = &mut cluster.state;
    for step in std::mem::take(&mut state.steps.to_stop) {
        let Some(assignment) = state.steps.get_mut(step).and_then(Job::assignment_mut) else { continue };
        if let Some((why, told @ false)) = &mut assignment.stop {
            *told = true;
            round.commands.push(Command::Stop { job: step, attempt: assignment.attempt, why: why.clone() });
        }
    }
    for job in std::mem::take(&mut state.steps.due) {
        start_steps(state, now, job, round);
    }
}

fn start_steps(state: &mut State, now: Time, job: JobId, round: &mut Round) {
    let of = state.jobs.get(job).map(|job| &job.phase);
    if matches!(of, Some(Phase::Starting(_) | Phase::Suspended(..))) {
        // They may start when the job begins or continues.
        state.steps.due.insert(job);
    }
    let waiting = |(step, record): (JobId, &Job)| record.is_waiting().then_some(step);
    let steps: Vec<JobId> = state.steps.of(job).filter_map(waiting).collect();
    let mut refused = 0;
    for step in steps {
        if refused >= DEPTH {
            break;
        }
        if let Some(placement) = place(state, job, step) {
            begin(state, now, step, placement, round);
            continue;
        }
        refused += 1;
        let Some(Job { phase: Phase::Waiting(told), .. }) = state.steps.get_mut(step) else { continue };
        if told.is_none() {
            let wait = Wait::Step { job };
            *told = Some(wait.clone());
            round.waits.push((step, wait));
        }
    }
}

/// Returns a place for a step in the allocation of its job, which must run.
fn place(state: &State, job: JobId, step: JobId) -> Option<Placement> {
    let Phase::Running(assignment, _) = &state.jobs.get(job)?.phase else { return None };
    if assignment.stop.is_some() {
        return None;
    }
    let request = &state.steps.get(step)?.request;
    let mut allocation = Allotment::of(state, assignment);
    if !request.step.is_some_and(|step| step.overlap) {
        for (_, other) in state.steps.of(job) {
            if let Some(own) = other.assignment().filter(|_| other.request.step.is_some_and(|step| !step.overlap)) {
                allocation.take(&other.request, &own.placement);
            }
        }
    }
    allocation.place(request)
}

fn begin(state: &mut State, now: Time, id: JobId, placement: Placement, round: &mut Round) {
    let default = state.settings.options.default_duration;
    let Some(step) = state.steps.get_mut(id) else { return };
    step.attempts += 1;
    let attempt = Attempt(step.attempts);
    // The draw of a step is part of its job's.
    let duration: Span = step.request.time_limit.unwrap_or(default);
    let source = EstimateSource::Nameplate;
    let estimate = Estimate { duration, power: Power::ZERO, energy: Energy::ZERO, source, runs: 0 };
    step.phase = Phase::Starting(Box::new(Assignment {
        attempt,
        placement: placement.clone(),
        estimate,
        draw: Power::ZERO,
        shares: Vec::new(),
        held: Span::ZERO,
        assigned: now,
        hidden_since: now,
        stop: None,
        ended: Vec::new(),
        alone: false,
        lease: None,
        after: Vec::new(),
        pending: Power::ZERO,
        measures: false,
        margin: JobMargin::default(),
    }));
    round.commands.push(Command::Start { job: id, attempt, placement, estimate, after: Vec::new() });
}
