//! Checks a plan before it is executed. Uses the rules of the cluster, not the policies.

mod divided;
mod explore;
mod groups;
mod packed;
mod power;
mod quotas;
mod resize;
mod several;
mod steer;

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{
    JobId, Memory, NodeId, OrderRule, Part, Parts, Power, Request, Reservation, Time, UnitId, UnitKind, UnitSpec,
    nodes, width,
};

use crate::books::Books;
use crate::facts::{
    allows_node, allows_unit, cores_on, longest, may_be_denied, not_eligible, waking_draw, wants_several,
};
use crate::plan::{Plan, Start, Violation};
use crate::state::{Job, Node, Phase, Sleep, State};

/// The state and the books for the check of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub state: &'a State,
    pub books: &'a Books,
    pub parts: Parts,
    pub now: Time,
}

impl<'a> Case<'a> {
    pub fn of(state: &'a State, books: &'a Books, parts: Parts, now: Time) -> Self {
        Self { state, books, parts, now }
    }

    fn job(&self, id: JobId) -> Option<&'a Job> {
        self.state.jobs.get(id).map(Box::as_ref)
    }

    fn node(&self, id: NodeId) -> Option<&'a Node> {
        self.state.node(id)
    }

    fn unit(&self, id: UnitId) -> Option<(&'a Node, &'a UnitSpec)> {
        let node = self.node(id.node)?;
        node.spec.units.get(usize::from(id.unit)).map(|unit| (node, unit))
    }

    /// Returns the promises of the policy.
    fn high(&self) -> Power {
        self.state.settings.limits.band(self.now).high()
    }
}

/// Returns every rule that `plan` breaks; empty for a plan that may be executed.
pub(crate) fn check(case: Case<'_>, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    each_job_once(case, plan, &mut found);
    for start in &plan.starts {
        if let Some(job) = case.job(start.job) {
            one_start(case, job, start, &mut found);
        }
    }
    room(case, plan, &mut found);
    licences(case, plan, &mut found);
    quotas::check(case, plan, &mut found);
    upper_limit(case, plan, &mut found);
    power::check(case, plan, &mut found);
    sleeps(case, plan, &mut found);
    steer::check(case, plan, &mut found);
    resize::check(case, plan, &mut found);
    divided::check(case, plan, &mut found);
    explore::check(case, plan, &mut found);
    groups::check(case, plan, &mut found);
    if let Some(at) = plan.wake_at.filter(|at| *at <= case.now) {
        found.push(Violation::WakeInPast { at });
    }
    found
}

fn each_job_once(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let started = plan.starts.iter().map(|start| start.job);
    let refused = plan.refusals.iter().map(|(job, _)| *job);
    let waiting = plan.waits.iter().map(|(job, _)| *job);
    let mut seen: Vec<JobId> = started.chain(refused).chain(waiting).collect();
    seen.sort_unstable();
    for (index, job) in seen.iter().copied().enumerate() {
        if index > 0 && seen[index - 1] == job {
            found.push(Violation::Twice { job });
        }
        if !case.job(job).is_some_and(|job| matches!(job.phase, Phase::Waiting(_))) {
            found.push(Violation::NotWaiting { job });
        } else if let Some(wait) = not_eligible(case.state, case.now, job) {
            found.push(Violation::NotEligible { job, wait });
        }
    }
    let is_missing = |job: &JobId| seen.binary_search(job).is_err();
    let queue = || case.state.queue.iter();
    let is_untold = |job: &JobId| case.job(*job).is_some_and(|job| matches!(job.phase, Phase::Waiting(None)));
    let depth = case.state.settings.options.depth as usize;
    // Orders that look beyond the depth also give reasons there.
    let told = if case.parts.starts_one_by_one() { usize::MAX } else { depth };
    let forgotten: Vec<JobId> = match tells_once(case.parts) {
        // Another plan follows one with starts.
        true if !plan.starts.is_empty() => Vec::new(),
        // Another plan also follows one that changes running jobs.
        _ if plan.steers() || (plan.is_unfinished && plan.is_followed()) => Vec::new(),
        // A check of all waiting jobs would take longer than making such a plan.
        true if cfg!(debug_assertions) => queue().take(told).filter(is_untold).filter(is_missing).collect(),
        true => Vec::new(),
        false => queue().take(depth).filter(is_missing).collect(),
    };
    found.extend(forgotten.into_iter().map(|job| Violation::NoReason { job }));
    let immediate = |job: &JobId| case.job(*job).is_some_and(|job| job.request.immediate);
    let patient = plan.refusals.iter().map(|(job, _)| *job).filter(|job| !immediate(job));
    found.extend(patient.map(|job| Violation::RefusedPatient { job }));
    let kept = plan.waits.iter().map(|(job, _)| *job).filter(immediate);
    found.extend(kept.map(|job| Violation::ImmediateWaits { job }));
}

/// Returns true if a plan gives reasons only to the first jobs and to those without any. Reasons stay valid until they
/// change.
fn tells_once(parts: Parts) -> bool {
    parts.starts_one_by_one() || (parts.order == OrderRule::Strict && parts.placement.is_of_free_nodes())
}

fn one_start(case: Case<'_>, job: &Job, start: &Start, found: &mut Vec<Violation>) {
    let id = start.job;
    if start.placement.is_empty() {
        found.push(Violation::NoPart { job: id });
    }
    for part in &start.placement {
        one_part(case, (id, job), part, found);
    }
    if job.request.exclusive && !is_alone(case, &start.placement) {
        found.push(Violation::NotAlone { job: id });
    }
    if job.request.is_packed() {
        return packed::check(case, (id, &job.request), &start.placement, found);
    }
    let several = wants_several(&job.request);
    let nodes = if several { several::nodes(&start.placement) } else { width(&start.placement) };
    if several && !several::accelerators_as_asked(case, &job.request, &start.placement) {
        found.push(Violation::Accelerators { job: id });
    }
    if several && !several::host_cores_as_asked(case, &job.request, &start.placement) {
        found.push(Violation::HostCores { job: id });
    }
    if !start.placement.is_empty() && nodes != job.request.nodes.get() {
        found.push(Violation::Nodes { job: id, nodes });
    }
    if let Some(widths) = job.request.widths.filter(|widths| !start.placement.is_empty() && !widths.contains(nodes)) {
        found.push(Violation::Width { job: id, nodes, widths });
    }
    if !several && overlap(&start.placement) {
        found.push(Violation::NodeTwice { job: id });
    }
}

/// Returns true if no job is on the nodes of a placement.
fn is_alone(case: Case<'_>, placement: &[Part]) -> bool {
    placement.iter().flat_map(Part::nodes).all(|node| case.books.is_free(node))
}

/// Returns the cores that a start takes of each unit: all cores of all units, if the job has its nodes alone.
fn taken<'a>(case: Case<'a>, start: &'a Start) -> Vec<(UnitId, u32)> {
    if case.job(start.job).is_some_and(|job| job.request.exclusive) {
        let nodes = nodes(&start.placement).filter_map(|node| case.node(node));
        return nodes.flat_map(Node::units).map(|(unit, spec)| (unit, spec.cores)).collect();
    }
    start.placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cores))).collect()
}

/// Returns true if two parts have a node in common. Parts are usually in order.
fn overlap(placement: &[Part]) -> bool {
    let runs = |parts: &[Part]| parts.iter().map(|part| (part.unit.node.0, part.count)).collect::<Vec<_>>();
    let meet = |runs: &[(u32, u32)]| runs.windows(2).any(|two| two[0].0.saturating_add(two[0].1) > two[1].0);
    let mut runs = runs(placement);
    if !meet(&runs) {
        return false;
    }
    runs.sort_unstable();
    meet(&runs)
}

/// Adjacent nodes of one class are equal, so only the first is checked.
fn one_part(case: Case<'_>, (id, job): (JobId, &Job), part: &Part, found: &mut Vec<Violation>) {
    let may_be_denied = may_be_denied(&job.request) || !case.state.reservations.is_empty();
    let alike = case.books.are_alike(part) && !may_be_denied;
    if !case.books.can_be_reached(part) {
        found.push(Violation::NodeUnavailable { job: id });
    }
    for unit_id in part.units().take(if alike { 1 } else { usize::MAX }) {
        let Some((node, unit)) = case.unit(unit_id) else {
            found.push(Violation::NoUnit { job: id });
            continue;
        };
        let may_have = allows_unit(&job.request, unit) || several::is_host(&job.request, unit);
        if !allows_node(&job.request, node) || !may_have {
            found.push(Violation::NotAllowed { job: id });
        }
        if let Some(reservation) = kept_by(case, &job.request, node) {
            found.push(Violation::Reserved { job: id, reservation: reservation.to_owned() });
        }
        if part.cores != cores_on(&job.request, unit) && !job.request.is_packed() {
            found.push(Violation::Cores { job: id, cores: part.cores });
        }
        let obeyed = |cap: &Power| unit.caps.is_some_and(|(low, high)| (low..=high).contains(cap));
        if let Some(cap) = part.cap.filter(|cap| !obeyed(cap)) {
            found.push(Violation::Cap { job: id, cap });
        }
        if let Some(cap) = job.request.cap.filter(|cap| part.cap != Some(*cap)) {
            found.push(Violation::NotAtCap { job: id, cap });
        }
    }
    if part.memory != job.request.memory && !wants_several(&job.request) && !job.request.is_packed() {
        found.push(Violation::Memory { job: id, memory: part.memory });
    }
}

/// Returns the reservation that keeps a job off a node now. This is any reservation on the node, or the reservation
/// that the job requests.
fn kept_by<'a>(case: Case<'a>, request: &'a Request, node: &Node) -> Option<&'a str> {
    let own = request.reservation.as_deref();
    let last = longest(request, node).map(|longest| case.now + longest);
    let is_over_by = |time: Time| last.is_some_and(|last| last <= time);
    let of = own.and_then(|name| case.state.reservations.get(name));
    let has_right = |of: &Reservation| {
        of.users.contains(&request.user)
            && of.nodes.contains(&node.spec.name)
            && of.from <= case.now
            && is_over_by(of.until)
    };
    if let Some(name) = own.filter(|_| !of.is_some_and(has_right)) {
        return Some(name);
    }
    let others = case.state.reservations.iter().filter(|(name, _)| Some(name.as_str()) != own);
    let mut keeps = others.filter(|(_, of)| of.nodes.contains(&node.spec.name) && case.now < of.until);
    keeps.find(|(_, of)| !is_over_by(of.from)).map(|(name, _)| name.as_str())
}

/// Checks cores, memory and accelerators, including those already taken.
fn room(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let unsorted = || plan.starts.iter().flat_map(|start| &start.placement);
    // The parts of one job are usually in order.
    if plan.starts.len() <= 1 && are_apart_and_free(case.books, unsorted()) {
        return;
    }
    let mut parts: Vec<&Part> = unsorted().collect();
    parts.sort_unstable_by_key(|part| part.unit.node);
    if are_apart_and_free(case.books, parts.iter().copied()) {
        return;
    }
    let mut asked: BTreeMap<UnitId, (u32, usize)> = BTreeMap::new();
    let mut memory: BTreeMap<NodeId, Memory> = BTreeMap::new();
    for (unit, more) in plan.starts.iter().flat_map(|start| taken(case, start)) {
        let (cores, jobs) = asked.entry(unit).or_default();
        *cores = cores.saturating_add(more);
        *jobs += 1;
    }
    for (part, unit) in parts.iter().flat_map(|part| part.units().map(move |unit| (part, unit))) {
        let sum = memory.entry(unit.node).or_default();
        *sum = sum.saturating_add(part.memory);
    }
    for (id, (cores, jobs)) in asked {
        let Some((_, unit)) = case.unit(id) else { continue };
        let used = case.books.used(id);
        let cores = used.saturating_add(cores);
        if cores > unit.cores {
            found.push(Violation::CoresTaken { unit: id, cores, total: unit.cores });
        }
        // An accelerator counts as one core.
        if unit.kind == UnitKind::Accelerator && used as usize + jobs > 1 {
            found.push(Violation::AcceleratorShared { unit: id });
        }
    }
    for (id, asked) in memory {
        let Some(node) = case.node(id) else { continue };
        let used = case.books.memory_used(id);
        let memory = used.saturating_add(asked);
        if memory > node.spec.memory {
            found.push(Violation::MemoryTaken { node: id, memory, total: node.spec.memory });
        }
    }
}

/// Checks that the licences of running jobs and of the starts are no more than there are.
fn licences(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let mut more: BTreeMap<&str, u64> = BTreeMap::new();
    let starts = plan.starts.iter().filter_map(|start| case.job(start.job));
    for own in starts.flat_map(|job| &job.request.licences) {
        *more.entry(&own.name).or_default() += u64::from(own.count.get());
    }
    for (licence, more) in more {
        let held = case.books.licences.get(licence).copied().unwrap_or(0) + more;
        let total = case.state.settings.licences.count(licence).unwrap_or(0);
        if held > u64::from(total) {
            found.push(Violation::Licences { licence: licence.to_owned(), held, total });
        }
    }
}

/// Returns true in the usual case: parts in ascending order without shared nodes, whose requests fit into the free
/// resources.
fn are_apart_and_free<'a>(books: &Books, mut parts: impl Iterator<Item = &'a Part>) -> bool {
    let mut next = 0;
    parts.all(|part| {
        let follows = part.unit.node.0 >= next;
        next = part.unit.node.0.saturating_add(part.count);
        follows && part.memory == Memory::ZERO && books.has_room(part)
    })
}

/// Checks that presets with this promise start nothing that raises the draw above the upper limit.
fn upper_limit(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    // The starts of a policy that divides the limit are checked with its caps.
    let divides = case.parts.divides() && plan.starts.is_empty();
    if !case.parts.keeps_upper_limit() && !divides {
        return;
    }
    let switched = switched_draw(case, plan);
    if plan.starts.is_empty() && switched <= Power::ZERO {
        return;
    }
    let (unconfirmed, away) = case.state.relief();
    let at_once: Power = plan.starts.iter().filter(|start| !start.waits_for_relief).map(|of| of.estimate.power).sum();
    let all: Power = plan.starts.iter().map(|start| start.estimate.power).sum();
    let (draw, high) = (case.state.sums.draw + away + switched, case.high());
    // Two states are the worst: all orders are followed and all starts run, or no order is followed yet.
    let followed = draw + all;
    let pending = if at_once + switched > Power::ZERO { draw + unconfirmed + at_once } else { followed };
    let draw = followed.max(pending);
    if draw > high {
        found.push(Violation::UpperLimit { draw, high });
    }
}

/// Returns the additional draw of the nodes that the plan wakes, and of those that fall asleep.
fn switched_draw(case: Case<'_>, plan: &Plan) -> Power {
    let placed = plan.starts.iter().flat_map(|start| nodes(&start.placement)).filter_map(|node| case.node(node));
    let woken: BTreeSet<NodeId> = placed.filter(|node| !node.is_awake()).map(|node| node.id).collect();
    let waking: Power = woken.into_iter().filter_map(|node| case.node(node)).map(waking_draw).sum();
    let sleeping = runs(plan).filter_map(|node| case.node(node)).map(groups::falling_asleep).sum::<Power>();
    waking + sleeping
}

/// Returns the nodes that the plan puts to sleep.
fn runs(plan: &Plan) -> impl Iterator<Item = NodeId> {
    plan.sleeps.iter().flat_map(|(first, count)| (first.0..first.0.saturating_add(*count)).map(NodeId))
}

/// Checks that only nodes that are awake, free and able to sleep get the order to sleep, each once.
fn sleeps(case: Case<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if plan.sleeps.is_empty() {
        return;
    }
    let placed = plan.starts.iter().flat_map(|start| &start.placement).flat_map(|part| part.nodes());
    let mut taken: BTreeSet<NodeId> = placed.collect();
    for node in runs(plan) {
        let is_due = |of: &Node| of.rules.after.is_none_or(|after| after.allows(case.now - of.idle_since));
        let can = |of: &Node| of.sleep() == Sleep::Awake && of.spec().rest.is_some() && case.books.is_free(node);
        let can = |of: &Node| can(of) && is_due(of);
        if !taken.insert(node) || !case.node(node).is_some_and(can) {
            found.push(Violation::CannotSleep { node });
        }
    }
}
