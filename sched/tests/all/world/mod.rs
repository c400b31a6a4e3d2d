//! A cluster in simulated time around a real core: nodes that start what they are told to and end it when its time is
//! over. Records every call, so that a run can be replayed.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, JobId, NodeId, Outcome, Span, Time, Usage};
use limo_sched::{Command, Core, Event, Options, Preset, Refused, Round};

/// What a run called the core with, and what it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Apply(Time, Event),
    Round(Round),
}

pub struct World {
    pub core: Core,
    pub now: Time,
    pub calls: Vec<Call>,
    /// Attempts that run, by the time at which they end.
    ends: BTreeMap<(Time, JobId), Attempt>,
    /// How long a job takes in fact, where that is not as long as estimated.
    pub takes: BTreeMap<JobId, Span>,
    /// Nodes that do not answer.
    pub silent: BTreeSet<NodeId>,
    wake_at: Option<Time>,
    /// Nodes on their way to sleep or to wake, by when they are there; waking comes after what sleeps at the same time.
    switches: BTreeMap<(Time, bool), Vec<(NodeId, u32)>>,
    /// Jobs whose nodes are waking.
    held: BTreeMap<(Time, JobId), (Attempt, Span)>,
}

impl World {
    pub fn new(preset: Preset, options: Options) -> Self {
        let now = Time::from_unix_ms(0);
        let core = Core::new(now, preset, options);
        Self {
            core,
            now,
            calls: Vec::new(),
            ends: BTreeMap::new(),
            takes: BTreeMap::new(),
            silent: BTreeSet::new(),
            wake_at: None,
            switches: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    pub fn apply(&mut self, event: Event) -> Result<(), Refused> {
        self.core.apply(self.now, &event)?;
        self.calls.push(Call::Apply(self.now, event));
        Ok(())
    }

    /// One round, and what the nodes do about it at once.
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
            Command::Start { placement, .. }
                if placement.iter().flat_map(|part| part.nodes()).any(|node| self.silent.contains(&node)) => {}
            Command::Start { job, attempt, estimate, placement } => {
                let nodes = || placement.iter().flat_map(|part| part.nodes());
                let waking = nodes().filter_map(|node| self.awake_at(node)).max();
                let takes = self.takes.get(job).copied();
                match waking {
                    Some(at) => {
                        let takes = takes.unwrap_or(estimate.duration - (at - self.now));
                        self.held.insert((at, *job), (*attempt, takes));
                    }
                    None => self.start(*job, *attempt, takes.unwrap_or(estimate.duration)),
                }
            }
            // A job that reaches its limit as it ends by itself ends in its turn.
            Command::Stop { job, .. } if self.ends.contains_key(&(self.now, *job)) => {}
            Command::Stop { job, attempt, .. } => {
                self.ends.retain(|(_, id), _| id != job);
                self.held.retain(|(_, id), _| id != job);
                self.end(*job, *attempt, Outcome::Signaled(15));
            }
            Command::Sleep { nodes } => self.switch(nodes, false),
            Command::Wake { nodes } => self.switch(nodes, true),
        }
    }

    fn start(&mut self, job: JobId, attempt: Attempt, takes: Span) {
        self.apply(Event::Started { job, attempt }).expect("the job was just assigned");
        self.ends.insert((self.now + takes, job), attempt);
    }

    fn switch(&mut self, nodes: &[(NodeId, u32)], up: bool) {
        for (first, count) in nodes {
            let rest = self.core.node(*first).and_then(|node| node.spec().rest).expect("only nodes that can sleep");
            let span = if up { rest.up.span } else { rest.down.span };
            self.switches.entry((self.now + span, up)).or_default().push((*first, *count));
        }
    }

    /// When a node that wakes is awake.
    fn awake_at(&self, node: NodeId) -> Option<Time> {
        let holds =
            |runs: &Vec<(NodeId, u32)>| runs.iter().any(|(first, count)| (first.0..first.0 + count).contains(&node.0));
        self.switches.iter().find(|((_, up), runs)| *up && holds(runs)).map(|((at, _), _)| *at)
    }

    /// The daemon of a node has registered: it is awake, whatever it was on its way to.
    pub fn registered(&mut self, node: NodeId) {
        let others = |(first, count): (NodeId, u32)| {
            let runs = [(first.0, node.0.min(first.0 + count)), (first.0.max(node.0 + 1), first.0 + count)];
            runs.into_iter().filter(|(from, to)| from < to).map(|(from, to)| (NodeId(from), to - from))
        };
        for runs in self.switches.values_mut() {
            *runs = runs.drain(..).flat_map(others).collect();
        }
    }

    /// A job that has not begun is taken back from its nodes.
    pub fn take_back(&mut self, job: JobId, attempt: Attempt) {
        self.held.retain(|(_, id), _| *id != job);
        let event = Event::TakenBack { job, attempt, reason: "test".into(), suspect: true };
        self.apply(event).expect("it was starting");
    }

    fn end(&mut self, job: JobId, attempt: Attempt, outcome: Outcome) {
        let ended = Event::Ended { job, attempt, outcome, usage: Usage::default() };
        self.apply(ended).expect("the job was running");
    }

    /// The next time at which something happens by itself.
    pub fn next(&self) -> Option<Time> {
        let end = self.next_end();
        let switch = self.switches.keys().next().map(|(at, _)| *at);
        [end, switch, self.wake_at].into_iter().flatten().min()
    }

    /// Goes to `to` and ends the jobs whose time is over then.
    pub fn advance(&mut self, to: Time) -> Vec<JobId> {
        self.now = self.now.max(to);
        let mut ended = Vec::new();
        while let Some(entry) = self.switches.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((_, up), nodes) = entry.remove_entry();
            let event = if up { Event::Awake { nodes } } else { Event::Asleep { nodes } };
            self.apply(event).expect("the nodes are known");
        }
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((_, job), (attempt, takes)) = entry.remove_entry();
            self.start(job, attempt, takes);
        }
        while let Some(job) = self.end_one() {
            ended.push(job);
        }
        ended
    }

    /// Ends the next job whose time is over: for those who ask for a round after each.
    pub fn end_one(&mut self) -> Option<JobId> {
        let entry = self.ends.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        let ((_, job), attempt) = entry.remove_entry();
        self.end(job, attempt, Outcome::Exited(0));
        Some(job)
    }

    /// When the next job ends.
    pub fn next_end(&self) -> Option<Time> {
        self.ends.keys().next().map(|(at, _)| *at)
    }
}
