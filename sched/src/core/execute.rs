//! Makes plans, has them checked, and turns valid ones into state and commands.

use std::collections::BTreeSet;

use limo_model::{
    Attempt, Energy, Estimate, JobEnd, JobId, Lease, NodeId, Power, Span, StopReason, Time, UnitId, Wait,
};

use crate::apply::{self, NodeCaps};
#[cfg(debug_assertions)]
use crate::books::Books;
use crate::check::{Case, check};
use crate::cluster::Cluster;
use crate::facts::{delay_by_caps, margin_at_start, shares_at_start, under_present_caps};
#[cfg(debug_assertions)]
use crate::index::Index;
use crate::options::MarginRule;
use crate::plan::{Plan, Start, Violation};
use crate::policy::{plan as make_plan, steer};
use crate::round::{Await, Command, Finished, Round};
use crate::state::{Assignment, Job, JobMargin, Phase, Sleep, State};
use crate::view::View;

/// Makes, checks and executes one plan. Returns true if a further plan could start more.
pub(super) fn plan_once(cluster: &mut Cluster, now: Time, round: &mut Round) -> bool {
    if let Some(steered) = steer_once(cluster, now, round) {
        return steered;
    }
    if cluster.state.queue.is_empty() && !cluster.parts.powers_off() {
        // Without jobs to start and nodes that may sleep, the plan of every policy would be empty.
        (cluster.state.wake_at, cluster.index.cache) = (None, None);
        cluster.state.spending.reserve(Energy::ZERO);
        return false;
    }
    cluster.index.shapes.count(&cluster.index.classes);
    #[cfg(debug_assertions)]
    compare(cluster, now);
    let (mut plan, mut cache) = make_plan(&View::new(cluster, now));
    round.violations = violations(cluster, now, &plan);
    if bar_from_groups(cluster, &plan, &mut round.violations) {
        return true;
    }
    if !round.violations.is_empty() {
        plan = rejected(&mut cluster.state, &plan);
        cache = None;
    }
    name_missing_nodes(cluster, now, &mut plan);
    let more = plan.is_followed();
    if more {
        plan.waits.clear();
        plan.sleeps.clear();
    }
    cluster.state.wake_at = plan.wake_at;
    cluster.state.spending.reserve(plan.reserved);
    execute(cluster, now, plan, round);
    // The cache holds for the time after the plan's starts.
    cluster.index.cache = cache;
    more
}

/// Returns every rule that a plan breaks.
pub(super) fn violations(cluster: &Cluster, now: Time, plan: &Plan) -> Vec<Violation> {
    check(Case::of(&cluster.state, &cluster.books, cluster.parts, now), plan)
}

/// Largest cluster, in nodes and jobs, whose books are compared: comparing more would take most of a test's time.
#[cfg(debug_assertions)]
const COMPARED: usize = 200;

/// Checks index and books against a recomputation.
#[cfg(debug_assertions)]
fn compare(cluster: &Cluster, now: Time) {
    let Cluster { state, index, books, parts, .. } = cluster;
    assert_eq!(*parts, state.settings.parts(), "the parts differ from those of the settings");
    if state.nodes.len() + state.jobs.len() <= COMPARED {
        assert!(apply::are_enough(state), "the jobs on nodes have less than the margin of their sum");
        assert_eq!(*books, Books::of(state, now), "the books differ from a recount");
        assert_eq!(index.differs(&Index::of(state, now), state), None, "a part of the index differs from a new one");
    }
}

/// Bars jobs from all groups in this round whose starts would exceed the limit of one: the nodes of a job are chosen by
/// bounds of its draw on each. Returns true if another plan must be made, because this one breaks no other rule.
fn bar_from_groups(cluster: &mut Cluster, plan: &Plan, found: &mut Vec<Violation>) -> bool {
    let is_only_that = found.iter().all(|violation| matches!(violation, Violation::GroupLimit { .. }));
    if found.is_empty() || plan.starts.is_empty() || !is_only_that {
        return false;
    }
    let jobs = plan.starts.iter().filter_map(|start| cluster.state.jobs.get(start.job));
    cluster.index.barred.extend(jobs.map(|job| job.request.clone()));
    found.clear();
    true
}

/// Names the reservation or the group that leaves a job too few nodes: policies only see that nodes are missing.
fn name_missing_nodes(cluster: &Cluster, now: Time, plan: &mut Plan) {
    for (id, wait) in plan.waits.iter_mut().chain(&mut plan.refusals) {
        let Some(job) = cluster.state.jobs.get(*id).filter(|_| matches!(wait, Wait::NoNode | Wait::Resources { .. }))
        else {
            continue;
        };
        let reserved = apply::reason(cluster, now, &job.request);
        if let Some(named) = reserved.or_else(|| View::new(cluster, now).waits_for_group(*id)) {
            *wait = named;
        }
    }
}

/// Applies changes to running jobs, if any are due. `None` if none are due, or if the planned changes are forbidden.
fn steer_once(cluster: &mut Cluster, now: Time, round: &mut Round) -> Option<bool> {
    let plan = steer(&View::new(cluster, now))?;
    let violations = violations(cluster, now, &plan);
    if !violations.is_empty() {
        if round.violations.is_empty() {
            cluster.state.sums.rejected_plans += 1;
        }
        round.violations = violations;
        return None;
    }
    cluster.index.cache = None;
    hold_at(cluster, now, plan.caps, round);
    for job in plan.suspends {
        if apply::suspend(cluster, now, job) {
            round.commands.extend(attempt_of(&cluster.state, job).map(|attempt| Command::Suspend { job, attempt }));
        }
    }
    for job in plan.resumes {
        apply::resume(cluster, now, job);
        round.commands.extend(attempt_of(&cluster.state, job).map(|attempt| Command::Resume { job, attempt }));
    }
    for job in plan.requeues {
        let (draw, high) = View::new(cluster, now).exceeded(job);
        let why = StopReason::Requeued { draw, high };
        let attempt = apply::requeue(cluster, job, why.clone());
        round.commands.extend(attempt.map(|attempt| Command::Stop { job, attempt, why }));
    }
    apply::wait_for_newest(cluster);
    Some(true)
}

fn attempt_of(state: &State, job: JobId) -> Option<Attempt> {
    Some(state.jobs.get(job)?.assignment()?.attempt)
}

/// Lifts the caps of nodes that did not confirm them in time.
pub(super) fn lift(cluster: &mut Cluster, now: Time, nodes: &BTreeSet<NodeId>, round: &mut Round) {
    let capped = nodes.iter().filter_map(|node| cluster.state.node(*node));
    let capped = capped.flat_map(|node| node.units().filter(|(unit, _)| node.cap(unit.unit).is_some()));
    let units: Vec<_> = capped.map(|(unit, _)| (unit, None)).collect();
    if !units.is_empty() {
        cluster.state.dirty = true;
        hold_at(cluster, now, units, round);
    }
}

/// Caps units anew, and commands their nodes.
fn hold_at(
    cluster: &mut Cluster,
    now: Time,
    units: impl IntoIterator<Item = (UnitId, Option<Power>)>,
    round: &mut Round,
) -> Vec<Await> {
    let mut nodes = NodeCaps::new();
    for (unit, cap) in units {
        let Some(node) = cluster.state.node(unit.node) else { continue };
        let caps = nodes.entry(unit.node).or_insert_with(|| node.caps().1);
        if let Some(of) = caps.get_mut(usize::from(unit.unit)) {
            *of = cap;
        }
    }
    let orders = apply::hold_at(cluster, now, &nodes).into_iter().map(|(node, generation)| {
        let caps = nodes.remove(&node).unwrap_or_default();
        round.commands.push(Command::Cap { node, generation, caps });
        Await::Capped { node, generation }
    });
    orders.collect()
}

/// Records a wait reason; returns true if it is new.
fn tell(state: &mut State, id: JobId, wait: &Wait) -> bool {
    let Some(Job { phase: Phase::Waiting(told), .. }) = state.jobs.get_mut(id).map(Box::as_mut) else { return false };
    let is_new = told.as_ref() != Some(wait);
    if is_new {
        *told = Some(wait.clone());
    }
    is_new
}

/// Replaces a plan that broke a rule: running jobs continue, none starts, and it is reported.
fn rejected(state: &mut State, plan: &Plan) -> Plan {
    state.sums.rejected_plans += 1;
    let waits = plan.starts.iter().map(|start| (start.job, Wait::PlanRejected)).collect();
    Plan { waits, ..Plan::default() }
}

/// Turns an accepted plan into state and commands.
fn execute(cluster: &mut Cluster, now: Time, plan: Plan, round: &mut Round) {
    // Starts and the caps that make room for them are one transaction: caps first, and each start is released when the
    // nodes have confirmed all of them.
    let with_caps = !plan.caps.is_empty();
    let begun: Vec<_> =
        plan.starts.into_iter().filter_map(|start| begin(cluster, now, start, with_caps, round)).collect();
    let orders = hold_at(cluster, now, plan.caps, round);
    for (job, estimate) in begun {
        apply::wait_for(cluster, job, &orders);
        let assignment = cluster.state.jobs.get(job).and_then(|job| job.assignment());
        round.commands.extend(assignment.map(|Assignment { attempt, placement, after, .. }| Command::Start {
            job,
            attempt: *attempt,
            placement: placement.clone(),
            estimate,
            after: after.clone(),
        }));
    }
    for (id, wait) in plan.refusals {
        apply::dequeue(cluster, id);
        let Some(job) = cluster.state.jobs.remove(id) else { continue };
        let end = JobEnd::Refused { wait };
        apply::over(cluster, now, (id, &job.request), &end);
        cluster.state.finish(Finished::before_start(id, &job, now, end));
    }
    let mut arrays = BTreeSet::new();
    for (id, wait) in plan.waits {
        cluster.index.untold.remove(&id);
        if tell(&mut cluster.state, id, &wait) && cluster.state.array_of(id).is_none() {
            round.waits.push((id, wait));
            continue;
        }
        // The wait reason of its first task is also the array's; the other tasks only wait a little longer. A held
        // task already has that reason.
        if let Some((own, _)) = cluster.state.array_of(id)
            && !cluster.state.blocked.contains(own)
            && arrays.insert(own)
            && tell(&mut cluster.state, own, &wait)
        {
            round.waits.push((own, wait));
        }
    }
    if !plan.sleeps.is_empty() {
        for (first, count) in &plan.sleeps {
            (first.0..first.0 + count).for_each(|node| apply::switch(cluster, now, NodeId(node), Sleep::GoingDown));
        }
        round.commands.push(Command::Sleep { nodes: plan.sleeps });
    }
}

/// Caps the units of a start: a unit that a job has alone gets the job's cap, or none; a shared unit already has the
/// cap. If the policy divides the upper limit, the plan has the caps, and only a lower cap of the job counts in addition.
/// Returns the confirmations of caps without which the job would draw more than planned.
fn hold_new(cluster: &mut Cluster, now: Time, placement: &[limo_model::Part], round: &mut Round) -> Vec<Await> {
    // If no unit is capped or becomes capped, nothing changes, even for many nodes.
    if cluster.index.capped.is_empty() && placement.iter().all(|part| part.cap.is_none()) {
        return Vec::new();
    }
    let asked = placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cap)));
    let divides = cluster.parts.divides();
    let is_other = |(unit, cap): &(UnitId, Option<Power>)| {
        let current = cluster.state.node(unit.node).map(|node| node.cap(unit.unit));
        current.is_some_and(|current| match divides {
            true => cap.is_some_and(|cap| current.is_none_or(|current| cap < current)),
            false => current != *cap,
        })
    };
    let others: Vec<_> = asked.filter(is_other).collect();
    if !others.is_empty() {
        hold_at(cluster, now, others, round);
    }
    apply::unconfirmed_caps(&cluster.state, placement)
}

/// Returns the time by which the caps of a start delay its time limit. Under the other rules the limit stays.
fn held_at_start(cluster: &Cluster, job: &Job, start: &Start) -> Span {
    let is_capped = start.placement.iter().any(|part| part.cap.is_some());
    let is_chosen = is_capped && !start.explores && job.request.cap.is_none();
    if !is_chosen || !cluster.parts.takes_what_is_left() {
        return Span::ZERO;
    }
    let walltime = job.request.time_limit.unwrap_or(cluster.state.settings.options.default_duration);
    delay_by_caps(&cluster.state, job, &start.placement, walltime)
}

/// Records a start and returns its job and estimate for the command. `with_caps` means that it waits for orders that
/// follow.
fn begin(
    cluster: &mut Cluster,
    now: Time,
    start: Start,
    with_caps: bool,
    round: &mut Round,
) -> Option<(JobId, Estimate)> {
    apply::dequeue(cluster, start.job);
    let mut after = hold_new(cluster, now, &start.placement, round);
    if start.waits_for_relief {
        after.extend(cluster.state.reliefs.awaited());
    }
    after.sort_unstable();
    after.dedup();
    let waiting = cluster.state.jobs.get(start.job)?;
    let held = held_at_start(cluster, waiting, &start);
    let duration = start.estimate.duration - held;
    let is_capped = !cluster.index.capped.is_empty();
    let present = is_capped.then(|| under_present_caps(&cluster.state, waiting, &start.placement, duration)).flatten();
    let (draw, shares, later) = present.unwrap_or_else(|| {
        let draw = start.estimate.power;
        (draw, shares_at_start(&cluster.state, waiting, &start.placement, draw), Span::ZERO)
    });
    let margin = match cluster.state.settings.options.margin {
        MarginRule::Job => Power::ZERO,
        MarginRule::Sum => margin_at_start(&cluster.state, waiting, (&start.placement, &start.estimate)),
    };
    let job = cluster.state.jobs.get_mut(start.job)?;
    job.attempts += 1;
    let attempt = Attempt(job.attempts);
    let alone = job.request.exclusive;
    let lease = cluster.state.settings.lease.filter(|_| job.request.may_requeue);
    let lease = lease.map(|lease| Lease { grace: job.request.kill_grace.unwrap_or(lease.grace), ..lease });
    let mut assignment = Assignment {
        attempt,
        placement: start.placement.clone(),
        estimate: Estimate { duration, ..start.estimate },
        draw,
        shares,
        held: held + later,
        assigned: now,
        hidden_since: now,
        stop: None,
        ended: Vec::new(),
        alone,
        lease,
        after,
        pending: Power::ZERO,
        measures: start.explores || job.request.cap.is_some(),
        margin: JobMargin { whole: margin, counted: margin },
    };
    if with_caps || !assignment.after.is_empty() {
        assignment.pending = assignment.draw_of_units();
    } else if cluster.index.sleeping > 0 {
        apply::await_waking(&cluster.state, &mut assignment);
    }
    cluster.state.active.insert(start.job);
    if let Some(job) = cluster.state.jobs.get(start.job) {
        cluster.books.take_licences(&job.request);
        cluster.books.take_owned(&job.request, &assignment.placement);
    }
    apply::task_started(cluster, start.job);
    apply::take(cluster, now, start.job, &assignment);
    apply::placed(cluster, now, start.job, &assignment);
    let sleeping = apply::wake(cluster, now, &assignment.placement);
    apply::with_times(cluster, start.job, |job| job.phase = Phase::Starting(Box::new(assignment)));
    if !sleeping.is_empty() {
        round.commands.push(Command::Wake { nodes: sleeping });
    }
    Some((start.job, start.estimate))
}
