//! A cluster in simulated time around a real core, whose nodes start jobs as ordered and end them on time. Records
//! every call, so that a run can be replayed.

mod task;

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    Attempt, Estimate, JobId, NodeId, Outcome, Part, Power, Preset, Span, StopReason, Time, UnitId, Usage,
};
use limo_sched::{Command, Core, Event, Options, Refused, Round};

use task::{Task, TaskUnit};

/// A call to the core, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Apply(Time, Event),
    Round(Round),
}

pub struct World {
    pub core: Core,
    pub now: Time,
    pub calls: Vec<Call>,
    /// Running jobs.
    tasks: BTreeMap<JobId, Task>,
    /// Ends of running jobs that are not suspended.
    ends: BTreeSet<(Time, JobId)>,
    /// Actual duration of a job, if it differs from the estimate.
    pub takes: BTreeMap<JobId, Span>,
    /// Nodes that cannot set any cap.
    pub capless: BTreeSet<NodeId>,
    /// Jobs that end with exit code 1.
    pub fails: BTreeSet<JobId>,
    /// Nodes that send no answers.
    pub silent: BTreeSet<NodeId>,
    /// True if nodes keep their confirmations until told to send them.
    pub is_slow: bool,
    /// Confirmations that nodes keep.
    pub kept: Vec<Event>,
    wake_at: Option<Time>,
    /// Nodes that fall asleep or wake, by the time at which they have done so; at equal times, falling asleep comes
    /// first.
    switches: BTreeMap<(Time, bool), Vec<(NodeId, u32)>>,
    /// Jobs whose nodes are waking.
    held: BTreeMap<(Time, JobId), Held>,
    /// Jobs that wait until they are released.
    unreleased: BTreeMap<JobId, Held>,
    /// Jobs that were assigned to silent nodes, which do not know them.
    unheard: BTreeSet<JobId>,
}

/// A job that is about to begin.
struct Held {
    attempt: Attempt,
    takes: Span,
    power: Power,
    placement: Vec<Part>,
}

impl World {
    pub fn new(preset: Preset, options: Options) -> Self {
        let now = Time::from_unix_ms(0);
        let core = Core::new(now, preset, options);
        Self {
            core,
            now,
            calls: Vec::new(),
            tasks: BTreeMap::new(),
            ends: BTreeSet::new(),
            takes: BTreeMap::new(),
            capless: BTreeSet::new(),
            fails: BTreeSet::new(),
            silent: BTreeSet::new(),
            is_slow: false,
            kept: Vec::new(),
            wake_at: None,
            switches: BTreeMap::new(),
            held: BTreeMap::new(),
            unreleased: BTreeMap::new(),
            unheard: BTreeSet::new(),
        }
    }

    pub fn apply(&mut self, event: Event) -> Result<(), Refused> {
        self.core.apply(self.now, &event)?;
        self.calls.push(Call::Apply(self.now, event));
        Ok(())
    }

    /// Runs one round and the immediate reactions of the nodes.
    pub fn round(&mut self) -> Round {
        let round = self.core.round(self.now);
        self.calls.push(Call::Round(round.clone()));
        self.wake_at = round.wake_at;
        for command in &round.commands {
            self.obey(command);
        }
        round
    }

    fn obey(&mut self, command: &Command) {
        match command {
            Command::Start { job, placement, .. }
                if placement.iter().flat_map(|part| part.nodes()).any(|node| self.silent.contains(&node)) =>
            {
                self.unheard.insert(*job);
            }
            Command::Start { job, attempt, estimate, placement, after } => {
                self.unheard.remove(job);
                let nodes = || placement.iter().flat_map(|part| part.nodes());
                let waking = nodes().filter_map(|node| self.awake_at(node)).max();
                let (takes, placement) = (self.takes.get(job).copied(), placement.clone());
                let Estimate { power, duration, .. } = *estimate;
                let held = |takes| Held { attempt: *attempt, takes, power, placement };
                match waking {
                    _ if !after.is_empty() => {
                        self.unreleased.insert(*job, held(takes.unwrap_or(duration)));
                    }
                    Some(at) => {
                        let takes = takes.unwrap_or(duration - (at - self.now));
                        self.held.insert((at, *job), held(takes));
                    }
                    None => self.start(*job, held(takes.unwrap_or(duration))),
                }
            }
            Command::Release { job, .. } if self.unheard.contains(job) => {}
            Command::Release { job, attempt } => {
                let held = self.unreleased.remove(job).filter(|held| held.attempt == *attempt);
                let held = held.expect("it was assigned, and waits");
                match held.placement.iter().flat_map(|part| part.nodes()).filter_map(|node| self.awake_at(node)).max() {
                    Some(at) => drop(self.held.insert((at, *job), held)),
                    None => self.start(*job, held),
                }
            }
            // A job that reaches its time limit at its own end ends by itself.
            Command::Stop { job, .. } if self.ends.contains(&(self.now, *job)) => {}
            // The master takes back a job that no node has begun.
            Command::Stop { job, attempt, why } if !self.tasks.contains_key(job) => {
                let suspect = !matches!(why, StopReason::Unconfirmed { .. });
                self.withdraw(*job, *attempt, suspect);
            }
            Command::Stop { job, attempt, .. } => self.stop(*job, *attempt),
            Command::Cap { node, generation, caps } if self.capless.contains(node) => {
                let failed = (0..).zip(caps).filter(|(_, cap)| cap.is_some()).map(|(unit, _)| unit).collect();
                self.confirm(Event::Capped { node: *node, generation: *generation, failed });
            }
            Command::Cap { node, generation, caps } => {
                let jobs: Vec<_> = self.tasks.iter().filter(|(_, task)| task.is_on(*node)).map(|(id, _)| *id).collect();
                for job in jobs {
                    self.change(job, |task, now| task.hold_at(now, *node, caps));
                }
                self.confirm(Event::Capped { node: *node, generation: *generation, failed: Vec::new() });
            }
            Command::Suspend { job, attempt } => self.pause(*job, *attempt, true),
            Command::Resume { job, attempt } => self.pause(*job, *attempt, false),
            Command::Resize { job, placement, .. } => {
                let units = self.units(placement);
                self.change(*job, |task, now| task.resize(now, units));
            }
            Command::Sleep { nodes } => self.switch(nodes, false),
            Command::Wake { nodes } => self.switch(nodes, true),
            Command::Signal { .. } | Command::UsedUp { .. } => {}
        }
    }

    fn start(&mut self, job: JobId, held: Held) {
        let Held { attempt, takes, power, placement } = held;
        self.apply(Event::Started { job, attempt }).expect("the job was just assigned");
        let mut task = Task::new(attempt, self.now, takes, power);
        if placement.iter().all(|part| part.cap.is_none()) {
            task = task.on(self.units(&placement));
        }
        self.tasks.insert(job, task);
        self.change(job, |_, _| {});
    }

    /// Returns the units of a placement with their present caps.
    fn units(&self, placement: &[Part]) -> Vec<TaskUnit> {
        let units = placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)));
        let on = |(id, part): (UnitId, &Part)| {
            let node = self.core.node(id.node)?;
            let cores = (part.cores, node.spec().units[usize::from(id.unit)].cores);
            Some(TaskUnit { id, cores, cap: node.cap(id.unit) })
        };
        units.filter_map(on).collect()
    }

    /// Changes a running job, and updates its end.
    fn change(&mut self, job: JobId, change: impl FnOnce(&mut Task, Time)) {
        let Some(task) = self.tasks.get_mut(&job) else { return };
        change(task, self.now);
        let end = task.end();
        self.ends.retain(|(_, id)| *id != job);
        self.ends.extend(end.map(|end| (end, job)));
    }

    fn pause(&mut self, job: JobId, attempt: Attempt, paused: bool) {
        self.change(job, |task, now| task.pause(now, paused));
        self.confirm(Event::Paused { job, attempt, paused });
    }

    /// Confirms a command, unless the node is silent.
    fn confirm(&mut self, event: Event) {
        if self.is_slow {
            self.kept.push(event);
        } else if self.silent.is_empty() {
            self.apply(event).expect("it was told");
        }
    }

    /// Sends the confirmation at this place among those that are kept.
    pub fn send_kept(&mut self, place: usize) {
        if !self.kept.is_empty() {
            let event = self.kept.remove(place % self.kept.len());
            // The attempt may be over.
            let _ = self.apply(event);
        }
    }

    fn switch(&mut self, nodes: &[(NodeId, u32)], up: bool) {
        for (first, count) in nodes {
            let rest = self.core.node(*first).and_then(|node| node.spec().rest()).expect("only nodes that can sleep");
            let span = if up { rest.up.span } else { rest.down.span };
            self.switches.entry((self.now + span, up)).or_default().push((*first, *count));
        }
    }

    /// Returns the time at which a waking node is awake.
    fn awake_at(&self, node: NodeId) -> Option<Time> {
        let holds =
            |runs: &Vec<(NodeId, u32)>| runs.iter().any(|(first, count)| (first.0..first.0 + count).contains(&node.0));
        self.switches.iter().find(|((_, up), runs)| *up && holds(runs)).map(|((at, _), _)| *at)
    }

    /// Registers the daemon of a node: the node is awake, even if it was about to sleep.
    pub fn registered(&mut self, node: NodeId) {
        let others = |(first, count): (NodeId, u32)| {
            let runs = [(first.0, node.0.min(first.0 + count)), (first.0.max(node.0 + 1), first.0 + count)];
            runs.into_iter().filter(|(from, to)| from < to).map(|(from, to)| (NodeId(from), to - from))
        };
        for runs in self.switches.values_mut() {
            *runs = runs.drain(..).flat_map(others).collect();
        }
    }

    /// Takes a job that has not begun back from its nodes.
    pub fn take_back(&mut self, job: JobId, attempt: Attempt) {
        self.withdraw(job, attempt, true);
    }

    fn withdraw(&mut self, job: JobId, attempt: Attempt, suspect: bool) {
        self.held.retain(|(_, id), _| *id != job);
        self.unreleased.remove(&job);
        let event = Event::TakenBack { job, attempt, reason: "test".into(), suspect, blame: None };
        self.apply(event).expect("it was starting");
    }

    fn end(&mut self, job: JobId, attempt: Attempt, outcome: Outcome) {
        let ended = Event::Ended { job, attempt, outcome, usage: Usage::default() };
        self.apply(ended).expect("the job was running");
    }

    /// Loses a node that was unreachable for longer than its lease: its attempts end without its report.
    pub fn lose(&mut self, node: NodeId) -> Result<Vec<JobId>, Refused> {
        self.apply(Event::NodeLost { node, by: "master".into() })?;
        let jobs = self.core.jobs_on(node);
        for job in &jobs {
            self.tasks.remove(job);
            self.ends.retain(|(_, id)| id != job);
            self.held.retain(|(_, id), _| id != job);
            self.unreleased.remove(job);
            let attempt = self.core.job(*job).and_then(|job| job.assignment()).expect("on a node").attempt;
            self.end(*job, attempt, Outcome::NodeFailed { reason: "lost".into() });
        }
        Ok(jobs)
    }

    /// Returns the time of the next event without a command.
    pub fn next(&self) -> Option<Time> {
        let end = self.next_end();
        let switch = self.switches.keys().next().map(|(at, _)| *at);
        [end, switch, self.wake_at].into_iter().flatten().min()
    }

    /// Advances to `to`, and ends the jobs that are due.
    pub fn stop(&mut self, job: JobId, attempt: Attempt) {
        self.tasks.remove(&job);
        self.ends.retain(|(_, id)| *id != job);
        self.end(job, attempt, Outcome::Signaled(15));
    }

    pub fn advance(&mut self, to: Time) -> Vec<JobId> {
        self.now = self.now.max(to);
        let mut ended = Vec::new();
        while let Some(entry) = self.switches.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((_, up), nodes) = entry.remove_entry();
            let event = if up { Event::Awake { nodes } } else { Event::Asleep { nodes } };
            self.apply(event).expect("the nodes are known");
        }
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((_, job), held) = entry.remove_entry();
            self.start(job, held);
        }
        while let Some(job) = self.end_one() {
            ended.push(job);
        }
        ended
    }

    /// Ends the next job that is due, for tests with a round after each.
    pub fn end_one(&mut self) -> Option<JobId> {
        let (at, job) = self.ends.first().copied().filter(|(at, _)| *at <= self.now)?;
        self.ends.remove(&(at, job));
        let attempt = self.tasks.remove(&job)?.attempt;
        self.end(job, attempt, Outcome::Exited(self.fails.contains(&job).into()));
        Some(job)
    }

    /// Returns the time of the next end of a job.
    pub fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(at, _)| *at)
    }
}
