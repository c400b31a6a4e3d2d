//! `conservative`: backfilling in which every job that waits has a planned start that no later job may delay.
//!
//! Idea (the other of the two classic ways to backfill; energy-budget-2017 builds on EASY alone): jobs in order of
//! submission; each gets the earliest time at which enough is free for all of its walltime beside what runs and what was
//! planned before it; who can start now starts. Plans are made anew in each round, so an early end moves them forward.
//! Constraints: expectations are walltimes, and jobs are ended at them; a job without one is expected to take
//! `default_duration`. A job is planned within one class of nodes.
//! Ignores: power, price, budgets, deadlines. Plans count cores: where jobs take parts of nodes, or neighbours only,
//! the cores may be free and no node be, and the job then starts later than planned; memory is asked at the start only. A job
//! that must not have what is free now is planned from the next end on; one that reservations keep away is not planned.
//! Cost: jobs looked at (at most `depth`) x running and planned jobs. Options: `allocation`, `default_duration`, `depth`,
//! `rest`.

use limo_model::{JobId, Span, Time, Wait};

use super::{estimate, is_kept_away, place, rest};
use crate::index::{Class, PlanCache, Shape};
use crate::plan::{Plan, Start};
use crate::policy::Policy;
use crate::state::Job;
use crate::view::View;

pub(crate) static CONSERVATIVE: Conservative = Conservative;

pub(crate) struct Conservative;

/// Free cores of a class from now on: from each time until the next; ascending.
struct Profile(Vec<(Time, i64)>);

impl Policy for Conservative {
    fn plan(&self, view: &View<'_>) -> (Plan, Option<PlanCache>) {
        let mut profiles = profiles(view);
        let mut plan = Plan::default();
        let (mut first, mut last): (Option<JobId>, Option<JobId>) = (None, None);
        for (id, job) in view.queue() {
            // It takes nothing from those behind it, who need not wait for it.
            let is_kept_away = is_kept_away(view, job);
            let planned = if is_kept_away { None } else { planned(view, &mut profiles, job) };
            if let Some((Ok(start), _)) = &planned {
                let start = Start { job: id, ..start.clone() };
                return (Plan { starts: vec![start], ..Plan::default() }, None);
            }
            let wait = match (planned, first) {
                (None, _) => Wait::NoNode,
                (Some((_, until)), Some(first)) if until.is_none() => Wait::Behind { job: first, until },
                (Some((_, until)), _) => Wait::Resources { until },
            };
            first = first.or(Some(id).filter(|_| !is_kept_away));
            last = Some(id);
            match job.request.immediate {
                true => plan.refusals.push((id, wait)),
                false => plan.waits.push((id, wait)),
            }
        }
        let depth = view.options().depth;
        let last = last.and_then(|last| view.place(last));
        for (id, job) in view.untold().filter(|(id, _)| last.is_some() && view.place(*id) > last) {
            let list = if job.request.immediate { &mut plan.refusals } else { &mut plan.waits };
            list.push((id, Wait::Depth { depth }));
        }
        (plan.sleeps, plan.wake_at) = rest::sleeps(view);
        (plan, None)
    }
}

/// Plans a job: its start now, or `Err` and when it is planned for; none where no class could ever run it.
fn planned(view: &View<'_>, profiles: &mut [Profile], job: &Job) -> Option<(Result<Start, ()>, Option<Time>)> {
    let shape = view.index().shapes.find(&job.request).filter(|shape| !shape.ways.is_empty())?;
    let now = view.now();
    let span = job.request.time_limit.unwrap_or(view.options().default_duration).max(Span::from_ms(1));
    let cores = |cores: u32| i64::from(cores) * i64::from(job.request.nodes.get());
    let earliest = shape.ways.iter().filter_map(|way| {
        let at = profiles[way.class].earliest(cores(way.cores), span)?;
        Some((at, way.class, cores(way.cores)))
    });
    // Wider than any class: it may still fit over several of them, once it is its turn.
    let Some((mut at, class, cores)) = earliest.min() else { return Some((start(view, shape, job).ok_or(()), None)) };
    if at <= now {
        if let Some(start) = start(view, shape, job) {
            return Some((Ok(start), None));
        }
        // What is free now it must not have: others may, until some job ends.
        if view.may_be_denied(&job.request) {
            let Some(later) = profiles[class].earliest_after(1, cores, span) else { return Some((Err(()), None)) };
            at = later;
        }
    }
    profiles[class].take(cores, at, at + span);
    Some((Err(()), Some(at).filter(|at| *at > now)))
}

/// The job's number is filled in by the caller.
fn start(view: &View<'_>, shape: &Shape, job: &Job) -> Option<Start> {
    let placement = place::find(view, shape, job, None)?;
    let estimate = estimate(view, job, &placement);
    Some(Start { job: JobId(0), placement, estimate })
}

fn free_cores(class: &Class) -> i64 {
    let levels = class.levels.iter().zip(&class.units).next();
    let awake = levels.map_or(0, |(levels, unit)| (1..=unit.cores).map(|k| i64::from(levels.count_at_least(k))).sum());
    let each = class.units.first().map_or(0, |unit| i64::from(unit.cores));
    awake + i64::from(class.asleep.count()) * each
}

/// What is free in each class from now on, if nothing more starts.
fn profiles(view: &View<'_>) -> Vec<Profile> {
    let (now, classes) = (view.now(), &view.index().classes);
    let mut profiles: Vec<Profile> =
        classes.all().iter().map(|class| Profile(vec![(now, free_cores(class))])).collect();
    for (_, id) in view.index().ends.keys() {
        let Some(job) = view.job(*id) else { continue };
        let Some((end, assignment)) = job.expected_end(now).zip(job.assignment()) else { continue };
        for part in &assignment.placement {
            if let Some((class, _)) = classes.place_of(part.unit.node) {
                let whole = classes.class(class).units.first().map(|unit| unit.cores);
                let cores = whole.filter(|_| assignment.alone).unwrap_or(part.cores);
                profiles[class].give(i64::from(part.count) * i64::from(cores), end.max(now + Span::from_ms(1)));
            }
        }
    }
    profiles
}

impl Profile {
    /// The index of the step that begins at `at`; made where there is none. `at` is not before now.
    fn cut(&mut self, at: Time) -> usize {
        match self.0.binary_search_by_key(&at, |(start, _)| *start) {
            Ok(index) => index,
            Err(index) => {
                let before = self.0[index.saturating_sub(1)].1;
                self.0.insert(index, (at, before));
                index
            }
        }
    }

    fn give(&mut self, cores: i64, from: Time) {
        let index = self.cut(from);
        self.0[index..].iter_mut().for_each(|(_, free)| *free += cores);
    }

    fn take(&mut self, cores: i64, from: Time, until: Time) {
        let (first, last) = (self.cut(from), self.cut(until));
        self.0[first..last].iter_mut().for_each(|(_, free)| *free -= cores);
    }

    /// The first time from now on after which `cores` are free for all of `span`.
    fn earliest(&self, cores: i64, span: Span) -> Option<Time> {
        self.earliest_after(0, cores, span)
    }

    /// The same from so many steps later on.
    fn earliest_after(&self, steps: usize, cores: i64, span: Span) -> Option<Time> {
        let mut start: Option<Time> = None;
        for (index, (at, free)) in self.0.iter().enumerate().skip(steps) {
            if *free < cores {
                start = None;
                continue;
            }
            let from = *start.get_or_insert(*at);
            let until = self.0.get(index + 1).map_or(Time::MAX, |(next, _)| *next);
            if until - from >= span {
                return Some(from);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    #[test]
    fn the_earliest_start_in_a_profile() {
        // 4 cores free now; 6 taken ones come back at 100 s.
        let mut profile = Profile(vec![(at(0), 4)]);
        profile.give(6, at(100));
        let check = |profile: &Profile, cores, span, expected: Option<i64>| {
            assert_eq!(profile.earliest(cores, Span::from_secs(span)), expected.map(at), "{cores} cores for {span} s");
        };
        check(&profile, 4, 1_000, Some(0));
        check(&profile, 5, 10, Some(100));
        check(&profile, 11, 10, None);
        // Planned: 8 cores from 100 s to 200 s. A short narrow job still fits before, a long one beside.
        profile.take(8, at(100), at(200));
        check(&profile, 3, 100, Some(0));
        check(&profile, 3, 101, Some(200));
        check(&profile, 2, 1_000, Some(0));
        check(&profile, 10, 1, Some(200));
        assert_eq!(profile.earliest_after(1, 2, Span::from_secs(1_000)), Some(at(100)));
    }
}
