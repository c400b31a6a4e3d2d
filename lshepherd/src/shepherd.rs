//! The state of this process and its reactions to orders, time and ended children. Never waits.

mod checkpoints;
mod groups;
mod held;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use limo_containment::Group;
use limo_shepherd::processes::{children, group};
use limo_shepherd::{Answer, BootTime, Handle, Identity, Launch, Order, Plan, Received, Step, Taken, Why, take_plan};
use nix::libc;
use nix::unistd::{Pid, geteuid};

use crate::attempt::{Attempt, Phase, ended};
use crate::carried;
use crate::child::{Launching, Progress, begin};
use crate::command::CheckpointCommand;
use crate::home::Home;
use crate::limits::Limits;
use crate::reap::{self, Collected};
use crate::removals::{Removal, Removals};
use crate::session::SessionState;
use crate::stdio::{Rings, Stdio};
use crate::watch::Due;
use crate::worker::{self, Worker};

/// Longest time in ms for which a hidden process may hold a job's pipes open after the job's end.
const AFTER_END: u64 = 2_000;

/// The work of a worker.
enum Work {
    Carry(Handle),
    Sweep(Handle),
    Remove(Removal),
}

pub struct Shepherd {
    attempts: BTreeMap<Handle, Attempt>,
    workers: BTreeMap<Pid, (Worker, Work)>,
    /// Children that were killed before they ran their programs, and still share this memory.
    abandoned: Vec<Launching>,
    removals: Removals,
    /// Control groups of attempts that are over, to be removed.
    closing: Vec<Group>,
    lease: Option<BootTime>,
    files: libc::rlimit64,
    /// Descriptors kept open until this process ends.
    lock: Vec<OwnedFd>,
    /// Memory of the streams, and the place where a later `lslave` finds this process; `None` if it ends with `lslave`.
    pub home: Option<(Home, Rings)>,
    /// True if this process cannot do its work, and ends.
    pub has_failed: bool,
    /// True if `lslave` is to be told when another job can be launched.
    is_ready_due: bool,
    pub answers: VecDeque<Answer>,
    pub session: SessionState,
}

impl Shepherd {
    /// Makes the state. `files` is the jobs' limit on open files.
    pub fn new(files: libc::rlimit64) -> Self {
        Self {
            attempts: BTreeMap::new(),
            workers: BTreeMap::new(),
            abandoned: Vec::new(),
            removals: Removals::default(),
            closing: Vec::new(),
            lease: None,
            files,
            lock: Vec::new(),
            home: None,
            has_failed: false,
            is_ready_due: false,
            answers: VecDeque::new(),
            session: SessionState::default(),
        }
    }

    fn trouble(&mut self, text: String) {
        self.answers.push_back(Answer::Trouble { text });
    }

    /// Handles a message of `lslave`.
    pub fn received(&mut self, received: Received) {
        match Order::decode(&received.bytes) {
            Ok(Order::Hello { name: None }) => {
                self.lock = received.descriptors;
                self.greet();
            }
            Ok(Order::Hello { name: Some(name) }) => self.settle_in(name, received.descriptors),
            Ok(Order::Launch(launch)) => self.launch(&launch, received),
            Ok(Order::Signal { handle, signal }) => {
                if let Some(attempt) = self.attempts.get(&handle).filter(|_| signal > 0) {
                    attempt.signal(signal);
                }
            }
            Ok(Order::Stop { handle, grace, evicts: true }) => self.evict(handle, grace),
            Ok(Order::Stop { handle, grace, evicts: false }) => self.stop(handle, grace),
            Ok(Order::Lease { until }) => self.lease = Some(until),
            Ok(Order::Frozen { handle, on }) => {
                if let Some(attempt) = self.attempts.get_mut(&handle)
                    && let Phase::Running { .. } = attempt.phase
                {
                    let frozen = attempt.freeze(on, BootTime::now());
                    frozen
                        .unwrap_or_else(|error| self.trouble(format!("the job is not suspended as a whole: {error}")));
                }
            }
            Ok(Order::Extend { handle, limit }) => {
                if let Some(attempt) = self.attempts.get_mut(&handle) {
                    attempt.watch.extend(limit);
                }
            }
            Ok(Order::Limit { handle, limit }) => {
                self.attempts.get_mut(&handle).into_iter().for_each(|attempt| attempt.watch.set_limit(limit));
            }
            Ok(Order::RemoveCarried { directory, uid }) => {
                let identity = geteuid().is_root().then(|| Identity { uid, gid: uid, groups: Vec::new() });
                self.remove(Removal { directory, uid, identity });
            }
            Ok(Order::Halted { handle, on }) => {
                self.attempts.get_mut(&handle).into_iter().for_each(|attempt| attempt.is_halted = on);
            }
            Ok(Order::Wake { handle }) => self.woken(handle),
            Ok(Order::DropStreams { handle }) => {
                self.attempts.get_mut(&handle).into_iter().for_each(|attempt| attempt.stdio.discard());
            }
            Ok(Order::Resize { handle, rows, columns }) => {
                self.attempts.get(&handle).into_iter().for_each(|attempt| attempt.stdio.resize(rows, columns));
            }
            Ok(Order::EndWork { handle }) => {
                self.attempts.get_mut(&handle).into_iter().for_each(|attempt| attempt.stdio.end_work());
            }
            Ok(Order::Release { handle }) => self.release(handle),
            Err(error) => self.trouble(format!("an order is not understood: {error}")),
        }
    }

    fn launch(&mut self, launch: &Launch, received: Received) {
        let handle = launch.handle;
        if self.attempts.contains_key(&handle) {
            return self.trouble(format!("launch {handle} was ordered twice"));
        }
        let Taken { plan, descriptors, kept } = match take_plan(received) {
            Ok(taken) => taken,
            Err(error) => return self.not_started(handle, Step::Other, 0, error.to_string()),
        };
        // All jobs share the end of the lease; a new job does not make it earlier.
        self.lease = self.lease.max(launch.lease);
        let now = BootTime::now();
        let group = match Group::of(plan.group.iter().map(Vec::as_slice)) {
            Ok(group) => group,
            Err(error) => return self.not_started(handle, Step::Other, 0, error.to_string()),
        };
        let stdio = self.claimed(launch.claim).and_then(|()| Stdio::new(launch.kept, kept));
        match stdio {
            Ok(stdio) => drop(self.attempts.insert(handle, Attempt::new(launch, &plan, group, stdio))),
            Err(error) => return self.cannot_begin(handle, &error),
        }
        if plan.carried.is_none() {
            return self.begin(handle, plan, descriptors);
        }
        let deadline = now.plus(launch.launch_deadline);
        let identity = plan.identity.clone();
        let started = worker::start(identity.as_ref(), deadline, || match &plan.carried {
            Some(carried) => carried::write(carried).map(|()| 0),
            None => Ok(0),
        });
        match started {
            Ok(worker) => {
                let pid = worker.pid;
                self.workers.insert(pid, (worker, Work::Carry(handle)));
                if let Some(attempt) = self.attempts.get_mut(&handle) {
                    attempt.phase = Phase::Carrying { worker: pid, plan: Box::new(plan), descriptors };
                }
            }
            Err(error) => self.not_started(handle, Step::Spawn, error as i32, String::new()),
        }
    }

    fn begin(&mut self, handle: Handle, mut plan: Plan, descriptors: Vec<OwnedFd>) {
        let late = plan.session.as_ref().map(SessionState::late);
        let limits = match self.session.begin(&mut plan, Limits::of_files(self.files)) {
            Ok(limits) => limits,
            Err(reason) => return self.not_started(handle, Step::Pam, 0, reason),
        };
        let now = BootTime::now();
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        if let Some(reason) = late.filter(|_| attempt.launch_by <= now) {
            return self.not_started(handle, Step::Pam, 0, reason);
        }
        let entry = attempt.group.as_ref().map(Group::entry).transpose().map_err(std::io::Error::other);
        attempt.command = CheckpointCommand::of(&plan, &limits);
        match entry.and_then(|entry| begin(plan, descriptors, limits, entry)) {
            Ok(child) => attempt.phase = Phase::Launching { child: Box::new(child), since: now },
            Err(error) => self.cannot_begin(handle, &error),
        }
    }

    fn cannot_begin(&mut self, handle: Handle, error: &std::io::Error) {
        let errno = error.raw_os_error().unwrap_or(0);
        let reason = if errno == 0 { error.to_string() } else { String::new() };
        self.not_started(handle, Step::Spawn, errno, reason);
    }

    /// Handles a launch that did not start, or was killed before the first instruction of its program.
    fn not_started(&mut self, handle: Handle, step: Step, errno: i32, reason: String) {
        self.tell(handle, Answer::NotStarted { handle, step: step as u8, errno, reason });
        self.over(handle);
    }

    fn stop(&mut self, handle: Handle, grace: u64) {
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        if attempt.watch.stop(Why::Stop, BootTime::now().plus(grace)) {
            attempt.terminate();
        }
    }

    /// Returns the time at which [`Shepherd::time_passed`] has work.
    pub fn deadline(&self) -> Option<BootTime> {
        let attempts = self.attempts.values().filter_map(|attempt| attempt.deadline(self.lease));
        attempts.chain(self.workers.values().map(|(worker, _)| worker.deadline)).min()
    }

    pub fn time_passed(&mut self, now: BootTime) {
        let (mut late, mut stopping, mut checkpoints) = (Vec::new(), Vec::new(), Vec::new());
        let running = self.attempts.iter_mut().filter(|(_, attempt)| !matches!(attempt.phase, Phase::Idle));
        for (&handle, attempt) in running {
            match attempt.watch.due(self.lease, now) {
                Some(Due::Warn(signal)) => attempt.signal(signal),
                Some(Due::Checkpoint(signal, ran)) => checkpoints.push((handle, signal, ran)),
                Some(Due::KillCommand) => attempt.command.iter_mut().for_each(|command| command.kill()),
                Some(Due::Term(why)) => {
                    stopping.push((handle, why));
                    attempt.terminate();
                }
                // The other processes of the job follow when the leader is reaped.
                Some(Due::Kill) => attempt.signal(libc::SIGKILL),
                None => {}
            }
            if matches!(attempt.phase, Phase::Launching { .. }) && attempt.launch_by <= now {
                late.push(handle);
            }
        }
        for (handle, why) in stopping {
            self.tell(handle, Answer::Stopping { handle, why });
        }
        for (handle, signal, ran) in checkpoints {
            self.checkpoint(handle, signal, ran);
        }
        for handle in late {
            self.give_up(handle);
        }
        self.close_outputs(now);
        let mut stuck = Vec::new();
        for (worker, work) in self.workers.values_mut().filter(|(worker, _)| worker.deadline <= now) {
            worker.kill();
            // The kernel releases the worker at some time, and it is reaped then without a wait.
            worker.deadline = BootTime(u64::MAX);
            match work {
                Work::Carry(handle) => stuck.push((*handle, true)),
                Work::Sweep(handle) => stuck.push((*handle, false)),
                Work::Remove(_) => {}
            }
        }
        for (handle, carries) in stuck {
            if carries {
                self.not_started(handle, Step::Deadline, 0, String::new());
            } else {
                // At least the process that blocked the worker is left.
                self.emptied(handle, 1);
            }
        }
    }

    /// Gives a launch up: a user's file blocks the child, or its user has stopped it.
    fn give_up(&mut self, handle: Handle) {
        // The child may have continued at the last moment.
        self.child_reported(handle);
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        match std::mem::replace(&mut attempt.phase, Phase::Idle) {
            Phase::Launching { child, .. } => {
                // SAFETY: no memory is involved. The child is not collected yet, so its number is still valid.
                unsafe { libc::kill(child.pid.as_raw(), libc::SIGKILL) };
                self.abandoned.push(*child);
                self.not_started(handle, Step::Deadline, 0, String::new());
            }
            other => attempt.phase = other,
        }
    }

    /// Returns the pipes of children that do not run their programs yet.
    pub fn launching(&self) -> impl Iterator<Item = (Handle, BorrowedFd<'_>)> {
        self.attempts.iter().filter_map(|(handle, attempt)| match &attempt.phase {
            Phase::Launching { child, .. } => Some((*handle, child.as_file().as_fd())),
            _ => None,
        })
    }

    /// Handles a child that may have left this memory.
    pub fn child_reported(&mut self, handle: Handle) {
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        let Phase::Launching { child, since } = &mut attempt.phase else { return };
        match child.progress() {
            Progress::Open => {}
            Progress::Left => {
                let (leader, since) = (child.pid, *since);
                // From here on no process shares this memory.
                attempt.phase = Phase::Running { leader, since };
                attempt.begins(since);
                let freezes = attempt.group.as_ref().is_some_and(Group::can_freeze);
                self.tell(handle, Answer::Started { handle, leader: leader.as_raw(), freezes });
            }
            Progress::Failed(step, errno) => {
                if let Phase::Launching { child, .. } = std::mem::replace(&mut attempt.phase, Phase::Idle) {
                    self.abandoned.push(*child);
                }
                self.not_started(handle, step, errno, String::new());
            }
        }
    }

    /// Handles ended children.
    pub fn collect(&mut self) {
        while let Some(child) = reap::ended_child() {
            if let Some((worker, work)) = self.workers.remove(&child) {
                let status = reap::collect(child).map_or(0, |collected| collected.status);
                self.worked(work, worker.finished(status));
                continue;
            }
            if let Some(handle) = self.checkpointer(child) {
                // Without a status, the command has not succeeded.
                let status = reap::collect(child).map_or(-1, |collected| collected.status);
                self.command_over(handle, status);
                continue;
            }
            let find = |(handle, attempt): (&Handle, &Attempt)| (attempt.child() == Some(child)).then_some(*handle);
            let handle = self.attempts.iter().find_map(find);
            // An ended child has already left this memory, so that report is handled first.
            handle.into_iter().for_each(|handle| self.child_reported(handle));
            let leads = handle.filter(|handle| self.attempts.get(handle).is_some_and(|one| one.child() == Some(child)));
            if leads.is_some() {
                // The signal is sent before the child is collected, while the number of the group is certainly valid.
                group(child, libc::SIGKILL);
            }
            let collected = reap::collect(child);
            self.abandoned.retain(|one| one.pid != child);
            match (collected, leads) {
                (Some(collected), Some(handle)) => self.leader_ended(handle, &collected),
                (Some(_), None) => {}
                (None, _) => return,
            }
        }
        self.ready_if_settled();
    }

    fn leader_ended(&mut self, handle: Handle, collected: &Collected) {
        let now = BootTime::now();
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        let Phase::Running { since, .. } = attempt.phase else { return };
        let elapsed = now.0.saturating_sub(since.0);
        let mut ended = ended(collected, attempt.watch.why(), elapsed);
        let mark = attempt.mark.clone();
        attempt.command.iter_mut().for_each(|command| command.kill());
        // The process must no longer count as a leader.
        attempt.phase = Phase::Idle;
        attempt.stdio.close_stdin();
        attempt.close_by = attempt.stdio.is_open().then(|| now.plus(AFTER_END));
        let group = attempt.group.clone();
        if let Some(group) = &group {
            self.measure(group, &mut ended);
        }
        self.tell(handle, Answer::Exited { handle, ended });
        self.kill_rest(handle, group, mark, now);
    }

    /// Ends everything, because `lslave` has ended.
    pub fn end_all(&mut self) {
        for attempt in self.attempts.values() {
            attempt.signal(libc::SIGKILL);
            let _ = attempt.group.as_ref().map(|group| group.kill(std::time::Duration::ZERO));
        }
        for child in children().unwrap_or_default() {
            // SAFETY: no memory is involved. No child is collected meanwhile.
            unsafe { libc::kill(child.as_raw(), libc::SIGKILL) };
        }
        while let Some(child) = reap::ended_child() {
            if reap::collect(child).is_none() {
                return;
            }
        }
    }
}
