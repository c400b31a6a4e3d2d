//! The core: records events, runs the policy, returns commands. The live master and the simulator use the same core.

mod allowance;
mod checkpoints;
mod clock;
mod draws;
mod execute;
mod groups;
mod jobs;
mod known;
mod licences;
mod mold;
mod next;
mod pause;
mod reasons;
mod resize;
mod steps;
mod stops;
mod warn;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use limo_model::{
    Curve, JobId, Memory, NodeId, Power, Preset, Price, Request, Reservation, Standing, Time, UnitId, Variation,
};

use crate::apply;
use crate::budget::{Counter, Spending};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::mode;
use crate::options::Options;
use crate::plan::{Plan, Violation};
use crate::policy::{look_again, think};
use crate::refused::Refused;
use crate::round::Round;
use crate::state::{Array, Clock, Job, Node, Reliefs, Settings, State, Sums, Used};
use crate::view::View;
use execute::plan_once;
pub use licences::LicenceUse;
use stops::{releases, stops};
use warn::warnings;

/// The scheduling core. The same calls give the same results, byte for byte.
#[derive(Debug, Clone)]
pub struct Core {
    cluster: Cluster,
}

/// Compares the states only: the index follows from the state.
impl PartialEq for Core {
    fn eq(&self, other: &Self) -> bool {
        self.cluster.state == other.cluster.state
    }
}

impl Eq for Core {}

impl Core {
    /// Makes an empty cluster whose sums begin at `now`.
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
            variation: Variation::default(),
            slowdowns: BTreeMap::new(),
            sums,
            job_energy: Default::default(),
            job_cost: Default::default(),
            finished: Vec::new(),
            to_suspend: Default::default(),
            dirty: false,
            wake_at: None,
            spending: Spending::default(),
            reservations: BTreeMap::new(),
            boundaries_seen: None,
            ranking: Default::default(),
            over_quota: Default::default(),
            over_licence: Default::default(),
            charges: BTreeMap::new(),
            used: BTreeMap::new(),
            account_used: BTreeMap::new(),
            clock: Clock::default(),
            to_release: Default::default(),
            reliefs: Reliefs::default(),
            program: None,
            session_begins: Vec::new(),
            learned: Vec::new(),
            steps: Default::default(),
        };
        Self { cluster: Cluster::of(state, now) }
    }

    /// Restores the core from a snapshot.
    pub fn from_state(state: State) -> Self {
        let now = state.sums.since;
        Self { cluster: Cluster::of(state, now) }
    }

    /// Returns the state for a snapshot.
    pub fn state(&self) -> &State {
        &self.cluster.state
    }

    /// Records one event; decides nothing. A refused event changes nothing. An earlier time counts as the last one.
    ///
    /// # Errors
    /// [`Refused`] if the event is impossible; it must not be journalled then.
    pub fn apply(&mut self, now: Time, event: &Event) -> Result<(), Refused> {
        let now = now.max(self.cluster.state.sums.since);
        apply::apply(&mut self.cluster, now, event)
    }

    /// Records [`Event::Submitted`] without a copy of the request, which the caller may share among jobs.
    ///
    /// # Errors
    /// The same as for [`Core::apply`].
    pub fn submit(&mut self, now: Time, job: JobId, request: impl Into<Arc<Request>>) -> Result<(), Refused> {
        let now = now.max(self.cluster.state.sums.since);
        apply::submit(&mut self.cluster, now, job, request.into())
    }

    /// Records [`Event::NodeUp`] of a known node without a copy of its description, which has not changed.
    ///
    /// # Errors
    /// [`Refused::NoSuchNode`].
    pub fn up_again(&mut self, now: Time, node: NodeId) -> Result<(), Refused> {
        let now = now.max(self.cluster.state.sums.since);
        apply::up_again(&mut self.cluster, now, node)
    }

    /// Runs the policy once over the recorded state. A repeated call changes nothing and returns nothing new.
    pub fn round(&mut self, now: Time) -> Round {
        let now = now.max(self.cluster.state.sums.since);
        let cluster = &mut self.cluster;
        apply::settle(cluster, now);
        apply::begin_due(cluster, now);
        apply::turn(cluster, now);
        let silent = apply::overdue(cluster, now);
        apply::count_tasks(cluster, now);
        let used = allowance::used_up(cluster, now);
        cluster.index.barred.clear();
        let mut round = Round {
            now,
            commands: Vec::new(),
            waits: Vec::new(),
            finished: Vec::new(),
            wake_at: None,
            violations: Vec::new(),
        };
        stops(cluster, now, &mut round.commands);
        pause::suspensions(cluster, &mut round.commands);
        warnings(cluster, now, &mut round.commands);
        round.commands.extend(used);
        releases(cluster, &mut round.commands);
        steps::act(cluster, now, &mut round);
        if !silent.is_empty() {
            execute::lift(cluster, now, &silent, &mut round);
        }
        if cluster.index.mode_until.is_none_or(|until| until <= now) {
            mode::follow_price(&mut cluster.state.settings, now);
            let next = cluster.state.settings.prices.as_ref().and_then(|prices| prices.next_change(now));
            cluster.index.mode_until = Some(next.unwrap_or(Time::MAX));
        }
        let rank_at = apply::rank_at(&cluster.state);
        if cluster.state.dirty || [cluster.state.wake_at, rank_at].into_iter().flatten().any(|at| at <= now) {
            cluster.state.dirty = false;
            let (mut thought, resizing) = (None, resize::shrink(cluster, now, &round));
            // Repeats until a plan starts nothing more: its wait reasons then include all starts.
            loop {
                apply::make_tasks(cluster, now);
                apply::rank(cluster, now);
                apply::divide_margins(cluster, now);
                cluster.index.rooms = OnceLock::new();
                thought.get_or_insert_with(|| think(cluster, now));
                mold::choose_widths(cluster, now);
                if !plan_once(cluster, now, &mut round) {
                    break;
                }
                // Tasks may have been refused: others take their place, and dependants of the array may begin.
                apply::count_tasks(cluster, now);
            }
            resize::grow(cluster, now, resizing, &mut round);
            let steered = look_again(&View::new(cluster, now));
            cluster.state.wake_at = Time::first_of(&[cluster.state.wake_at, steered, thought.flatten()]);
        }
        round.waits.extend(apply::tell_blocked(cluster, now));
        round.wake_at = next::next_time(cluster, now);
        (round.finished, cluster.index.counted) = (std::mem::take(&mut cluster.state.finished), 0);
        round
    }

    /// Returns every rule that a plan would break now; empty if it may be executed.
    pub fn check(&self, now: Time, plan: &Plan) -> Vec<Violation> {
        execute::violations(&self.cluster, now.max(self.cluster.state.sums.since), plan)
    }

    /// Returns the number that the next [`Event::Submitted`] must have.
    pub fn next_job(&self) -> JobId {
        JobId(self.cluster.state.next_job)
    }

    /// Checks that a request could run on the known nodes.
    ///
    /// # Errors
    /// [`Refused::TooLarge`] and similar errors, with the resources of the largest node.
    pub fn check_request(&self, request: &Request) -> Result<(), Refused> {
        apply::check_request(&self.cluster, request)
    }

    /// Checks that a job can be held.
    ///
    /// # Errors
    /// [`Refused`] if it is over or does not wait.
    pub fn check_hold(&self, job: JobId) -> Result<(), Refused> {
        apply::check_hold(&self.cluster.state, job)
    }

    /// Checks that a job can be released.
    ///
    /// # Errors
    /// [`Refused`] if it is over or not held.
    pub fn check_release(&self, job: JobId) -> Result<(), Refused> {
        apply::check_release(&self.cluster.state, job)
    }

    /// Checks that a node can be removed.
    ///
    /// # Errors
    /// [`Refused`] if it is up, reserved, or has jobs.
    pub fn check_removal(&self, node: NodeId) -> Result<(), Refused> {
        apply::check_removal(&self.cluster, node)
    }

    /// Returns the known nodes, in order of their numbers.
    pub fn known_nodes(&self) -> impl Iterator<Item = &Node> {
        self.cluster.state.nodes.iter().filter(|node| !node.is_removed())
    }

    /// Checks that a job's priority can be changed.
    ///
    /// # Errors
    /// [`Refused`] if it is over or does not wait.
    pub fn check_priority(&self, job: JobId, priority: i32) -> Result<(), Refused> {
        apply::check_priority_of(&self.cluster.state, job, priority)
    }

    /// Returns the usage by user name; counted only while there are quotas or shares.
    pub fn used(&self) -> &BTreeMap<String, Used> {
        &self.cluster.state.used
    }

    /// Returns the parts of a waiting job's priority, with the usage of its user at the last ranking.
    pub fn standing(&self, now: Time, job: &Job) -> Standing {
        apply::standing(&self.cluster.state, now, job)
    }

    /// Checks that a job can be requeued.
    ///
    /// # Errors
    /// [`Refused`] if it is over, does not run, or may not run twice.
    pub fn check_requeue(&self, job: JobId) -> Result<(), Refused> {
        apply::check_requeue(&self.cluster.state, job)
    }

    /// Returns the reservations that are not over, by name, in cluster time.
    pub fn reservations(&self) -> &BTreeMap<String, Reservation> {
        &self.cluster.state.reservations
    }

    /// Returns an array that is not over, by its own number.
    pub fn array(&self, own: JobId) -> Option<&Array> {
        self.cluster.state.arrays.get(&own)
    }

    /// Returns the arrays that are not over, in order of submission.
    pub fn arrays(&self) -> impl Iterator<Item = (JobId, &Array)> {
        self.cluster.state.arrays.iter().map(|(own, array)| (*own, array))
    }

    /// Returns the array of a task, with its number, while the array is not over.
    pub fn array_of(&self, job: JobId) -> Option<(JobId, &Array)> {
        self.cluster.state.array_of(job)
    }

    /// Returns the view of policies.
    pub fn view(&self, now: Time) -> View<'_> {
        View::new(&self.cluster, now.max(self.cluster.state.sums.since))
    }

    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.cluster.state.node(node)
    }

    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.cluster.index.names.get(name).and_then(|id| self.cluster.state.node(*id))
    }

    pub fn nodes(&self) -> &[Node] {
        &self.cluster.state.nodes
    }

    pub fn settings(&self) -> &Settings {
        &self.cluster.state.settings
    }

    pub fn sums(&self) -> &Sums {
        &self.cluster.state.sums
    }

    pub fn prices(&self) -> Option<&Curve<Price>> {
        self.cluster.state.settings.prices.as_ref()
    }

    /// Returns the number of waiting jobs, including those that may not run yet.
    pub fn waiting(&self) -> usize {
        self.cluster.state.queue.len() + self.cluster.state.blocked.len()
    }

    pub fn active(&self) -> usize {
        self.cluster.state.active.len()
    }

    /// Returns the idle draw of the nodes.
    pub fn idle(&self) -> Power {
        self.cluster.index.idle
    }

    /// Returns the cores of a unit that jobs have.
    pub fn cores_used(&self, unit: UnitId) -> u32 {
        self.cluster.index.cores_used(unit)
    }

    /// Returns the memory of a node that jobs have.
    pub fn memory_used(&self, node: NodeId) -> Memory {
        self.cluster.index.classes.memory_used(node)
    }

    /// Returns the account of the current budget: energy released, consumed and reserved so far.
    pub fn counter(&self) -> Option<&Counter> {
        self.cluster.state.spending.counter()
    }
}
