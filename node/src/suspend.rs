//! Suspends and resumes jobs.
//!
//! A job in a control group is frozen by its shepherd. Otherwise the process group gets the signal at once, and processes
//! outside of it are found by their cookie, beside the loop, because that reads all of /proc. Only one such pass of a job
//! runs at a time. If the job has changed meanwhile, another pass follows, so that the last request holds.

use limo_model::{Attempt as Number, JobId, Span};
use limo_proto::{MasterToNode, NodeToMaster};
use limo_shepherd::Order;
use limo_shepherd::processes::Mark;
use nix::libc;
use tracing::{debug, info};

use super::Node;
use super::lease::ms;
use crate::attempt::{Attempt, Running, State};
use crate::exchange::Effect;
use crate::faults::{self, Fault};

impl Node {
    /// Stops the job's processes. Idempotent.
    pub(super) fn suspend_job(&mut self, job: JobId, number: Number) {
        if self.deferred(job, number, MasterToNode::Suspend { job, attempt: number }) {
            return;
        }
        let Some(attempt) = self.attempts.find(job, number) else {
            return self.not_here(job, number);
        };
        if !matches!(attempt.state, State::Running(_)) {
            let stands_still = matches!(attempt.state, State::Suspended(_));
            debug!(%job, attempt = %number, "nothing to suspend");
            return self.confirm(job, number, stands_still.then_some(true));
        }
        self.halt(job, number);
        self.confirm(job, number, Some(true));
    }

    /// Stops the processes of a running job. Returns true if it ran.
    pub(super) fn halt(&mut self, job: JobId, number: Number) -> bool {
        let Some(attempt) = self.attempts.find(job, number) else { return false };
        let State::Running(running) = attempt.state else { return false };
        info!(%job, "suspending the job");
        attempt.state = State::Suspended(running);
        if !running.freezes {
            self.signal_group(&running, libc::SIGSTOP);
        }
        self.order(Order::Frozen { handle: running.handle, on: true });
        self.reach_all(job);
        self.energy_paused(job, true);
        self.work_paused(job, true);
        for (step, number) in self.steps_of(job, number) {
            self.halt(step, number);
        }
        true
    }

    /// Confirms the change; later readings show it.
    fn confirm(&mut self, job: JobId, attempt: Number, paused: Option<bool>) {
        // The suspension of a step is that of its job.
        let is_step = self.attempts.known.get(&job).is_some_and(|attempt| attempt.step.is_some());
        if let Some(paused) = paused.filter(|_| !is_step) {
            self.send(NodeToMaster::Paused { job, attempt, paused });
        }
    }

    /// Continues the job's processes, unless its submitter has stopped them. Idempotent.
    pub(super) fn resume_job(&mut self, job: JobId, number: Number) {
        if self.deferred(job, number, MasterToNode::Resume { job, attempt: number }) {
            return;
        }
        if self.waits_for_owner(job, number) {
            debug!(%job, attempt = %number, "the owner keeps the job suspended");
            return self.confirm(job, number, Some(true));
        }
        let Some(attempt) = self.attempts.find(job, number) else {
            return self.not_here(job, number);
        };
        let State::Suspended(running) = attempt.state else {
            let runs = matches!(attempt.state, State::Running(_));
            debug!(%job, attempt = %number, "nothing to resume");
            return self.confirm(job, number, runs.then_some(false));
        };
        info!(%job, "resuming the job");
        attempt.state = State::Running(running);
        self.order(Order::Frozen { handle: running.handle, on: false });
        // A shell that continues before its foreground job would take the terminal back: it continues last.
        if !running.freezes && !running.halted && !running.terminal {
            self.signal_group(&running, libc::SIGCONT);
        }
        self.confirm(job, number, Some(false));
        self.goes_on(job);
        for (step, number) in self.steps_of(job, number) {
            self.resume_job(step, number);
        }
    }

    /// Extends the time limit of a job that was suspended or slowed down.
    pub(super) fn extend(&mut self, job: JobId, number: Number, limit: Span) {
        if self.deferred(job, number, MasterToNode::Extend { job, attempt: number, limit }) {
            return;
        }
        if let Some(handle) = self.attempts.find(job, number).and_then(|attempt| attempt.handle()) {
            self.order(Order::Extend { handle, limit: ms(limit) });
        }
    }

    /// Replaces the time limit of a job.
    pub(super) fn set_limit(&mut self, job: JobId, number: Number, limit: Option<Span>) {
        if let Some(exec) = self.attempts.find(job, number).and_then(|attempt| attempt.exec_mut()) {
            exec.time_limit = limit;
            return;
        }
        if self.deferred(job, number, MasterToNode::TimeLimit { job, attempt: number, limit }) {
            return;
        }
        let handle = self.attempts.find(job, number).and_then(|attempt| attempt.handle());
        if let Some(handle) = handle.filter(|_| !faults::has(Fault::LimitNotChanged)) {
            self.order(Order::Limit { handle, limit: limit.map(ms) });
        }
    }

    /// Handles the continued group of a job: its other processes follow.
    pub(super) fn goes_on(&mut self, job: JobId) {
        self.reach_all(job);
        self.energy_paused(job, false);
        self.work_paused(job, false);
    }

    /// Stops or continues every process of the job outside its process group, according to its state.
    fn reach_all(&mut self, job: JobId) {
        if let Some(again) = self.reaching.get_mut(&job) {
            *again = true;
            return;
        }
        let Some(attempt) = self.attempts.known.get(&job) else { return };
        let Some(Running { leader, uid, freezes: false, .. }) = attempt.running() else { return };
        let stop = matches!(attempt.state, State::Suspended(_));
        let mark = Mark { cookie: attempt.cookie.clone(), uid };
        self.reaching.insert(job, false);
        self.effect(Effect::Reach { job, mark, leader, stop });
    }

    /// Handles the end of a pass over the processes of a job.
    pub(super) fn reached(&mut self, job: JobId) {
        if self.reaching.remove(&job) == Some(true) {
            return self.reach_all(job);
        }
        if let Some(Attempt { state: State::Running(running), .. }) = self.attempts.known.get(&job)
            && running.terminal
            && !running.halted
        {
            let running = *running;
            self.signal_group(&running, libc::SIGCONT);
        }
    }

    /// Sends a signal to the job's process group.
    pub(super) fn signal_group(&mut self, running: &Running, signal: i32) {
        self.order(Order::Signal { handle: running.handle, signal });
    }
}
