//! Looks at a plan before anything of it is done. Knows the rules of the cluster, not the policies.

mod power;
mod several;
mod steer;

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, Memory, NodeId, Part, Power, UnitId, UnitKind, nodes, width};

use crate::apply::{bar, obstacle};
use crate::facts::{allows_node, allows_unit, cores_on, units_wanted};
use crate::index::Classes;
use crate::plan::{Plan, Start, Violation};
use crate::state::{Job, Node, Phase, Sleep};
use crate::view::View;

/// Every rule that `plan` breaks; empty for a plan that may be executed.
pub fn check(view: &View<'_>, plan: &Plan) -> Vec<Violation> {
    let mut found = Vec::new();
    each_job_once(view, plan, &mut found);
    for start in &plan.starts {
        if let Some(job) = view.job(start.job) {
            one_start(view, job, start, &mut found);
        }
    }
    room(view, plan, &mut found);
    upper_limit(view, plan, &mut found);
    power::check(view, plan, &mut found);
    sleeps(view, plan, &mut found);
    steer::check(view, plan, &mut found);
    if let Some(at) = plan.wake_at.filter(|at| *at <= view.now()) {
        found.push(Violation::WakeInPast { at });
    }
    found
}

fn each_job_once(view: &View<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let started = plan.starts.iter().map(|start| start.job);
    let refused = plan.refusals.iter().map(|(job, _)| *job);
    let waiting = plan.waits.iter().map(|(job, _)| *job);
    let mut seen: Vec<JobId> = started.chain(refused).chain(waiting).collect();
    seen.sort_unstable();
    for (index, job) in seen.iter().copied().enumerate() {
        if index > 0 && seen[index - 1] == job {
            found.push(Violation::Twice { job });
        }
        if !view.job(job).is_some_and(|job| matches!(job.phase, Phase::Waiting(_))) {
            found.push(Violation::NotWaiting { job });
        } else if let Some(wait) = obstacle(view.cluster(), view.now(), job) {
            found.push(Violation::NotEligible { job, wait });
        }
    }
    let is_missing = |job: &JobId| seen.binary_search(job).is_err();
    let forgotten: Vec<JobId> = match view.preset().parts().starts_one_by_one() {
        // A plan that starts something is followed by another one; what was told stays told until it changes.
        true if !plan.starts.is_empty() => Vec::new(),
        // Likewise one that changes something about jobs that run.
        _ if plan.steers() || (plan.is_unfinished && plan.is_followed()) => Vec::new(),
        true => view.untold().map(|(job, _)| job).filter(is_missing).collect(),
        false => view.queue().map(|(job, _)| job).filter(is_missing).collect(),
    };
    found.extend(forgotten.into_iter().map(|job| Violation::NoReason { job }));
    let immediate = |job: &JobId| view.job(*job).is_some_and(|job| job.request.immediate);
    let patient = plan.refusals.iter().map(|(job, _)| *job).filter(|job| !immediate(job));
    found.extend(patient.map(|job| Violation::RefusedPatient { job }));
    let kept = plan.waits.iter().map(|(job, _)| *job).filter(immediate);
    found.extend(kept.map(|job| Violation::ImmediateWaits { job }));
}

fn one_start(view: &View<'_>, job: &Job, start: &Start, found: &mut Vec<Violation>) {
    let id = start.job;
    if start.placement.is_empty() {
        found.push(Violation::NoPart { job: id });
    }
    for part in &start.placement {
        one_part(view, (id, job), part, found);
    }
    let several = units_wanted(&job.request) > 1;
    let nodes = if several { several::nodes(&start.placement) } else { width(&start.placement) };
    if several && !several::as_asked(view, &job.request, &start.placement) {
        found.push(Violation::Accelerators { job: id });
    }
    if !start.placement.is_empty() && nodes != job.request.nodes.get() {
        found.push(Violation::Nodes { job: id, nodes });
    }
    if job.request.exclusive && !is_alone(view, &start.placement) {
        found.push(Violation::NotAlone { job: id });
    }
    if !several && overlap(&start.placement) {
        found.push(Violation::NodeTwice { job: id });
    }
}

/// Whether no job is on the nodes of a placement.
fn is_alone(view: &View<'_>, placement: &[Part]) -> bool {
    let mut nodes = placement.iter().flat_map(Part::nodes).filter_map(|node| view.node(node));
    nodes.all(|node| node.units().all(|(unit, _)| view.index().cores_used(unit) == 0))
}

/// The cores that a start takes of each unit: all of all units of nodes that a job has alone.
fn taken<'a>(view: &View<'a>, start: &'a Start) -> Vec<(UnitId, u32)> {
    if view.job(start.job).is_some_and(|job| job.request.exclusive) {
        let nodes = nodes(&start.placement).filter_map(|node| view.node(node));
        return nodes.flat_map(Node::units).map(|(unit, spec)| (unit, spec.cores)).collect();
    }
    start.placement.iter().flat_map(|part| part.units().map(|unit| (unit, part.cores))).collect()
}

/// Whether two parts have a node in common. Mostly they are in order.
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

/// Neighbours of one class are alike: then the first of them speaks for all.
fn one_part(view: &View<'_>, (id, job): (JobId, &Job), part: &Part, found: &mut Vec<Violation>) {
    let alike = view.index().classes.is_run(part) && !view.may_be_denied(&job.request);
    if !view.index().classes.can_be_reached(part) {
        found.push(Violation::NodeUnavailable { job: id });
    }
    for unit_id in part.units().take(if alike { 1 } else { usize::MAX }) {
        let Some((node, unit)) = view.unit(unit_id) else {
            found.push(Violation::NoUnit { job: id });
            continue;
        };
        if !allows_node(&job.request, node) || !allows_unit(&job.request, unit) {
            found.push(Violation::NotAllowed { job: id });
        }
        if let Some(reservation) = bar(view.cluster(), view.now(), &job.request, node) {
            found.push(Violation::Reserved { job: id, reservation: reservation.to_owned() });
        }
        if part.cores != cores_on(&job.request, unit) {
            found.push(Violation::Cores { job: id, cores: part.cores });
        }
        let obeyed = |cap: &Power| unit.caps.is_some_and(|(low, high)| (low..=high).contains(cap));
        if let Some(cap) = part.cap.filter(|cap| !obeyed(cap)) {
            found.push(Violation::Cap { job: id, cap });
        }
    }
    if part.memory != job.request.memory && units_wanted(&job.request) == 1 {
        found.push(Violation::Memory { job: id, memory: part.memory });
    }
}

/// Cores, memory and accelerators, with what is taken already.
fn room(view: &View<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let classes = &view.index().classes;
    let unsorted = || plan.starts.iter().flat_map(|start| &start.placement);
    // One job's parts mostly are in order.
    if plan.starts.len() <= 1 && are_apart_and_free(classes, unsorted()) {
        return;
    }
    let mut parts: Vec<&Part> = unsorted().collect();
    parts.sort_unstable_by_key(|part| part.unit.node);
    if are_apart_and_free(classes, parts.iter().copied()) {
        return;
    }
    let mut asked: BTreeMap<UnitId, (u32, usize)> = BTreeMap::new();
    let mut memory: BTreeMap<NodeId, Memory> = BTreeMap::new();
    for (unit, more) in plan.starts.iter().flat_map(|start| taken(view, start)) {
        let (cores, jobs) = asked.entry(unit).or_default();
        *cores = cores.saturating_add(more);
        *jobs += 1;
    }
    for (part, unit) in parts.iter().flat_map(|part| part.units().map(move |unit| (part, unit))) {
        let sum = memory.entry(unit.node).or_default();
        *sum = sum.saturating_add(part.memory);
    }
    for (id, (cores, jobs)) in asked {
        let Some((_, unit)) = view.unit(id) else { continue };
        let used = classes.used(id);
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
        let Some(node) = view.node(id) else { continue };
        let used = view.index().memory.get(id.0 as usize).copied().unwrap_or_default();
        let memory = used.saturating_add(asked);
        if memory > node.spec.memory {
            found.push(Violation::MemoryTaken { node: id, memory, total: node.spec.memory });
        }
    }
}

/// The usual case: parts in order of which no two share a node, and all that they ask for is free.
fn are_apart_and_free<'a>(classes: &Classes, mut parts: impl Iterator<Item = &'a Part>) -> bool {
    let mut next = 0;
    parts.all(|part| {
        let follows = part.unit.node.0 >= next;
        next = part.unit.node.0.saturating_add(part.count);
        follows && part.memory == Memory::ZERO && classes.has_room(part)
    })
}

/// Presets that promise it start nothing that takes the draw over the upper limit.
fn upper_limit(view: &View<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if !view.preset().parts().keeps_upper_limit() || plan.starts.is_empty() {
        return;
    }
    let draw = view.draw() + plan.starts.iter().map(|start| start.estimate.power).sum::<Power>();
    let high = view.band().high();
    if draw > high {
        found.push(Violation::UpperLimit { draw, high });
    }
}

/// Only nodes that are awake, free and able to sleep are told to, each once.
fn sleeps(view: &View<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if plan.sleeps.is_empty() {
        return;
    }
    let placed = plan.starts.iter().flat_map(|start| &start.placement).flat_map(|part| part.nodes());
    let mut taken: BTreeSet<NodeId> = placed.collect();
    for node in plan.sleeps.iter().flat_map(|(first, count)| (first.0..first.0.saturating_add(*count)).map(NodeId)) {
        let free = |node: &Node| node.units().all(|(unit, _)| view.index().cores_used(unit) == 0);
        let can = |node: &Node| node.sleep() == Sleep::Awake && node.spec().rest.is_some() && free(node);
        if !taken.insert(node) || !view.node(node).is_some_and(can) {
            found.push(Violation::CannotSleep { node });
        }
    }
}
