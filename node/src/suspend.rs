//! Jobs that stand still, and go on.
//!
//! The process group gets the signal at once; processes outside of it are found by their cookie, beside the loop, because
//! that reads all of /proc. One such pass of a job runs at a time, and after it another where the job has changed
//! meanwhile, so that the last word counts.

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

impl Node {
    /// Stops the job's processes. Twice is once.
    pub(super) fn suspend_job(&mut self, job: JobId, number: Number) {
        if self.deferred(job, number, MasterToNode::Suspend { job, attempt: number }) {
            return;
        }
        let Some(attempt) = self.attempts.find(job, number) else {
            return self.not_here(job, number);
        };
        let State::Running(running) = attempt.state else {
            let stands_still = matches!(attempt.state, State::Suspended(_));
            debug!(%job, attempt = %number, "nothing to suspend");
            return self.confirm(job, number, stands_still.then_some(true));
        };
        info!(%job, "suspending the job");
        attempt.state = State::Suspended(running);
        self.signal_group(&running, libc::SIGSTOP);
        self.order(Order::Frozen { handle: running.handle, on: true });
        self.reach_all(job);
        self.confirm(job, number, Some(true));
        self.energy_paused(job, true);
        self.work_paused(job, true);
    }

    /// The readings that follow show it.
    fn confirm(&mut self, job: JobId, attempt: Number, paused: Option<bool>) {
        if let Some(paused) = paused {
            self.send(NodeToMaster::Paused { job, attempt, paused });
        }
    }

    /// Lets the job's processes go on, unless its submitter has stopped them himself. Twice is once.
    pub(super) fn resume_job(&mut self, job: JobId, number: Number) {
        if self.deferred(job, number, MasterToNode::Resume { job, attempt: number }) {
            return;
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
        // A shell that goes on while its foreground still stands would take the terminal back: it goes on last.
        if !running.halted && !running.terminal {
            self.signal_group(&running, libc::SIGCONT);
        }
        self.confirm(job, number, Some(false));
        self.goes_on(job);
    }

    /// The master prolongs the time limit of a job that was suspended or slowed down.
    pub(super) fn extend(&mut self, job: JobId, number: Number, limit: Span) {
        if self.deferred(job, number, MasterToNode::Extend { job, attempt: number, limit }) {
            return;
        }
        if let Some(handle) = self.attempts.find(job, number).and_then(|attempt| attempt.handle()) {
            self.order(Order::Extend { handle, limit: ms(limit) });
        }
    }

    /// A suspended job is no more: its group runs, and the rest of it follows.
    pub(super) fn goes_on(&mut self, job: JobId) {
        self.reach_all(job);
        self.energy_paused(job, false);
        self.work_paused(job, false);
    }

    /// Has every process of the job outside of its group stopped or continued, as its state is.
    fn reach_all(&mut self, job: JobId) {
        if let Some(again) = self.reaching.get_mut(&job) {
            *again = true;
            return;
        }
        let Some(attempt) = self.attempts.known.get(&job) else { return };
        let Some(Running { leader, uid, .. }) = attempt.running() else { return };
        let stop = matches!(attempt.state, State::Suspended(_));
        let mark = Mark { cookie: attempt.cookie.clone(), uid };
        self.reaching.insert(job, false);
        self.effect(Effect::Reach { job, mark, leader, stop });
    }

    /// A pass over the processes of a job is over.
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
}
