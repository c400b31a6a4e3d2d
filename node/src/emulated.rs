//! Emulated hardware: what the model says of the jobs, the caps that it obeys, and how a job learns that its work is done.
//!
//! A job whose application the hardware file knows inherits the read end of a pipe. The write end stays with the shell, and is
//! closed when the model says that the work is done: caps that move and suspension change when that is. What a job makes of
//! it is its own business; it is over when its process is gone.

use std::time::Duration;

use limo_model::{Energy, JobId, Power, Span, application};
use limo_power::{Plan, Share};
use limo_proto::{DoExec, List, NodeToMaster};
use tracing::{debug, error, info, warn};

use super::{Node, duration};
use crate::exchange::Effect;

impl Node {
    /// What emulated hardware says of a run.
    pub(super) fn plan(&mut self, exec: &DoExec) -> Option<Plan> {
        let share =
            |part: &limo_model::Part| Share { unit: usize::from(part.unit.unit), cores: part.cores, cap: part.cap };
        let shares: Vec<Share> = exec.placement.iter().map(share).collect();
        // The file knows commands by their names, whoever runs them.
        let application = application::command_of(&exec.application).unwrap_or(&exec.application);
        let plan = self.model()?.plan(application, &exec.size, &shares);
        plan.inspect_err(|error| error!(job = %exec.job, %error, "the emulated hardware has no such units")).ok()
    }

    /// The job runs.
    pub(super) fn work_begins(&mut self, job: JobId, plan: Plan) {
        let now = self.model_time();
        if let Some(model) = self.model() {
            model.start(job.0, plan, now);
        }
    }

    /// When the next work will be done.
    pub(super) fn work_due(&self) -> Option<Duration> {
        let (at, _) = self.as_model()?.next_end(self.model_time())?;
        Some(duration(at - limo_model::Time::from_unix_ms(0)))
    }

    /// Tells the jobs whose work is done.
    pub(super) fn end_work(&mut self) {
        let now = self.model_time();
        let Some(model) = self.model() else { return };
        for job in model.take_done(now).into_iter().map(JobId) {
            debug!(%job, "the work of the job is done");
            self.effect(Effect::EndWork { job });
        }
    }

    /// The job's process is gone after so long, if that is known. Returns the energy that its work took, if it had any.
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

    /// The job stands still, or goes on.
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

    /// The master set the caps of the units.
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
