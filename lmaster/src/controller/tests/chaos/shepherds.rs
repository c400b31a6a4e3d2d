//! The simulated shepherds of a machine: each holds one attempt, with its process and the answers about it.

use limo_node::{Connected, Input as Happened, LaunchOrder};
use limo_shepherd::{BootTime, Ended, Handle, Order, Why};

use super::host::{Host, Key, node_moment};
use super::*;

/// A shepherd that holds an attempt.
#[derive(Debug)]
pub struct Herd {
    pub key: Key,
    pub cookie: String,
    /// Answers about the attempt, which the next daemon gets again.
    pub told: Vec<Told>,
}

#[derive(Debug, Clone, Copy)]
pub enum Told {
    Started,
    NotStarted,
    /// The machine has failed.
    NotHere,
    Stopping(Why),
    Exited(Ended),
    Emptied,
}

impl Told {
    pub fn input(self, handle: Handle, connected: Connected) -> Happened {
        match self {
            Self::Started => {
                let leader = i32::try_from(handle.0).expect("few");
                Happened::Started { handle, leader, connected, freezes: false }
            }
            Self::NotStarted => Happened::NotStarted { handle, code: Some(127), reason: "not found".into() },
            Self::NotHere => Happened::NotStarted { handle, code: None, reason: "input/output error".into() },
            Self::Stopping(why) => Happened::Stopping { handle, why },
            Self::Exited(ended) => Happened::Exited { handle, ended },
            Self::Emptied => Happened::Emptied { handle, left: 0 },
        }
    }
}

#[derive(Debug)]
pub struct Process {
    pub key: Key,
    pub ran: Span,
    limit: Option<Span>,
    lease: Option<BootTime>,
    kill_at: Option<Time>,
    pub is_told_to_stop: bool,
    pub is_frozen: bool,
}

impl Host {
    /// Returns true if a shepherd holds an attempt.
    pub fn has_jobs(&self) -> bool {
        !self.shepherds.is_empty()
    }

    pub fn has_suspended_jobs(&self) -> bool {
        self.processes.values().any(|process| process.is_frozen)
    }
}

impl World {
    /// Kills a shepherd with `kill -9`: its job is lost, and no other one. The daemon may be killed with it.
    pub fn kill_shepherd(&mut self, index: usize, and_daemon: bool) {
        let host = &mut self.hosts[index];
        let count = host.shepherds.len();
        if count == 0 {
            return;
        }
        self.seen.saw("kill of a shepherd");
        // Together they strike the newest job, of whose start the master may not know.
        let place = if and_daemon { count - 1 } else { self.dice.roll(count) };
        let host = &mut self.hosts[index];
        let handle = *host.shepherds.keys().nth(place).expect("within the count");
        let Herd { key, .. } = host.shepherds.remove(&handle).expect("it is there");
        host.processes.remove(&handle);
        host.abandoned.insert(key);
        self.cut_down.insert(key.0);
        if and_daemon {
            return self.kill_daemon(index);
        }
        let mut lost = vec![Happened::ShepherdLost { handle }];
        lost.extend(self.outputs_end(index, handle, true));
        for input in self.soon(index, lost) {
            self.happens(index, input);
        }
    }

    pub fn launches(&mut self, index: usize, order: LaunchOrder) -> Vec<Happened> {
        let LaunchOrder { launch, exec, cookie, .. } = order;
        let (key, name) = ((exec.job, exec.attempt), self.hosts[index].name.clone());
        let (job, attempt) = key;
        assert_eq!(exec.journal, self.bench.disk.journal, "job {job} of another journal is started on {name}");
        assert!(self.hosts[index].is_open(key), "attempt {attempt} of job {job} is started on {name} without a record");
        let is_prepared = self.hosts[index].prepared.contains(&key);
        assert!(is_prepared, "attempt {attempt} of job {job} is started on {name} without a prolog");
        let runs = |host: &Host| host.processes.values().any(|other| other.key.0 == job && other.key.1 != attempt);
        assert!(!self.hosts.iter().any(runs), "attempt {attempt} of job {job} is released while another one runs");
        let handle = launch.handle;
        self.hosts[index].shepherds.insert(handle, Herd { key, cookie, told: Vec::new() });
        if self.rarely(24) {
            self.seen.saw("not started");
            let told = if self.dice.roll(2) == 0 { Told::NotStarted } else { Told::NotHere };
            return self.answers(index, handle, &[told]);
        }
        let starts = self.starts.entry(job).or_default().entry((attempt, name.clone())).or_default();
        *starts += 1;
        assert_eq!(*starts, 1, "attempt {attempt} of job {job} is started twice on {name}");
        let span = |ms: u64| Span::from_ms(i64::try_from(ms).expect("not long"));
        let process = Process {
            key,
            ran: Span::ZERO,
            limit: launch.time_limit.map(span),
            lease: launch.lease,
            kill_at: None,
            is_told_to_stop: false,
            is_frozen: false,
        };
        self.hosts[index].processes.insert(handle, process);
        self.opens(index, handle, &exec);
        self.answers(index, handle, &[Told::Started])
    }

    /// Gives the answers of a shepherd, which keeps them for the next daemon.
    fn answers(&mut self, index: usize, handle: Handle, told: &[Told]) -> Vec<Happened> {
        if let Some(herd) = self.hosts[index].shepherds.get_mut(&handle) {
            herd.told.extend(told);
        }
        let connected = self.hosts[index].connected(handle);
        self.soon(index, told.iter().map(|told| told.input(handle, connected)).collect())
    }

    /// Lets a shepherd forget its attempt.
    pub fn releases(&mut self, index: usize, key: Key, handle: Option<Handle>) {
        let kept = handle.is_some_and(|handle| self.is_kept_for_streams(index, handle));
        let host = &mut self.hosts[index];
        match handle {
            Some(_) if kept => {}
            Some(handle) => drop(host.shepherds.remove(&handle)),
            None => drop(host.abandoned.remove(&key)),
        }
    }

    pub fn ordered(&mut self, index: usize, order: Order) -> Vec<Happened> {
        let now = self.bench.now;
        let processes = &mut self.hosts[index].processes;
        match order {
            Order::Stop { handle, grace, .. } => {
                let Some(process) = processes.get_mut(&handle) else { return Vec::new() };
                let kill_at = now + Span::from_ms(i64::try_from(grace).expect("not long"));
                process.is_told_to_stop = true;
                process.kill_at = Some(process.kill_at.map_or(kill_at, |before| before.min(kill_at)));
                // The answer may be late.
                if self.dice.roll(2) == 0 {
                    return self.exits(index, handle, 15, Why::Stop);
                }
            }
            Order::Lease { until } => {
                for process in processes.values_mut().filter(|process| process.lease.is_some()) {
                    process.lease = Some(until);
                }
            }
            Order::Frozen { handle, on } => {
                processes.get_mut(&handle).into_iter().for_each(|process| process.is_frozen = on);
            }
            Order::Extend { handle, limit } => {
                let limit = Span::from_ms(i64::try_from(limit).expect("not long"));
                processes.get_mut(&handle).into_iter().for_each(|process| process.limit = Some(limit));
            }
            Order::Limit { handle, limit } => {
                let limit = limit.map(|ms| Span::from_ms(i64::try_from(ms).expect("not long")));
                processes.get_mut(&handle).into_iter().for_each(|process| process.limit = limit);
            }
            _ => {}
        }
        Vec::new()
    }

    /// Ends a command; `status` is as in `waitpid(2)`.
    fn exits(&mut self, index: usize, handle: Handle, status: i32, why: Why) -> Vec<Happened> {
        let host = &mut self.hosts[index];
        let Some(process) = host.processes.remove(&handle) else { return Vec::new() };
        let (job, attempt) = process.key;
        let outcome = match status {
            signal @ 1..128 => Outcome::Signaled(signal),
            code => Outcome::Exited(u8::try_from(code >> 8).expect("a code")),
        };
        let outcome = if why == Why::Limit { outcome.at_limit() } else { outcome };
        self.exits.insert((job, attempt, host.name.clone()), outcome);
        let ended = Ended { status, elapsed: 0, user_cpu: 0, system_cpu: 0, max_rss: 0, why, exceeded_memory: None };
        let mut told = vec![Told::Exited(ended), Told::Emptied];
        if matches!(why, Why::Limit | Why::Lease) {
            told.insert(0, Told::Stopping(why));
        }
        let mut inputs = self.answers(index, handle, &told);
        let ends = self.outputs_end(index, handle, false);
        inputs.extend(self.soon(index, ends));
        inputs
    }

    /// Fires time limits, leases and the ends of graces, which `lshepherd` enforces.
    pub fn timers(&mut self, index: usize, span: Span) {
        let (now, boot) = (self.bench.now, node_moment(self.bench.now).boot);
        let mut over = Vec::new();
        for (&handle, process) in &mut self.hosts[index].processes {
            process.ran = process.ran + if process.is_frozen { Span::ZERO } else { span };
            if process.kill_at.is_some_and(|at| at <= now) {
                over.push((handle, 9, Why::Stop));
            } else if process.lease.is_some_and(|end| end <= boot) {
                self.seen.saw("a lease ended");
                over.push((handle, 15, Why::Lease));
            } else if process.limit.is_some_and(|limit| process.ran >= limit) {
                self.seen.saw("a time limit");
                over.push((handle, 15, Why::Limit));
            }
        }
        for (handle, signal, why) in over {
            self.ends(index, handle, signal, why);
        }
    }

    pub fn ends(&mut self, index: usize, handle: Handle, status: i32, why: Why) {
        for input in self.exits(index, handle, status, why) {
            self.happens(index, input);
        }
    }
}
