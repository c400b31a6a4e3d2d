//! One launch, from its order to the last process of the job.

use std::os::fd::OwnedFd;

use limo_containment::{ContainError, Group};
use limo_shepherd::processes::Mark;
use limo_shepherd::{Answer, BootTime, Claim, Ended, Handle, Holds, Identity, Launch, Plan, Why};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::child::Launching;
use crate::command::CheckpointCommand;
use crate::reap::Collected;
use crate::stdio::Stdio;
use crate::watch::Watch;

/// A launch and the job that it became.
pub struct Attempt {
    pub phase: Phase,
    pub watch: Watch,
    pub mark: Mark,
    /// The user of the job's workers.
    pub identity: Option<Identity>,
    /// The control group, if the job has one.
    pub group: Option<Group>,
    /// The command for checkpoints, if the job makes them by one.
    pub command: Option<Box<CheckpointCommand>>,
    /// The running time at the last checkpoint, and the duration of that.
    pub kept: (u64, u64),
    /// Directory to remove after the job's end.
    pub carried: Option<Vec<u8>>,
    pub terminal: bool,
    /// Time at which the launch is abandoned.
    pub launch_by: BootTime,
    pub stdio: Stdio,
    /// Time at which outputs end, even if a hidden process holds them open: the command is over.
    pub close_by: Option<BootTime>,
    /// The attempt, if it is held until it is released.
    pub claim: Option<Claim>,
    /// Answers that a later `lslave` gets again.
    pub told: Vec<Answer>,
    pub is_frozen: bool,
    pub is_halted: bool,
    /// True if nothing is left of the attempt.
    pub is_over: bool,
    /// True if `lslave` needs nothing more of the attempt.
    pub is_released: bool,
    /// Time at which the command was started.
    since: Option<BootTime>,
}

pub enum Phase {
    /// A worker writes the file that came with the job.
    Carrying {
        worker: Pid,
        plan: Box<Plan>,
        descriptors: Vec<OwnedFd>,
    },
    /// The child does not run its program yet.
    Launching {
        child: Box<Launching>,
        since: BootTime,
    },
    Running {
        leader: Pid,
        since: BootTime,
    },
    /// The attempt is between two other stages, or the command is over and a worker kills its remaining processes.
    Idle,
}

impl Attempt {
    /// Makes a launch of `plan` that has not begun.
    pub fn new(launch: &Launch, plan: &Plan, group: Option<Group>, stdio: Stdio) -> Self {
        Self {
            phase: Phase::Idle,
            watch: Watch::new(launch),
            mark: Mark { cookie: plan.cookie.clone(), uid: plan.uid },
            identity: plan.identity.clone(),
            group,
            command: None,
            kept: (0, 0),
            carried: plan.carried.as_ref().map(|carried| carried.directory.clone()),
            terminal: plan.terminal,
            launch_by: BootTime::now().plus(launch.launch_deadline),
            stdio,
            close_by: None,
            claim: launch.claim,
            told: Vec::new(),
            is_frozen: false,
            is_halted: false,
            is_over: false,
            is_released: false,
            since: None,
        }
    }

    /// Starts the time limit: the command runs since `since`.
    pub fn begins(&mut self, since: BootTime) {
        self.since = Some(since);
        self.watch.begins(since);
    }

    /// Returns the report of a held attempt.
    pub fn holds(&self, handle: Handle, now: BootTime) -> Option<Holds> {
        Some(Holds {
            handle,
            claim: self.claim?,
            cookie: self.mark.cookie.clone(),
            kept: self.stdio.kept(),
            frozen: self.is_frozen,
            halted: self.is_halted,
            elapsed: self.since.map_or(0, |since| now.0.saturating_sub(since.0)),
        })
    }

    /// Returns the process that is the job's leader, or will be.
    pub fn child(&self) -> Option<Pid> {
        match &self.phase {
            Phase::Launching { child, .. } => Some(child.pid),
            Phase::Running { leader, .. } => Some(*leader),
            Phase::Carrying { .. } | Phase::Idle => None,
        }
    }

    /// Returns the next due time.
    pub fn deadline(&self, lease: Option<BootTime>) -> Option<BootTime> {
        let launch = match self.phase {
            Phase::Launching { .. } => Some(self.launch_by),
            // The worker has its own deadline.
            Phase::Carrying { .. } | Phase::Running { .. } => None,
            Phase::Idle => return self.close_by,
        };
        [launch, self.watch.deadline(lease)].into_iter().flatten().min()
    }

    /// Sends a signal to the job's process group, or to the child alone while it has no group.
    pub fn signal(&self, signal: i32) {
        match &self.phase {
            Phase::Running { leader, .. } => {
                limo_shepherd::processes::group(*leader, signal);
            }
            Phase::Launching { child, .. } => {
                // SAFETY: no memory is involved. The child is not collected yet, so its number is still valid.
                unsafe { libc::kill(child.pid.as_raw(), signal) };
            }
            Phase::Carrying { worker, .. } if signal == libc::SIGTERM || signal == libc::SIGKILL => {
                let _ = kill(*worker, Signal::SIGKILL);
            }
            Phase::Carrying { .. } | Phase::Idle => {}
        }
    }

    /// Suspends or continues the job; its processes themselves only in a control group.
    ///
    /// # Errors
    /// If its group cannot be frozen.
    pub fn freeze(&mut self, on: bool, now: BootTime) -> Result<(), ContainError> {
        self.is_frozen = on;
        self.watch.frozen(on, now);
        self.group.as_ref().map_or(Ok(()), |group| group.freeze(on).map(drop))
    }

    /// Asks the job to end, even if it is stopped or a shell that ignores TERM.
    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
        if self.terminal {
            self.signal(libc::SIGHUP);
        }
        self.signal(libc::SIGCONT);
        if let Some(group) = self.group.as_ref().filter(|_| self.is_frozen) {
            // Frozen processes act on no signal. After the thaw they act on these before anything else: a command that
            // slept does not go on. KILL follows in any case.
            let _ = group.freeze(false);
        }
    }
}

/// Returns the report of a reaped leader.
pub fn ended(collected: &Collected, why: Why, elapsed: u64) -> Ended {
    let Collected { status, user_cpu, system_cpu, max_rss } = *collected;
    Ended { status, elapsed, user_cpu, system_cpu, max_rss, why, exceeded_memory: None }
}
