//! Steps: attempts in the allocation of another attempt here. A step is suspended and resumed with its job. When the
//! processes of the job have ended, its steps are stopped, and the end of the job is recorded after theirs.

use limo_model::{Attempt as Number, JobId};
use limo_proto::{DoExec, StepOf};

use super::Node;
use crate::attempt::{Attempt, State};

impl Node {
    /// Checks that the job of a step runs here.
    pub(super) fn check_step(&self, exec: &DoExec) -> Result<(), String> {
        let Some(StepOf { job, attempt, .. }) = exec.step else { return Ok(()) };
        let is_here = |own: &&Attempt| own.number == attempt && own.is_stoppable();
        match self.attempts.known.get(&job).filter(is_here) {
            Some(_) => Ok(()),
            None => Err(format!("attempt {attempt} of job {job}, in which the step is to run, does not run here")),
        }
    }

    /// Returns the steps of an attempt whose ends are not recorded.
    pub(super) fn steps_of(&self, job: JobId, number: Number) -> Vec<(JobId, Number)> {
        let is_of = |step: &StepOf| (step.job, step.attempt) == (job, number);
        let open = self.attempts.known.iter().filter(|(_, attempt)| attempt.is_open());
        let steps = open.filter(|(_, attempt)| attempt.step.as_ref().is_some_and(is_of));
        steps.map(|(&step, attempt)| (step, attempt.number)).collect()
    }

    /// Returns true for a step whose job is over here, but for its steps.
    pub(super) fn has_lost_its_job(&self, step: JobId) -> bool {
        let of = self.attempts.known.get(&step).and_then(|attempt| attempt.step);
        let runs = |of: StepOf| {
            let job = self.attempts.known.get(&of.job);
            job.is_some_and(|job| job.number == of.attempt && job.is_stoppable())
        };
        of.is_some_and(|of| !runs(of))
    }

    /// Stops the steps of a job whose command has ended.
    pub(super) fn end_steps(&mut self, job: JobId) {
        let Some(of) = self.attempts.known.get(&job) else { return };
        let (number, grace) = (of.number, of.kill_grace);
        for (step, number) in self.steps_of(job, number) {
            let Some(own) = self.attempts.find(step, number).map(|attempt| attempt.kill_grace) else { continue };
            self.stop(step, number, own.min(grace));
        }
    }

    /// Returns true if the end of a job without processes must wait for those of its steps.
    pub(super) fn awaits_steps(&mut self, job: JobId, number: Number) -> bool {
        let waits = !self.steps_of(job, number).is_empty();
        if waits {
            self.awaiting_steps.insert(job);
        } else {
            self.awaiting_steps.remove(&job);
        }
        waits
    }

    /// Handles the end of an attempt. If it is a step, the end of its job may have waited for it.
    pub(super) fn step_over(&mut self, of: Option<StepOf>) {
        if let Some(of) = of.filter(|of| self.awaiting_steps.contains(&of.job)) {
            self.swept(of.job);
        }
    }

    /// Suspends a step that has just started if its job is suspended.
    pub(super) fn started_beside_suspended(&mut self, step: JobId, number: Number) {
        let of = self.attempts.find(step, number).and_then(|attempt| attempt.step);
        let job = of.and_then(|of| self.attempts.find(of.job, of.attempt));
        if job.is_some_and(|job| matches!(job.state, State::Suspended(_))) {
            self.halt(step, number);
        }
    }
}
