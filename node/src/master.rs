//! Orders of the master.

use std::time::Duration;

use limo_model::{Attempt as Number, JobId, Power};
use limo_proto::{AttemptState, DoExec, Io, MasterToNode, NodeToMaster};
use limo_shepherd::Order;
use nix::libc;
use tracing::{debug, error, info, warn};

use super::Node;
use crate::attempt::{Attempt, State, Verdict, lost};
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::io::JobIo;
use crate::records::{Intent, Record};
use crate::scripts::Preparation;

impl Node {
    pub(super) fn asked(&mut self, message: MasterToNode) {
        match message {
            MasterToNode::Registered => self.registered(),
            MasterToNode::Refused { reason } => self.refused_by_master(reason.into_string()),
            MasterToNode::DoExec(exec) => self.assigned(*exec),
            MasterToNode::Go { job, attempt, expected } => self.go((job, attempt), expected),
            MasterToNode::Drop { job, attempt } => self.withdrawn(job, attempt),
            MasterToNode::Stop { job, attempt, grace } => self.stop(job, attempt, super::duration(grace)),
            MasterToNode::Evict { job, attempt, grace } => self.evict(job, attempt, super::duration(grace)),
            MasterToNode::Signal { job, attempt, signal } => self.signal(job, attempt, signal),
            MasterToNode::EndedAck { job, attempt } => self.end_acknowledged(job, attempt),
            MasterToNode::ReadFrom { job, stdout, stderr } => self.resume(job, stdout, stderr),
            MasterToNode::Discard { job } => self.discard(job),
            MasterToNode::StreamAck { stream, offset } => self.output_taken(stream, offset),
            MasterToNode::Caps { generation, caps } => self.caps(generation, caps),
            MasterToNode::Suspend { job, attempt } => self.suspend_job(job, attempt),
            MasterToNode::Resume { job, attempt } => self.resume_job(job, attempt),
            MasterToNode::Probe { ticket } => self.probe(ticket),
            MasterToNode::Measure { ticket, job, attempt } => self.effect(Effect::Measure { ticket, job, attempt }),
            MasterToNode::TimeLimit { job, attempt, limit } => self.set_limit(job, attempt, limit),
            MasterToNode::Extend { job, attempt, limit } => self.extend(job, attempt, limit),
            MasterToNode::Resize { job, attempt, size } => self.resize(job, attempt, size),
            MasterToNode::Sleep => self.fall_asleep(),
            MasterToNode::Reboot => self.reboot(),
            MasterToNode::Owners { evict_after } => self.owners_ordered(evict_after),
        }
    }

    fn refused_by_master(&mut self, reason: String) {
        error!(reason, "the master refuses this node");
        if !self.welcomed && self.attempts.known.is_empty() {
            // The node does not wait, and a retry would not change the answer.
            self.refused = Some(reason);
        }
        self.link = None;
        self.effect(Effect::HangUp);
    }

    fn assigned(&mut self, exec: DoExec) {
        let (job, attempt) = (exec.job, exec.attempt);
        let held = match self.attempts.weigh(exec.journal, job, attempt) {
            Verdict::Refuse(reason) => Err(reason),
            Verdict::Acknowledge => return self.send(NodeToMaster::JobAck { job, attempt }),
            Verdict::Wait => return self.tell_preparing(job, attempt),
            Verdict::Repeat => return self.tell_end_again(job),
            Verdict::Replace(older) => {
                self.drop_held(job, older);
                self.hold(exec)
            }
            Verdict::Hold => self.hold(exec),
        };
        if let Err(reason) = held {
            self.refuse(job, attempt, reason);
        }
    }

    fn refuse(&mut self, job: JobId, attempt: Number, reason: String) {
        warn!(%job, %attempt, %reason, "assignment refused");
        self.send(NodeToMaster::JobRefused { job, attempt, reason: reason.into() });
    }

    /// Puts a machine without jobs to sleep once the master has ended the connection.
    fn fall_asleep(&mut self) {
        let without = "the node has no command for sleep: set `off` in the section [idle]".to_owned();
        let obstacle = Some(without).filter(|_| self.spec.rest.is_none());
        if let Some(reason) = obstacle.or_else(|| self.busy()) {
            return self.send(NodeToMaster::SleepFailed { reason: reason.into() });
        }
        self.sleepy = true;
        self.send(NodeToMaster::FallingAsleep);
        self.effect(Effect::Sleep);
    }

    /// Restarts a machine without jobs.
    fn reboot(&mut self) {
        if let Some(reason) = self.busy() {
            return self.reboot_failed(reason);
        }
        info!("the machine is restarted");
        self.reboots = true;
        self.effect(Effect::Reboot);
    }

    pub(super) fn reboot_failed(&mut self, reason: String) {
        warn!(%reason, "the machine is not restarted");
        self.reboots = false;
        self.send(NodeToMaster::RebootFailed { reason: reason.into() });
    }

    /// Returns the reason why the machine can neither sleep nor restart now.
    fn busy(&self) -> Option<String> {
        if self.closing.is_some() {
            return Some("the node is shutting down".to_owned());
        }
        let job = self.attempts.known.keys().chain(self.streams.keys()).next()?;
        Some(format!("job {job} is on the node"))
    }

    fn tell_end_again(&mut self, job: JobId) {
        if let Some(Attempt { number, state: State::Ended(end), .. }) = self.attempts.known.get(&job) {
            let (number, end) = (*number, end.clone());
            self.send_end(job, number, end);
        }
    }

    /// Records the intent to run an attempt; the acknowledgement follows.
    fn hold(&mut self, exec: DoExec) -> Result<(), String> {
        if self.closing.is_some() {
            return Err("the node is shutting down".to_owned());
        }
        if self.sleepy || self.reboots {
            return Err(if self.reboots { "the node restarts" } else { "the node falls asleep" }.to_owned());
        }
        if self.journal != Some(exec.journal) {
            return Err(format!("the order is of the journal {}, which is not this master's", exec.journal));
        }
        self.check_placement(&exec)?;
        self.check_step(&exec)?;
        let cookie = self.cookies.next();
        let (journal, job, number) = (exec.journal, exec.job, exec.attempt);
        let intent = Intent { exec: exec.clone(), cookie: cookie.clone(), boot: self.boot.clone() };
        let preparation = Preparation::of(&exec);
        let kill_grace = super::duration(exec.kill_grace);
        let step = exec.step;
        let state = State::Accepting(Box::new(exec));
        let (is_evicted, checkpointed) = (false, None);
        self.attempts.known.insert(
            job,
            Attempt { journal, number, cookie, preparation, kill_grace, is_evicted, checkpointed, step, state },
        );
        if faults::has(Fault::AcknowledgedEarly) {
            self.send(NodeToMaster::JobAck { job, attempt: number });
        }
        self.record(Record::Intent(Box::new(intent)));
        Ok(())
    }

    pub(super) fn intent_recorded(&mut self, job: JobId, number: Number, result: Result<(), String>) {
        let Some(attempt) = self.attempts.find(job, number) else { return };
        let State::Accepting(exec) = &attempt.state else { return };
        if let Err(reason) = result {
            // The attempt is forgotten, so that it can be assigned again.
            self.attempts.known.remove(&job);
            return self.refuse(job, number, reason);
        }
        let (exec, is_step) = (exec.clone(), exec.step.is_some());
        self.expect_streams(&exec);
        if let Some(attempt) = self.attempts.find(job, number) {
            attempt.state = State::Held(exec);
        }
        if self.scripts.prolog && !is_step {
            self.prepare(job, number, None);
            self.tell_preparing(job, number);
        } else {
            self.acknowledge(job, number);
        }
    }

    /// Acknowledges an assignment that waits for `Go`.
    pub(super) fn acknowledge(&mut self, job: JobId, number: Number) {
        if let Some(Attempt { state: State::Held(_), .. }) = self.attempts.find(job, number) {
            debug!(%job, attempt = %number, "assignment held");
            self.send(NodeToMaster::JobAck { job, attempt: number });
        }
    }

    /// Checks a placement. All of its parts are on this node; the node's number matters only to the master.
    fn check_placement(&self, exec: &DoExec) -> Result<(), String> {
        let name = &self.spec.name;
        if exec.placement.is_empty() || exec.launch.argv.is_empty() {
            return Err("the assignment names no unit or no command".to_owned());
        }
        for part in &exec.placement {
            let index = usize::from(part.unit.unit);
            let Some(unit) = self.spec.units.get(index) else {
                return Err(format!("node `{name}` has no unit {index}: it has {}", self.spec.units.len()));
            };
            if part.cores == 0 || part.cores > unit.cores {
                return Err(format!("{} cores of unit `{}`: it has {}", part.cores, unit.name, unit.cores));
            }
            if part.memory > self.spec.memory {
                return Err(format!("{} of memory: node `{name}` has {}", part.memory, self.spec.memory));
            }
        }
        Ok(())
    }

    pub(super) fn expect_streams(&mut self, exec: &DoExec) {
        // The streams of an earlier attempt have no reader any longer.
        self.drop_streams(exec.job);
        if exec.launch.io == Io::Attached {
            self.streams.insert(exec.job, JobIo::new(exec.job));
        }
    }

    pub(super) fn go(&mut self, (job, number): (JobId, Number), expected: Power) {
        let Some(attempt) = self.attempts.find(job, number) else {
            return self.not_here(job, number);
        };
        let needs_prolog = attempt.needs_prolog(self.scripts);
        match &mut attempt.state {
            State::Preparing(preparing) => preparing.going = Some(expected),
            State::Held(_) if needs_prolog => self.prepare(job, number, Some(expected)),
            State::Held(exec) => {
                let exec = exec.clone();
                self.start(exec, expected);
            }
            // The acknowledgement, `Started` or the end follows.
            State::Accepting(_) | State::Starting(_) | State::Concluding(_) | State::Recording(_) => {}
            // The report is repeated, because the first one may have been lost with a connection.
            State::Running(_) | State::Suspended(_) | State::Stopping(_) | State::Sweeping(_) => {
                self.send(NodeToMaster::Started { job, attempt: number });
            }
            State::Ended(_) => self.tell_end_again(job),
        }
    }

    /// Reports an attempt as lost that only the master knows. It may have run, so it does not count as new.
    pub(super) fn not_here(&mut self, job: JobId, number: Number) {
        if self.attempts.is_gone(job, number) || self.attempts.known.contains_key(&job) {
            return debug!(%job, attempt = %number, "a late message about an attempt that is gone");
        }
        warn!(%job, attempt = %number, "the master asks for a job that this node does not know");
        self.send_end(job, number, lost("the node does not know the job"));
    }

    /// Forgets an attempt that was not released, after its epilog if its prolog has begun.
    fn withdrawn(&mut self, job: JobId, number: Number) {
        match self.attempts.find(job, number) {
            Some(known) if known.owes_epilog() && known.report() == AttemptState::Held => {
                self.drop_streams(job);
                self.stop(job, number, Duration::ZERO);
            }
            _ => self.drop_held(job, number),
        }
    }

    pub(super) fn drop_held(&mut self, job: JobId, number: Number) {
        if let Some(Attempt { state: State::Accepting(_) | State::Held(_), .. }) = self.attempts.find(job, number) {
            debug!(%job, attempt = %number, "assignment dropped");
            self.drop_streams(job);
            self.forget(job, number);
        }
    }

    pub(super) fn forget(&mut self, job: JobId, number: Number) {
        let of = self.attempts.find(job, number).and_then(|attempt| attempt.step);
        self.record(Record::Forget { job, attempt: number });
        self.attempts.remove(job);
        self.step_over(of);
    }

    fn signal(&mut self, job: JobId, number: Number, signal: i32) {
        if self.deferred(job, number, MasterToNode::Signal { job, attempt: number, signal }) {
            return;
        }
        let attempt = self.attempts.find(job, number);
        let suspended = attempt.as_ref().is_some_and(|attempt| matches!(attempt.state, State::Suspended(_)));
        // The kernel gives 0 and negative numbers another meaning.
        let Some(running) = attempt.and_then(|attempt| attempt.running_mut()).filter(|_| signal > 0) else {
            return debug!(%job, signal, "no process for the signal");
        };
        match signal {
            libc::SIGSTOP => running.halted = true,
            libc::SIGCONT => running.halted = false,
            _ => {}
        }
        // Only `Resume` continues a suspended job. Other signals except KILL wait for that.
        if suspended && signal == libc::SIGCONT {
            let handle = running.handle;
            self.order(Order::Halted { handle, on: false });
            return debug!(%job, "no signal continues a suspended job");
        }
        let running = *running;
        if let libc::SIGSTOP | libc::SIGCONT = signal {
            self.order(Order::Halted { handle: running.handle, on: running.halted });
        }
        info!(%job, signal, "signal");
        self.signal_group(&running, signal);
    }

    fn end_acknowledged(&mut self, job: JobId, number: Number) {
        if let Some(Attempt { state: State::Ended(_), .. }) = self.attempts.find(job, number) {
            self.release(job, number);
            if self.streams.contains_key(&job) {
                // Without its records, a later daemon would not continue the output.
                self.lingering.extend(self.attempts.remove(job).map(|attempt| (job, attempt)));
            } else {
                self.forget(job, number);
            }
            self.tidy(job);
        }
    }
}
