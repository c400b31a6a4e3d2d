//! The number of nodes of each waiting moldable job, chosen before each plan.
//!
//! The policy itself is asked: it makes a plan for each number of nodes in question, and the job counts as started when
//! that plan starts it, or when the plan expects its start. So the choice heeds what the order, the admission and the
//! placement heed.
//!
//! Rule: if profiles give the duration of runs on at least two numbers of the range, the job gets the one with the
//! earliest predicted end, and among equal ends the smallest. A number on which it would exceed its time limit is left
//! out, unless it would on all numbers. A number without an expected start counts only if there is no other, and then the
//! shortest run is chosen. Without such profiles no speed-up is assumed: the job gets the largest number on which it
//! starts now, and the least while it starts on none, as under Slurm. Numbers that the quota of the user does not admit
//! are left out. The first [`ASKED`] moldable jobs of the queue are asked about; later ones get the largest number for
//! which nodes are free, and those after the first [`LOOKED`] the largest of all. Cost: at most [`KNOWN`] plans for each job, or two and the logarithm of the range.

use std::num::NonZeroU32;

use limo_model::{JobId, Request, Span, Time, Widths};

use crate::apply::{charge_width, may_have, set_width};
use crate::cluster::Cluster;
use crate::facts::{Known, allows_unit, estimate};
use crate::future::{Asker, asks_each, room as nodes_free};
use crate::policy::planned;
use crate::view::View;

/// Number of moldable jobs that are tried in a round's plan.
const ASKED: usize = 8;

/// Number of moldable jobs for which the free nodes are counted. Later ones get the largest number: those that cannot start
/// are looked at when the jobs before them have started.
const LOOKED: usize = 64;

/// Most numbers of nodes with a known duration that are tried: the shortest runs.
const KNOWN: usize = 16;

/// Chooses the numbers of nodes of the waiting moldable jobs for the next plan.
pub(super) fn choose_widths(cluster: &mut Cluster, now: Time) {
    if cluster.index.moldable.is_empty() {
        return;
    }
    let places = cluster.index.moldable.iter().filter_map(|id| Some((cluster.state.queue.place(*id)?, *id)));
    let mut jobs: Vec<(u64, JobId)> = places.collect();
    jobs.sort_unstable();
    for (index, (_, id)) in jobs.into_iter().enumerate() {
        let Some(request) = cluster.state.jobs.get(id).map(|job| &job.request) else { continue };
        let (before, Some(widths)) = (request.nodes, request.widths) else { continue };
        let chosen = match index {
            ..ASKED => match durations(cluster, &Request::clone(request), widths) {
                Some(known) => earliest_end(cluster, now, id, &known),
                None => widest(cluster, now, id, widths),
            },
            ASKED..LOOKED => at_most(room(cluster, now, id, widths), widths),
            _ => at_most(u32::try_from(cluster.state.nodes.len()).unwrap_or(u32::MAX), widths),
        };
        if index >= LOOKED && chosen == before {
            continue;
        }
        let admitted = if may_have(cluster, now, id, chosen) { chosen } else { widths.least };
        set_width(cluster, id, admitted);
        charge_width(cluster, id);
    }
}

/// Returns the largest number of a range up to a bound, or its least one.
fn at_most(bound: u32, widths: Widths) -> NonZeroU32 {
    NonZeroU32::new(bound).map_or(widths.least, |bound| bound.clamp(widths.least, widths.most))
}

/// Returns the numbers of the range for which the duration of a run is known, if there are two: each with this duration
/// on the fastest type of unit, shortest first. Those that would exceed the time limit are only returned if all would.
fn durations(cluster: &Cluster, request: &Request, widths: Widths) -> Option<Vec<(Span, NonZeroU32)>> {
    let known = Known::of(&cluster.state);
    if known.profiles.is_empty() {
        return None;
    }
    let mut found: Vec<(NonZeroU32, Span)> = Vec::new();
    let units = cluster.index.classes.all().iter().flat_map(|class| &class.units);
    for unit in units.filter(|unit| allows_unit(request, unit)) {
        for nodes in known.widths(request, unit).into_iter().filter(|nodes| widths.contains(*nodes)) {
            let Some(nodes) = NonZeroU32::new(nodes) else { continue };
            let unlimited = Request { time_limit: None, ..request.at_width(nodes) };
            found.push((nodes, estimate(known, &unlimited, unit).duration));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(nodes, _)| *nodes);
    if found.len() < 2 {
        return None;
    }
    let mut found: Vec<(Span, NonZeroU32)> = found.into_iter().map(|(nodes, span)| (span, nodes)).collect();
    found.sort_unstable();
    let in_time = found.iter().take_while(|(span, _)| request.time_limit.is_none_or(|limit| *span <= limit)).count();
    found.truncate(if in_time == 0 { KNOWN } else { in_time.min(KNOWN) });
    Some(found)
}

/// Returns the number of nodes with the earliest predicted end.
fn earliest_end(cluster: &mut Cluster, now: Time, id: JobId, known: &[(Span, NonZeroU32)]) -> NonZeroU32 {
    let mut ends = Vec::new();
    for (span, nodes) in known {
        let at = start_on(cluster, now, id, *nodes);
        ends.extend(at.map(|at| (at + *span, *nodes)));
    }
    let shortest = known.first().map_or(NonZeroU32::MIN, |(_, nodes)| *nodes);
    ends.into_iter().min().map_or(shortest, |(_, nodes)| nodes)
}

/// Returns the largest number of nodes on which a job starts now, or the least. A job that starts on some number starts
/// on smaller ones.
fn widest(cluster: &mut Cluster, now: Time, id: JobId, widths: Widths) -> NonZeroU32 {
    let most = room(cluster, now, id, widths);
    let mut starts = |nodes: u32| {
        let nodes = NonZeroU32::new(nodes);
        nodes.is_some_and(|nodes| start_on(cluster, now, id, nodes) == Some(now))
    };
    let (mut low, mut high) = (widths.least.get(), most);
    if high < low || starts(high) {
        return NonZeroU32::new(high.max(low)).unwrap_or(widths.least);
    }
    if !starts(low) {
        return widths.least;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if starts(middle) { low = middle } else { high = middle }
    }
    NonZeroU32::new(low).unwrap_or(widths.least)
}

/// Returns the number of nodes that a job could have now, at most the largest of its range.
fn room(cluster: &mut Cluster, now: Time, id: JobId, widths: Widths) -> u32 {
    cluster.index.shapes.count(&cluster.index.classes);
    let (view, most) = (View::new(cluster, now), widths.most.get());
    let Some(job) = view.job(id) else { return most };
    // With a given number of tasks, the chunks on more nodes are smaller.
    if job.request.at_width(widths.most).cores != job.request.at_width(widths.least).cores {
        return most;
    }
    let shape = view.index().shapes.find(&job.request);
    let free = shape.map_or(0, |shape| match asks_each(&view, shape) {
        true => nodes_free(&view, Asker { job, shape }),
        false => shape.room(),
    });
    free.min(most)
}

/// Returns the start of a job on this number of nodes: now, or when the policy plans it.
fn start_on(cluster: &mut Cluster, now: Time, id: JobId, nodes: NonZeroU32) -> Option<Time> {
    if !may_have(cluster, now, id, nodes) {
        return None;
    }
    set_width(cluster, id, nodes);
    cluster.index.shapes.count(&cluster.index.classes);
    let (starts, later) = planned(&View::new(cluster, now));
    if starts.contains(&id) {
        return Some(now);
    }
    let later = later.into_iter().find(|later| later.job == id);
    later.map(|later| later.at).filter(|at| *at < Time::MAX)
}

#[cfg(test)]
mod tests {
    use limo_model::{Cores, Memory, Meter, NodeSpec, Power, Preset, UnitKind, UnitSpec, width};

    use super::*;
    use crate::{Core, Event, Options};

    /// The first 8 jobs are asked about, the next 56 counted, and the others get the largest number.
    #[test]
    fn all_jobs_of_a_long_queue_get_the_nodes_that_are_free() {
        let now = Time::from_unix_ms(1_000);
        let mut core = Core::new(now, Preset::Fifo, Options::default());
        for node in 0..150 {
            let unit = UnitSpec {
                name: "cpu".into(),
                hardware: "cpu".into(),
                kind: UnitKind::Cpu,
                cores: 1,
                nameplate: Power::from_watts(10),
                caps: None,
            };
            let spec = NodeSpec {
                name: format!("n{node}"),
                units: vec![unit],
                memory: Memory::ZERO,
                idle: Power::ZERO,
                meter: Meter::None,
                rest: None,
            };
            core.apply(now, &Event::NodeUp { spec }).expect("a new node");
        }
        let [least, most] = [1, 2].map(|nodes| NonZeroU32::new(nodes).expect("positive"));
        let widths = Some(Widths { least, most, tasks_per_node: None });
        for _ in 0..100 {
            let request = Request { widths, cores: Cores::All, ..Request::one_core("a") };
            core.submit(now, core.next_job(), request).expect("accepted");
        }
        core.round(now);
        let view = core.view(now);
        let started = view.active().filter_map(|(_, job)| job.assignment());
        let widths: Vec<u32> = started.map(|assignment| width(&assignment.placement)).collect();
        assert_eq!(widths, [2; 75]);
        let waiting = view.queue().map(|(_, job)| job.request.nodes.get()).next();
        assert_eq!(waiting, Some(1), "it waits for the least number");
    }
}
