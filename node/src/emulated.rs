//! Emulated hardware: models the jobs, obeys caps, and tells a job when its work is done.
//!
//! A job with an application in the hardware file inherits the read end of a pipe. The shell keeps the write end and
//! closes it when the model says that the work is done. Caps and suspension change that time. The job may do anything
//! then; it is over when its process has ended.

use std::time::Duration;

use limo_model::{Energy, JobId, Power, Span, application};
use limo_power::{Plan, Share};
use limo_proto::{DoExec, List, NodeToMaster};
use tracing::{debug, error, info, warn};

use super::{Node, duration};
use crate::exchange::Effect;

impl Node {
    /// Returns the model's plan of a run.
    pub(super) fn plan(&mut self, exec: &DoExec) -> Option<Plan> {
        let share =
            |part: &limo_model::Part| Share { unit: usize::from(part.unit.unit), cores: part.cores, cap: part.cap };
        let shares: Vec<Share> = exec.placement.iter().map(share).collect();
        // In the file, commands are known by their names, for all users.
        let application = application::command_of(&exec.application).unwrap_or(&exec.application);
        let plan = self.model()?.plan(application, &exec.size, &shares);
        plan.inspect_err(|error| error!(job = %exec.job, %error, "the emulated hardware has no such units")).ok()
    }

    /// Starts the work of a job, whose command was started `elapsed` ago. The model counts that time without caps.
    pub(super) fn work_begins(&mut self, job: JobId, plan: Plan, elapsed: Span) {
        let now = self.model_time() - elapsed;
        if let Some(model) = self.model() {
            model.start(job.0, plan, now);
        }
    }

    /// Returns when the next work will be done.
    pub(super) fn work_due(&self) -> Option<Duration> {
        let (at, _) = self.as_model()?.next_end(self.model_time())?;
        Some(duration(at - limo_model::Time::from_unix_ms(0)))
    }

    /// Notifies the jobs whose work is done.
    pub(super) fn end_work(&mut self) {
        let now = self.model_time();
        let Some(model) = self.model() else { return };
        for job in model.take_done(now).into_iter().map(JobId) {
            debug!(%job, "the work of the job is done");
            self.effect(Effect::EndWork { job });
        }
    }

    /// Ends the work of a job after `elapsed`, if that is known. Returns the energy of the work, if any.
    pub(super) fn work_ends(&mut self, job: JobId, elapsed: Option<Span>) -> Option<Energy> {
        if self.as_model().is_some() {
            self.effect(Effect::EndWork { job });
        }
        let now = self.model_time();
        let model = self.model()?;
        match elapsed {
            Some(elapsed) => model.end_after(job.0, elapsed, now),
            None => model.end(job.0, now),
        }
    }

    /// Suspends or resumes the work of a job.
    pub(super) fn work_paused(&mut self, job: JobId, paused: bool) {
        let now = self.model_time();
        let Some(model) = self.model() else { return };
        if paused {
            model.suspend(job.0, now);
        } else {
            model.resume(job.0, now);
        }
        self.send_reading();
    }

    /// Sets the caps of the units.
    pub(super) fn emulated_caps(&mut self, generation: u64, caps: &[Option<Power>]) {
        let now = self.model_time();
        let Some(model) = self.model() else { return };
        let failed = model.set_caps(caps, now);
        info!(generation, ?caps, "caps of the emulated units");
        for (_, reason) in &failed {
            warn!(generation, %reason, "a cap does not hold");
        }
        let failed = failed
            .into_iter()
            .filter_map(|(unit, reason)| Some((u16::try_from(unit).ok()?, reason.to_string().into())));
        self.send(NodeToMaster::Capped { generation, failed: List::clipped(failed.collect()) });
        self.send_reading();
    }
}
