//! Work beside the loop: look-ups, passes over all processes, meters, caps and hardware reports.

use std::sync::PoisonError;
use std::time::Duration;

use limo_model::{Attempt, JobId, Power};
use limo_node::{FailedCaps, Input};
use limo_power::Keeper;
use limo_shepherd::Claim;
use limo_shepherd::processes::{Mark, go_on, halt, sweep};
use tracing::warn;

use super::{Event, Shell};
use crate::caps::tell;
use crate::groups::remove;
use crate::sleep::run;
use crate::users::look_up;

/// Longest time for processes to stop; only a process that another program keeps continuing takes longer.
const HALT: Duration = Duration::from_secs(2);

impl Shell {
    /// Runs blocking work in a thread, and sends its result to the loop.
    fn beside(&self, work: impl FnOnce() -> Event + Send + 'static) {
        let Some(events) = self.events.upgrade() else { return };
        tokio::task::spawn_blocking(move || {
            // The loop has ended if the daemon has ended.
            let _ = events.blocking_send(work());
        });
    }

    pub(super) fn look_up(&self, uid: u32) {
        self.beside(move || {
            let result = look_up(uid).map_err(|error| error.to_string());
            Event::Node(Input::UserFound { uid, result })
        });
    }

    /// Kills the processes in the control group of an attempt, and those with the mark; reads all of /proc.
    pub(super) fn sweep(&self, (job, attempt): (JobId, Attempt), mark: Mark, patience: Duration) {
        let claim = Claim { job: job.0, attempt: attempt.0 };
        let group = self.tools.groups.of(claim);
        self.beside(move || {
            let in_group = group.map_or(0, |group| remove(&group, claim, patience));
            Event::Node(Input::Swept { job, left: in_group.max(sweep(&mark, patience)) })
        });
    }

    /// Stops or continues the processes of a job outside its leader's group; reads all of /proc.
    pub(super) fn reach(&self, job: JobId, (mark, leader): (Mark, i32), stop: bool) {
        let leader = nix::unistd::Pid::from_raw(leader);
        self.beside(move || {
            if !stop {
                go_on(&mark, leader);
            } else if let left @ 1.. = halt(&mark, leader, HALT) {
                warn!(%job, left, "processes of the suspended job have not stopped yet");
            }
            Event::Node(Input::Reached { job })
        });
    }

    /// Runs the command that restarts the machine. A success needs no answer: the daemon is ended.
    pub(super) fn reboot(&self) {
        let (Some(events), command) = (self.events.upgrade(), self.tools.reboot.clone()) else { return };
        tokio::task::spawn_blocking(move || {
            let without = "the node has no command for reboots: set `command` in the section [reboot]";
            if let Err(reason) = command.map_or(Err(without.to_owned()), |command| run(&command)) {
                // The loop has ended if the daemon has ended.
                let _ = events.blocking_send(Event::Node(Input::RebootFailed(reason)));
            }
        });
    }

    pub(super) fn read_meter(&mut self) {
        let (Some(mut device), begin) = (self.tools.meter.take(), self.begin) else { return };
        self.beside(move || {
            let at = begin.elapsed();
            let reading = device.read(at);
            Event::Metered { device, at, reading }
        });
    }

    pub(super) fn set_caps(&self, generation: u64, caps: Vec<Option<Power>>) {
        let Some(keeper) = self.tools.caps.clone() else { return };
        let units: Vec<String> = self.spec.units.iter().map(|unit| unit.name.clone()).collect();
        self.beside(move || {
            // After a panic, the keeper still knows what to restore.
            let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            let failed = cap_all(&mut keeper, &units, &caps);
            Event::Node(Input::Capped { generation, failed })
        });
    }

    pub(super) fn put_caps_back(&self) {
        let Some(keeper) = self.tools.caps.clone() else { return };
        self.beside(move || {
            let failures = keeper.lock().unwrap_or_else(PoisonError::into_inner).restore();
            tell(&failures);
            Event::Node(Input::CapsPutBack { complete: failures.is_empty() })
        });
    }

    /// Reads the resources that an attempt has used so far.
    pub(super) fn measure(&self, ticket: u64, claim: Claim) {
        let group = self.tools.groups.of(claim);
        self.beside(move || {
            let used = group.and_then(|group| crate::groups::used(&group, claim));
            Event::Node(Input::Measured { ticket, used })
        });
    }

    pub(super) fn probe(&self, shown: Option<String>) {
        let running = self.tools.running.clone();
        self.beside(move || Event::Node(Input::Probed(running.report(shown))));
    }
}

/// Sets the caps; a unit without a value gets none.
fn cap_all(keeper: &mut Keeper, units: &[String], caps: &[Option<Power>]) -> FailedCaps {
    let mut failed = FailedCaps::new();
    for (index, unit) in (0_u16..).zip(units) {
        if let Err(error) = keeper.set(unit, caps.get(usize::from(index)).copied().flatten()) {
            failed.push((index, error.to_string().into()));
        }
    }
    for (index, cap) in (0_u16..).zip(caps).skip(units.len()) {
        if cap.is_some() {
            failed.push((index, format!("the node has no unit {index}: it has {}", units.len()).into()));
        }
    }
    failed
}
