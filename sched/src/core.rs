//! The core: records events, runs the policy, hands out commands. The same in the live master and in the simulator.

use std::collections::BTreeMap;

use limo_model::{Attempt, Curve, JobId, NodeId, Power, Price, Profile, ProfileKey, Request, Time};

use crate::apply;
use crate::check::check;
use crate::event::Event;
use crate::mode;
use crate::options::{Options, Preset};
use crate::plan::Plan;
use crate::policy::policy;
use crate::refused::Refused;
use crate::round::{Command, Finished, JobEnd, Round, StopReason, Wait};
use crate::state::{Assignment, Job, Node, Phase, Settings, State, Sums};
use crate::view::View;

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
            jobs: BTreeMap::new(),
            queue: Default::default(),
            active: Default::default(),
            next_job: 1,
            profiles: BTreeMap::new(),
            sums,
            finished: Vec::new(),
            dirty: false,
            wake_at: None,
        };
        Self { state }
    }

    /// From a snapshot.
    pub fn from_state(state: State) -> Self {
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

    /// Runs the policy once over all that is recorded. Calling it again at once changes nothing and returns nothing new.
    pub fn round(&mut self, now: Time) -> Round {
        let now = now.max(self.state.sums.since);
        let state = &mut self.state;
        apply::settle(state, now);
        let mut round = Round {
            now,
            commands: stops(state, now),
            waits: Vec::new(),
            finished: Vec::new(),
            wake_at: None,
            violations: Vec::new(),
        };
        mode::follow_price(&mut state.settings, now);
        if state.dirty || state.wake_at.is_some_and(|at| at <= now) {
            state.dirty = false;
            // Until a plan starts nothing more: its reasons for waiting then know of everything that was started.
            while plan_once(state, now, &mut round) {}
        }
        round.wake_at = earliest([state.wake_at, next_time_limit(state)]);
        round.finished = std::mem::take(&mut state.finished);
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

    /// What policies see.
    pub fn view(&self, now: Time) -> View<'_> {
        View::new(&self.state, now.max(self.state.sums.since))
    }

    pub fn job(&self, job: JobId) -> Option<&Job> {
        self.state.jobs.get(&job)
    }

    /// Jobs that are not over, in order of submission.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.state.jobs.iter().map(|(id, job)| (*id, job))
    }

    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.state.node(node)
    }

    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.state.nodes.iter().find(|node| node.spec.name == name)
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

    pub fn waiting(&self) -> usize {
        self.state.queue.len()
    }

    pub fn active(&self) -> usize {
        self.state.active.len()
    }

    /// Idle draw of the nodes.
    pub fn idle(&self) -> Power {
        self.state.nodes.iter().map(|node| node.spec.idle).sum()
    }
}

fn earliest<const N: usize>(times: [Option<Time>; N]) -> Option<Time> {
    times.into_iter().flatten().min()
}

/// When a job reaches its time limit.
fn limit_end(job: &Job) -> Option<Time> {
    match &job.phase {
        Phase::Running(assignment, running) if assignment.stop.is_none() => {
            job.request.time_limit.map(|limit| running.started + limit)
        }
        _ => None,
    }
}

fn next_time_limit(state: &State) -> Option<Time> {
    state.active.iter().filter_map(|id| state.jobs.get(id).and_then(limit_end)).min()
}

/// Jobs that shall end: by request, or because their time is over. Each is told once.
fn stops(state: &mut State, now: Time) -> Vec<Command> {
    let mut commands = Vec::new();
    for id in &state.active {
        let Some(job) = state.jobs.get_mut(id) else { continue };
        let over = limit_end(job).filter(|end| *end <= now).and(job.request.time_limit);
        let Some(assignment) = job.assignment_mut() else { continue };
        if let Some(limit) = over {
            assignment.stop = Some((StopReason::TimeLimit { limit }, false));
        }
        if let Some((why, told @ false)) = &mut assignment.stop {
            *told = true;
            commands.push(Command::Stop { job: *id, attempt: assignment.attempt, why: why.clone() });
        }
    }
    commands
}

/// Makes, checks and executes one plan; whether another one could find more to do.
fn plan_once(state: &mut State, now: Time, round: &mut Round) -> bool {
    let mut plan = policy(state.settings.preset).plan(&View::new(state, now));
    round.violations = check(&View::new(state, now), &plan);
    if !round.violations.is_empty() {
        plan = rejected(state, &plan);
    }
    let more = !plan.starts.is_empty() || !plan.refusals.is_empty();
    if more {
        plan.waits.clear();
    }
    state.wake_at = plan.wake_at;
    execute(state, now, plan, round);
    more
}

/// In place of a plan that broke a rule: keep what is running, start nothing, say it.
fn rejected(state: &mut State, plan: &Plan) -> Plan {
    state.sums.rejected_plans += 1;
    let waits = plan.starts.iter().map(|start| (start.job, Wait::PlanRejected)).collect();
    Plan { waits, ..Plan::default() }
}

/// Turns an accepted plan into state and commands.
fn execute(state: &mut State, now: Time, plan: Plan, round: &mut Round) {
    for start in plan.starts {
        let Some(job) = state.jobs.get_mut(&start.job) else { continue };
        job.attempts += 1;
        let attempt = Attempt(job.attempts);
        job.phase = Phase::Starting(Assignment {
            attempt,
            placement: start.placement.clone(),
            estimate: start.estimate,
            assigned: now,
            stop: None,
        });
        state.queue.remove(&start.job);
        state.active.insert(start.job);
        apply::take(state, now, start.job, &start.placement);
        round.commands.push(Command::Start {
            job: start.job,
            attempt,
            placement: start.placement,
            estimate: start.estimate,
        });
    }
    for (id, wait) in plan.refusals {
        let Some(job) = state.jobs.remove(&id) else { continue };
        state.queue.remove(&id);
        state.finished.push(Finished::before_start(id, &job, now, JobEnd::Refused { wait }));
    }
    for (id, wait) in plan.waits {
        let Some(Job { phase: Phase::Waiting(told), .. }) = state.jobs.get_mut(&id) else { continue };
        if told.as_ref() != Some(&wait) {
            *told = Some(wait.clone());
            round.waits.push((id, wait));
        }
    }
}
