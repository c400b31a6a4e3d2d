//! The core: records events, runs the policy, hands out commands. The same in the live master and in the simulator.

mod allowance;
mod clock;
mod execute;
mod jobs;
mod reasons;
mod warn;

use std::collections::BTreeMap;
use std::sync::Arc;

use limo_model::{
    Curve, Energy, JobId, Memory, Money, NodeId, Power, Preset, Price, Profile, ProfileKey, Request, Reservation, Span,
    Standing, StopReason, Time, UnitId,
};

use crate::apply;
use crate::budget::{Counter, Spending};
use crate::event::Event;
use crate::index::Index;
use crate::mode;
use crate::options::Options;
use crate::policy::look_again;
use crate::refused::Refused;
use crate::round::{Command, Round};
use crate::state::{Array, Clock, Job, Node, Settings, State, Sums, Used};
use crate::view::View;

use execute::plan_once;
use warn::warnings;

/// The scheduling core. Equal calls give equal results, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    state: State,
}

impl Core {
    /// An empty cluster whose sums begin at `now`.
    pub fn new(now: Time, preset: Preset, options: Options) -> Self {
        let settings = Settings { preset, options, ..Settings::default() };
        let sums = Sums { since: now, ..Sums::default() };
        let state = State {
            settings,
            nodes: Vec::new(),
            jobs: Default::default(),
            queue: Default::default(),
            blocked: Default::default(),
            arrays: BTreeMap::new(),
            active: Default::default(),
            next_job: 1,
            profiles: BTreeMap::new(),
            sums,
            job_energy: Default::default(),
            job_cost: Default::default(),
            finished: Vec::new(),
            dirty: false,
            wake_at: None,
            spending: Spending::default(),
            reservations: BTreeMap::new(),
            boundaries_seen: None,
            index: Index::default(),
            requests: Default::default(),
            ranking: Default::default(),
            over_quota: Default::default(),
            charges: BTreeMap::new(),
            used: BTreeMap::new(),
            clock: Clock::default(),
        };
        Self { state }
    }

    /// From a snapshot.
    pub fn from_state(mut state: State) -> Self {
        state.share_requests();
        state.index = Index::of(&state, state.sums.since);
        Self { state }
    }

    /// For a snapshot.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Records one thing that happened; decides nothing. A refused event changes nothing. `now` must not be before the
    /// last call's; an earlier one counts as the last.
    ///
    /// # Errors
    /// [`Refused`], where the event cannot be: it then must not be journalled.
    pub fn apply(&mut self, now: Time, event: &Event) -> Result<(), Refused> {
        let now = now.max(self.state.sums.since);
        apply::apply(&mut self.state, now, event)
    }

    /// Records [`Event::Submitted`] without a copy of the request, which no other job shares.
    ///
    /// # Errors
    /// As [`Core::apply`].
    pub fn submit(&mut self, now: Time, job: JobId, request: Request) -> Result<(), Refused> {
        let now = now.max(self.state.sums.since);
        apply::submit(&mut self.state, now, job, Arc::new(request))
    }

    /// Runs the policy once over all that is recorded. Calling it again at once changes nothing and returns nothing new.
    pub fn round(&mut self, now: Time) -> Round {
        let now = now.max(self.state.sums.since);
        let state = &mut self.state;
        apply::settle(state, now);
        apply::begin_due(state, now);
        apply::turn(state, now);
        apply::count_tasks(state, now);
        let used = allowance::used_up(state, now);
        let mut round = Round {
            now,
            commands: stops(state, now),
            waits: Vec::new(),
            finished: Vec::new(),
            wake_at: None,
            violations: Vec::new(),
        };
        round.commands.extend(warnings(state, now));
        round.commands.extend(used);
        if state.index.mode_until.is_none_or(|until| until <= now) {
            mode::follow_price(&mut state.settings, now);
            let next = state.settings.prices.as_ref().and_then(|prices| prices.next_change(now));
            state.index.mode_until = Some(next.unwrap_or(Time::MAX));
        }
        let rank_at = apply::rank_at(state);
        if state.dirty || [state.wake_at, rank_at].into_iter().flatten().any(|at| at <= now) {
            state.dirty = false;
            // Until a plan starts nothing more: its reasons for waiting then know of everything that was started.
            loop {
                apply::make_tasks(state, now);
                apply::rank(state, now);
                if !plan_once(state, now, &mut round) {
                    break;
                }
                // Tasks may have been refused: others come in their place, and what waited for the array may begin.
                apply::count_tasks(state, now);
            }
            let steered = look_again(&View::new(state, now));
            state.wake_at = [state.wake_at, steered].into_iter().flatten().min();
        }
        round.waits.extend(apply::tell_blocked(state, now));
        round.wake_at = next_time(state, now);
        (round.finished, state.index.counted) = (std::mem::take(&mut state.finished), 0);
        round
    }

    /// The number that the next [`Event::Submitted`] must carry.
    pub fn next_job(&self) -> JobId {
        JobId(self.state.next_job)
    }

    /// Whether a request could ever run on the nodes that are known.
    ///
    /// # Errors
    /// [`Refused::TooLarge`] and its like, saying what the largest node offers.
    pub fn check_request(&self, request: &Request) -> Result<(), Refused> {
        apply::check_request(&self.state, request)
    }

    /// Whether a job can be held.
    ///
    /// # Errors
    /// [`Refused`], where it is over or does not wait.
    pub fn check_hold(&self, job: JobId) -> Result<(), Refused> {
        apply::check_hold(&self.state, job)
    }

    /// Whether a job can be released.
    ///
    /// # Errors
    /// [`Refused`], where it is over or not held.
    pub fn check_release(&self, job: JobId) -> Result<(), Refused> {
        apply::check_release(&self.state, job)
    }

    /// Whether a node can be removed.
    ///
    /// # Errors
    /// [`Refused`], where it is up, reserved, or has jobs.
    pub fn check_removal(&self, node: NodeId) -> Result<(), Refused> {
        apply::check_removal(&self.state, node)
    }

    /// Nodes that are known, in order of their numbers.
    pub fn known_nodes(&self) -> impl Iterator<Item = &Node> {
        self.state.nodes.iter().filter(|node| !node.is_removed())
    }

    /// Whether a job's priority can be changed.
    ///
    /// # Errors
    /// [`Refused`], where it is over or does not wait.
    pub fn check_priority(&self, job: JobId, priority: i32) -> Result<(), Refused> {
        apply::check_priority_of(&self.state, job, priority)
    }

    /// What users used, by name; only counted while there are quotas or shares.
    pub fn used(&self) -> &BTreeMap<String, Used> {
        &self.state.used
    }

    /// What makes up the priority of a waiting job; by what its user had used when the queue was ranked last.
    pub fn standing(&self, now: Time, job: &Job) -> Standing {
        apply::standing(&self.state, now, job)
    }

    /// Whether a job can be requeued.
    ///
    /// # Errors
    /// [`Refused`], where it is over, does not run, or may not run twice.
    pub fn check_requeue(&self, job: JobId) -> Result<(), Refused> {
        apply::check_requeue(&self.state, job)
    }

    /// Reservations that are not over, by name, in cluster time.
    pub fn reservations(&self) -> &BTreeMap<String, Reservation> {
        &self.state.reservations
    }

    /// An array that is not over, by its own number.
    pub fn array(&self, own: JobId) -> Option<&Array> {
        self.state.arrays.get(&own)
    }

    /// Arrays that are not over, in order of submission.
    pub fn arrays(&self) -> impl Iterator<Item = (JobId, &Array)> {
        self.state.arrays.iter().map(|(own, array)| (*own, array))
    }

    /// The array that a job is a task of, with its number, while the array is not over.
    pub fn array_of(&self, job: JobId) -> Option<(JobId, &Array)> {
        self.state.array_of(job)
    }

    /// What policies see.
    pub fn view(&self, now: Time) -> View<'_> {
        View::new(&self.state, now.max(self.state.sums.since))
    }

    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.state.node(node)
    }

    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.state.index.names.get(name).and_then(|id| self.state.node(*id))
    }

    pub fn nodes(&self) -> &[Node] {
        &self.state.nodes
    }

    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    pub fn sums(&self) -> &Sums {
        &self.state.sums
    }

    pub fn profiles(&self) -> &BTreeMap<ProfileKey, Profile> {
        &self.state.profiles
    }

    pub fn prices(&self) -> Option<&Curve<Price>> {
        self.state.settings.prices.as_ref()
    }

    /// Jobs that wait, whether or not they may run already.
    pub fn waiting(&self) -> usize {
        self.state.queue.len() + self.state.blocked.len()
    }

    pub fn active(&self) -> usize {
        self.state.active.len()
    }

    /// Idle draw of the nodes.
    pub fn idle(&self) -> Power {
        self.state.index.idle
    }

    /// The believed draw of a node: its fresh reading, or its own draw, and the estimates of jobs that no reading shows.
    pub fn node_draw(&self, node: NodeId) -> Power {
        let hidden = |id: &JobId| hidden_share(self.state.jobs.get(*id)?, node).map(|(share, _)| share);
        let jobs = self.state.jobs_on(node);
        let own = self.node(node).map(|node| node.own).unwrap_or_default();
        own + jobs.iter().filter_map(hidden).sum::<Power>()
    }

    /// What a node is expected to draw where nothing measures it: without a job on it, and by the estimates of its jobs.
    pub fn node_estimate(&self, node: NodeId) -> Power {
        let expected = |id: &JobId| Some(self.state.jobs.get(*id)?.assignment()?.draw_on(node));
        let still = self.node(node).map(|node| node.still_draw()).unwrap_or_default();
        let held = self.node(node).map(|node| node.held_draw()).unwrap_or_default();
        still + held + self.state.jobs_on(node).iter().filter_map(expected).sum::<Power>()
    }

    /// What a node drew until `now`, and what that cost while a price was known; `None` if none ever was.
    pub fn node_account(&self, node: NodeId, now: Time) -> (Energy, Option<Money>) {
        let Some(of) = self.node(node) else { return Default::default() };
        let prices = self.prices();
        let mut bill = of.bill;
        bill.add(of.own, of.since, now, prices);
        for job in self.state.jobs_on(node) {
            if let Some((share, since)) = self.state.jobs.get(job).and_then(|job| hidden_share(job, node)) {
                bill.add(share, since, now, prices);
            }
        }
        let at = node.0 as usize;
        let (energy, cost) = (self.state.job_energy.of(at), self.state.job_cost.of(at));
        (bill.energy() + Energy::from_mj(energy), bill.cost().map(|own| own + Money::from_micro(cost)))
    }

    /// Cores of a unit that jobs have.
    pub fn cores_used(&self, unit: UnitId) -> u32 {
        self.state.index.cores_used(unit)
    }

    /// Memory of a node that jobs have.
    pub fn memory_used(&self, node: NodeId) -> Memory {
        self.state.index.memory.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// Starting and running jobs with a part on the node, in order.
    pub fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        self.state.jobs_on(node)
    }

    /// The budget of the period that runs: what was released, consumed and reserved so far.
    pub fn counter(&self) -> Option<&Counter> {
        self.state.spending.counter()
    }
}

/// What a job draws on a node that no reading shows, and since when.
fn hidden_share(job: &Job, node: NodeId) -> Option<(Power, Time)> {
    let assignment = job.assignment()?;
    let seen = job.running().is_some_and(|running| running.seen_on.contains(&node));
    (!seen).then(|| (assignment.draw_on(node), assignment.hidden_since))
}

/// When to ask again where nothing happens: when a plan could become another one, a job reaches its time limit, is warned of
/// it or may begin, a reading no longer counts, a node is no longer suspect, or the queue is to be ranked.
fn next_time(state: &State, now: Time) -> Option<Time> {
    let limit = state.index.limits.first().map(|(at, _)| *at);
    let stale_after = state.settings.options.stale_after + Span::from_ms(1);
    let stale = state.index.readings.first().map(|(at, _)| *at + stale_after);
    let trusted = state.index.suspects.first().map(|(at, _)| *at);
    let begin = state.index.blocked.first_begin();
    let warning = state.index.warnings.first().map(|(at, _)| *at);
    let used = allowance::look_again(state, now);
    let reserved = state.index.boundaries.first().copied();
    let (rank, turn) = (apply::rank_at(state), apply::next_turn(state));
    [state.wake_at, limit, stale, trusted, begin, warning, used, reserved, rank, turn].into_iter().flatten().min()
}

/// Jobs that shall end: by request, or because their time is over. Each is told once.
fn stops(state: &mut State, now: Time) -> Vec<Command> {
    while let Some((at, id)) = state.index.limits.first().copied().filter(|(at, _)| *at <= now) {
        apply::with_times(state, id, |job| {
            let limit = job.request.time_limit.unwrap_or_default();
            if let Some(assignment) = job.assignment_mut() {
                assignment.stop = Some((StopReason::TimeLimit { limit }, false));
            }
        });
        state.index.limits.remove(&(at, id));
        state.index.to_stop.insert(id);
    }
    let mut commands = Vec::new();
    for id in std::mem::take(&mut state.index.to_stop).iter() {
        let Some(assignment) = state.jobs.get_mut(id).and_then(|job| job.assignment_mut()) else { continue };
        if let Some((why, told @ false)) = &mut assignment.stop {
            *told = true;
            commands.push(Command::Stop { job: id, attempt: assignment.attempt, why: why.clone() });
        }
    }
    commands
}
