//! State of jobs, nodes and settings over time, from the entries of the journal, without the core.

use std::collections::BTreeMap;
use std::path::Path;

use limo_journal::{Entry, History};
use limo_model::{Band, Curve, NodeId, Placement, Power, Price, Quotas, Request, Reservation, Time};
use limo_proto::JobState;
use limo_sched::{Command, Event, Finished, Round};

use crate::timeline::{Timeline, While};

/// Longest time from the note of a kill to the master's end.
const KILLED_MS: i64 = 500;

/// History of a job or an array.
pub struct JobHistory {
    pub request: Request,
    pub submitted: i64,
    /// Number of tasks of an array; 0 for a job.
    pub tasks: u32,
    pub state: Timeline<JobState>,
    pub placement: Timeline<Option<Placement>>,
    pub started: Timeline<Option<i64>>,
    pub held: Timeline<Option<String>>,
    pub finished: Option<Finished>,
}

#[derive(Default)]
pub struct NodeHistory {
    pub name: String,
    pub cores: u32,
    pub connected: Timeline<bool>,
    /// True while the node is drained or lost.
    pub closed: Timeline<bool>,
    drained: bool,
    /// Cores of each job on the node.
    pub jobs: Timeline<BTreeMap<u64, u32>>,
    pub reading: Timeline<Power>,
    /// Caps of the node's units.
    pub caps: Timeline<Vec<Option<Power>>>,
}

/// Number of a user's running jobs, the number of their cores, and the number of waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub running: u64,
    pub cores: u64,
    pub waiting: u64,
}

/// Sums over the finished runs of a user.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    pub jobs: u64,
    pub energy_j: f64,
    pub cost: Option<f64>,
}

#[derive(Default)]
pub struct World {
    pub jobs: BTreeMap<u64, JobHistory>,
    pub nodes: Vec<NodeHistory>,
    /// Counts by user; an empty name stands for the total.
    pub counts: BTreeMap<String, Timeline<Counts>>,
    pub sums: BTreeMap<String, Timeline<Sums>>,
    pub policy: Timeline<String>,
    pub mode_setting: Timeline<String>,
    pub limits: Timeline<Curve<Band>>,
    pub prices: Timeline<Option<Curve<Price>>>,
    pub quotas: Timeline<Quotas>,
    pub reservations: Timeline<BTreeMap<String, Reservation>>,
    /// True if any period had a budget.
    pub budgets: Timeline<bool>,
    /// Time at which a node last became suspect.
    pub suspected: Timeline<i64>,
    /// Plans that broke a rule, with the policy of the time and the rules.
    pub rejected: Vec<String>,
    kills: Vec<i64>,
    /// Last time at which the first node was away, which only the master's death causes.
    died: i64,
    /// Finished attempts of jobs with a state that is not known yet.
    open: Vec<(u64, i64)>,
}

impl World {
    /// Reads the journal. `kills` are the times at which the master was killed.
    ///
    /// # Panics
    /// If the journal cannot be read.
    pub fn read(state_dir: &Path, kills: Vec<i64>) -> Self {
        let mut world = Self { kills, ..Self::default() };
        for entry in History::open(state_dir).expect("a journal") {
            let entry = entry.expect("readable");
            let at = entry.at.unix_ms();
            match entry.entry {
                Entry::Event(event) => world.event(at, event),
                Entry::Round(round) => world.round(at, round),
            }
        }
        world
    }

    fn event(&mut self, at: i64, event: Event) {
        match event {
            Event::Submitted { job, request } => self.submitted(at, job.0, (*request, 0)),
            Event::ArraySubmitted { job, tasks, request } => {
                self.submitted(at, job.0, ((*request).clone(), tasks.count()));
                for task in 1..=u64::from(tasks.count()) {
                    self.submitted(at, job.0 + task, ((*request).clone(), 0));
                }
            }
            Event::CancelRequested { job, .. } => self.cancel_tasks(at, job.0),
            Event::TakenBack { job, suspect, .. } => {
                self.unassign(at, job.0);
                if suspect {
                    self.suspected.set(at, at);
                }
            }
            Event::Started { job, .. } => {
                self.job(job.0).started.set(at, Some(at));
                // A job that is stopped before its start stays in that state.
                if self.job(job.0).state.now() == Some(&JobState::Starting) {
                    self.state(at, job.0, JobState::Running);
                }
            }
            Event::Ended { job, .. } => self.open.push((job.0, at)),
            Event::Held { job, by } => self.hold(at, job.0, Some(by)),
            Event::Released { job, .. } => self.hold(at, job.0, None),
            Event::NodeUp { spec } => {
                let node = self.node_named(&spec.name);
                node.cores = spec.units.iter().map(|unit| unit.cores).sum();
                node.connected.set(at, true);
                node.closed.set(at, node.drained);
                if node.reading.now().is_none() {
                    node.reading.set(at, spec.idle);
                }
            }
            Event::NodeAway { node } => {
                let at = self.gone_at(at, node);
                self.node(node).connected.set(at, false);
            }
            Event::NodeLost { node, .. } => self.node(node).closed.set(at, true),
            Event::NodeDrained { node, .. } => {
                self.node(node).drained = true;
                self.node(node).closed.set(at, true);
            }
            Event::NodeResumed { node, .. } => {
                self.node(node).drained = false;
                self.node(node).closed.set(at, false);
            }
            Event::Readings { draws } => {
                for (node, draw) in draws {
                    self.node(node).reading.set(at, draw);
                }
            }
            Event::LimitsSet { limits, .. } => self.limits.set(at, limits),
            Event::PricesSet { prices, .. } => self.prices.set(at, prices),
            Event::PolicySet { preset, .. } => self.policy.set(at, preset.to_string()),
            Event::ModeSet { mode, .. } => self.mode_setting.set(at, mode.to_string()),
            Event::QuotasSet { quotas, .. } => self.quotas.set(at, quotas),
            Event::BudgetsSet { budgets, .. } => self.budgets.set(at, !budgets.is_empty()),
            Event::ReservationSet { name, reservation, .. } => {
                let mut all = self.reservations.now().cloned().unwrap_or_default();
                match reservation {
                    Some(reservation) => all.insert(name, *reservation),
                    None => all.remove(&name),
                };
                self.reservations.set(at, all);
            }
            _ => {}
        }
    }

    fn round(&mut self, at: i64, round: Round) {
        if !round.violations.is_empty() {
            self.rejected.push(format!("{:?}: {:?}", self.policy.now(), round.violations));
        }
        for finished in round.finished {
            self.finish(at, finished);
        }
        // A job that ended and is not finished will run again.
        for (job, ended) in std::mem::take(&mut self.open) {
            if self.job(job).finished.is_none() {
                self.unassign(ended, job);
            }
        }
        for command in round.commands {
            match command {
                Command::Start { job, placement, .. } => self.assign(at, job.0, placement),
                Command::Stop { job, .. } => self.state(at, job.0, JobState::Stopping),
                Command::Suspend { job, .. } => self.state(at, job.0, JobState::Suspended),
                Command::Cap { node, caps, .. } => self.node(node).caps.set(at, caps),
                Command::Resume { job, .. } => self.state(at, job.0, JobState::Running),
                _ => {}
            }
        }
    }

    /// Returns the time since which a node is away. A new master records, at the time of the last entry, that no node
    /// is connected. They were connected until the previous master died.
    fn gone_at(&mut self, at: i64, node: NodeId) -> i64 {
        if node == NodeId(0) {
            self.died = at;
        }
        // The master may write until a moment after the recorded time of its kill.
        let died = self.kills.iter().find(|kill| at == self.died && **kill + KILLED_MS >= at);
        died.map_or(at, |kill| at.max(*kill))
    }

    /// Returns the history of a job.
    ///
    /// # Panics
    /// If the journal names a job that was not submitted.
    fn job(&mut self, job: u64) -> &mut JobHistory {
        self.jobs.get_mut(&job).unwrap_or_else(|| panic!("the journal has no submission of {job}"))
    }

    fn node(&mut self, node: NodeId) -> &mut NodeHistory {
        &mut self.nodes[node.0 as usize]
    }

    /// Returns the node with this name. Nodes are numbered in the order in which they first registered.
    fn node_named(&mut self, name: &str) -> &mut NodeHistory {
        let index = self.nodes.iter().position(|node| node.name == name).unwrap_or(self.nodes.len());
        if index == self.nodes.len() {
            let mut node = NodeHistory { name: name.to_owned(), ..NodeHistory::default() };
            node.jobs.set(i64::MIN, BTreeMap::new());
            self.nodes.push(node);
        }
        &mut self.nodes[index]
    }

    fn submitted(&mut self, at: i64, job: u64, (request, tasks): (Request, u32)) {
        let is_held = request.conditions.as_ref().is_some_and(|conditions| conditions.hold);
        let held = is_held.then(|| request.user.clone());
        let mut new = JobHistory {
            request,
            submitted: at,
            tasks,
            state: Timeline::default(),
            placement: Timeline::default(),
            started: Timeline::default(),
            held: Timeline::default(),
            finished: None,
        };
        new.held.set(at, held);
        new.placement.set(at, None);
        new.started.set(at, None);
        self.jobs.insert(job, new);
        self.state(at, job, JobState::Waiting);
    }

    /// Sets a job's state from `at` on. The tasks of an array are counted, but not the array.
    fn state(&mut self, at: i64, job: u64, state: JobState) {
        let history = self.job(job);
        let before = history.state.now().copied();
        history.state.set(at, state);
        if history.tasks > 0 {
            return;
        }
        let placed = history.placement.now().cloned().flatten().unwrap_or_default();
        let cores: u64 = placed.iter().map(|part| u64::from(part.cores) * u64::from(part.count)).sum();
        let user = history.request.user.clone();
        for name in [user, String::new()] {
            let timeline = self.counts.entry(name).or_default();
            let mut counts = timeline.now().copied().unwrap_or_default();
            match before {
                Some(JobState::Waiting) => counts.waiting -= 1,
                Some(before) if !before.is_over() => {
                    (counts.running, counts.cores) = (counts.running - 1, counts.cores - cores)
                }
                _ => {}
            }
            match state {
                JobState::Waiting => counts.waiting += 1,
                state if !state.is_over() => {
                    (counts.running, counts.cores) = (counts.running + 1, counts.cores + cores)
                }
                _ => {}
            }
            timeline.set(at, counts);
        }
    }

    fn assign(&mut self, at: i64, job: u64, placement: Placement) {
        self.on_nodes(at, &placement, |jobs, cores| _ = jobs.insert(job, cores));
        self.job(job).placement.set(at, Some(placement));
        self.state(at, job, JobState::Starting);
    }

    /// Lets a job wait again.
    fn unassign(&mut self, at: i64, job: u64) {
        self.state(at, job, JobState::Waiting);
        self.leave_nodes(at, job);
        self.job(job).placement.set(at, None);
        self.job(job).started.set(at, None);
    }

    fn leave_nodes(&mut self, at: i64, job: u64) {
        let placement = self.job(job).placement.now().cloned().flatten().unwrap_or_default();
        self.on_nodes(at, &placement, |jobs, _| _ = jobs.remove(&job));
    }

    fn on_nodes(&mut self, at: i64, placement: &Placement, change: impl Fn(&mut BTreeMap<u64, u32>, u32)) {
        for part in placement {
            for node in part.nodes() {
                let mut jobs = self.node(node).jobs.now().cloned().unwrap_or_default();
                change(&mut jobs, part.cores);
                self.node(node).jobs.set(at, jobs);
            }
        }
    }

    fn finish(&mut self, at: i64, finished: Finished) {
        let job = finished.job.0;
        self.state(at, job, JobState::of(&finished.end));
        self.leave_nodes(at, job);
        if finished.started.is_some() && finished.tasks.is_none() {
            let user = self.job(job).request.user.clone();
            for name in [user, String::new()] {
                let timeline = self.sums.entry(name).or_default();
                let mut sums = timeline.now().copied().unwrap_or_default();
                sums.jobs += 1;
                sums.energy_j += finished.account.energy.joules();
                let cost = finished.account.cost.map(|cost| cost.whole());
                sums.cost = cost.map(|cost| sums.cost.unwrap_or(0.0) + cost).or(sums.cost);
                timeline.set(at, sums);
            }
        }
        self.job(job).finished = Some(finished);
    }

    /// Also cancels the tasks of an array that have not begun.
    fn cancel_tasks(&mut self, at: i64, job: u64) {
        let tasks = u64::from(self.job(job).tasks);
        for task in job + 1..=job + tasks {
            if self.job(task).state.now() == Some(&JobState::Waiting) {
                self.state(at, task, JobState::Cancelled);
            }
        }
    }

    /// Holds a job, or all waiting tasks of an array. A user's hold does not replace an operator's.
    fn hold(&mut self, at: i64, job: u64, by: Option<String>) {
        let tasks = u64::from(self.job(job).tasks);
        for job in job..=job + tasks {
            let history = self.job(job);
            let user = Some(history.request.user.clone());
            let is_an_operators = history.held.now().is_some_and(|held| held.is_some() && *held != user);
            if by != user || !is_an_operators {
                history.held.set(at, by.clone());
            }
        }
    }

    /// Returns the prices in `now` by the curves that held in `of`, in EUR/MWh; `None` if no price was known.
    pub fn prices(&self, of: While, now: While) -> Vec<Option<f64>> {
        let of_curve = |curve: &Option<Curve<Price>>| match curve {
            Some(curve) => values(curve, now).map(|price| price.map(|price| price.per_mwh())).collect(),
            None => vec![None],
        };
        // Before the first curve there were no prices.
        let before = self.prices.at(of.from).is_none().then_some(None);
        self.prices.during(of).flat_map(of_curve).chain(before).collect()
    }

    /// Returns the known prices of a time span, each times its duration: EUR/MWh times seconds.
    pub fn price_seconds(&self, of: While) -> Vec<f64> {
        let starts: Vec<i64> = self.prices.times(of).map(|at| at.max(of.from)).collect();
        let ends = starts.iter().skip(1).copied().chain([of.to]);
        let curves = self.prices.during(of).zip(starts.iter().zip(ends));
        let pieces = curves.flat_map(|(curve, (from, to))| {
            let (from, to) = (Time::from_unix_ms(*from), Time::from_unix_ms(to));
            curve.iter().flat_map(move |curve| curve.pieces(from, to))
        });
        pieces.map(|(from, to, price)| price.per_mwh() * (to - from).secs()).collect()
    }

    /// Returns the limits in `now` by the curves that held in `of`, in watts; `None` means no limit.
    pub fn bands(&self, of: While, now: While) -> Vec<(Option<f64>, Option<f64>)> {
        let shown = |band: Option<&Band>| {
            let band = band.copied().unwrap_or(Band::UNLIMITED);
            let (low, high) = (band.low(), band.high());
            ((!low.is_zero()).then(|| low.watts()), (!high.is_unlimited()).then(|| high.watts()))
        };
        let before = self.limits.at(of.from).is_none().then_some((None, None));
        let of_curve = |curve: &Curve<Band>| values(curve, now).map(shown).collect::<Vec<_>>();
        self.limits.during(of).flat_map(of_curve).chain(before).collect()
    }
}

/// Returns the values of a curve in a time span.
fn values<T>(curve: &Curve<T>, now: While) -> impl Iterator<Item = Option<&T>> {
    let first = Time::from_unix_ms(now.from);
    let later = curve.changes(first).take_while(move |(at, _)| at.unix_ms() <= now.to).map(|(_, value)| value);
    [curve.at(first)].into_iter().chain(later)
}
