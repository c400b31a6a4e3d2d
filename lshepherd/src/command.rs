//! The command that makes checkpoints of a job. It runs as the job's user, in its control group, directory and environment,
//! in a session of its own. Its input is empty, and its output is dropped.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;

use limo_containment::Entry;
use limo_shepherd::Plan;
use limo_shepherd::processes::group;
use nix::libc;
use nix::unistd::Pid;

use crate::child::{Launching, begin};
use crate::limits::Limits;

/// Number of streams of a process.
const STREAMS: usize = 3;

pub struct CheckpointCommand {
    plan: Plan,
    limits: Limits,
    /// The process. It may share this memory, so this value stays until it is collected.
    running: Option<Launching>,
    is_late: bool,
}

impl CheckpointCommand {
    /// Returns the command of a job whose session is open; `None` if its plan has none.
    pub fn of(plan: &Plan, limits: &Limits) -> Option<Box<Self>> {
        let command = plan.checkpoint_command.clone()?;
        let plan = Plan {
            paths: vec![b"/bin/sh".to_vec()],
            argv: vec![b"sh".to_vec(), b"-c".to_vec(), command],
            env: plan.env.clone(),
            directory: plan.directory.clone(),
            umask: plan.umask,
            identity: plan.identity.clone(),
            uid: plan.uid,
            no_new_privs: plan.no_new_privs,
            ..Plan::default()
        };
        Some(Box::new(Self { plan, limits: limits.clone(), running: None, is_late: false }))
    }

    /// Starts the command for the job of `leader`, unless it runs.
    ///
    /// # Errors
    /// If the process cannot be created.
    pub fn start(&mut self, leader: Pid, entry: Option<Entry>) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let streams = (0..STREAMS).map(|_| null.try_clone().map(OwnedFd::from)).collect::<io::Result<Vec<_>>>()?;
        let mut plan = self.plan.clone();
        plan.env.push(format!("LIMO_JOB_PID={leader}").into_bytes());
        self.running = Some(begin(plan, streams, self.limits.clone(), entry)?);
        self.is_late = false;
        Ok(())
    }

    /// Returns the process, while it is not collected.
    pub fn pid(&self) -> Option<Pid> {
        self.running.as_ref().map(|running| running.pid)
    }

    /// Handles the collected process. Returns true if it was killed at its limit.
    pub fn ended(&mut self) -> bool {
        self.running = None;
        self.is_late
    }

    /// Kills the command, because it has reached its limit or the job is over.
    pub fn kill(&mut self) {
        self.is_late = true;
        if let Some(pid) = self.pid() {
            // The process is not collected yet, so its number is still valid. It has no group until it is a session.
            group(pid, libc::SIGKILL);
            // SAFETY: no memory is involved.
            unsafe { libc::kill(pid.as_raw(), libc::SIGKILL) };
        }
    }

    /// Returns the process, which must be kept until it is collected.
    pub fn into_running(self) -> Option<Launching> {
        self.running
    }
}
