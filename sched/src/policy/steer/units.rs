//! Units with jobs whose caps can change.

use std::collections::BTreeMap;

use limo_model::{Part, Power, Span, UnitId};

use super::lift::{cap_of, higher};
use crate::facts::expected;
use crate::plan::Start;
use crate::state::{Assignment, Job};
use crate::view::View;

/// A unit with running jobs.
pub(super) struct SharedUnit {
    pub unit: UnitId,
    /// Cores of the unit and cores of its jobs, which give the share of the jobs in a cap.
    pub cores: (u32, u32),
    pub draw: Power,
    /// Draw at the lowest cap.
    pub floor: Power,
    /// Draw at the aim, weighted by the speed of the unit: units with caps in proportion to this are equally fast.
    pub work: Power,
    /// The cap with which its jobs were started, and the draw at it.
    pub aim: (Option<Power>, Power),
    /// True if a job measures its application at this cap, so that it does not rise further, even below the band.
    pub stays: bool,
}

/// A part of a job on one unit.
struct Use<'a> {
    job: &'a Job,
    unit: UnitId,
    part: &'a Part,
    draw: Power,
    measures: bool,
}

/// Returns the parts of running jobs that could change, and those of `starts`. A part that has ended draws nothing, whatever
/// its cap.
fn uses<'a>(view: &View<'a>, starts: &'a [Start]) -> Vec<Use<'a>> {
    let active = view.active().map(|(_, job)| job).filter(|job| job.is_active_and_kept() && view.reaches(job));
    let mut uses = Vec::new();
    for (job, assignment) in active.filter_map(|job| Some((job, job.assignment()?))) {
        let units = assignment.units().zip(assignment.draw_by_unit());
        let (measures, left) = (assignment.measures, assignment.left());
        let units = units.filter(|((unit, _), _)| !left.contains(&unit.node));
        uses.extend(units.map(|((unit, part), (_, draw))| Use { job, unit, part, draw, measures }));
    }
    for (start, job) in starts.iter().filter_map(|start| Some((start, view.job(start.job)?))) {
        let measures = start.explores || job.request.cap.is_some();
        let units = start.placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)));
        uses.extend(units.map(|(unit, part)| {
            let draw = draw_of_unit(view, job, (unit, part), part.cap);
            Use { job, unit, part, draw, measures }
        }));
    }
    uses
}

/// Returns the units with running jobs, or jobs of `starts`, that can be capped.
pub(super) fn held(view: &View<'_>, starts: &[Start]) -> Vec<SharedUnit> {
    let mut units: BTreeMap<UnitId, SharedUnit> = BTreeMap::new();
    let uses = uses(view, starts);
    for Use { unit: id, part, draw, measures, .. } in &uses {
        let Some((node, unit)) = view.unit(*id) else { continue };
        let Some((low, _)) = node.cap_range(id.unit) else { continue };
        let held = units.entry(*id).or_insert_with(|| SharedUnit {
            unit: *id,
            cores: (unit.cores, 0),
            draw: Power::ZERO,
            floor: Power::ZERO,
            work: Power::ZERO,
            aim: (part.cap, Power::ZERO),
            stays: false,
        });
        held.stays |= measures;
        held.cores.1 += part.cores;
        held.draw += *draw;
        // At the lowest cap the unit has no more power to give, regardless of readings.
        let gives = node.cap(id.unit) != Some(low);
        let floor = low.scaled(i64::from(part.cores), i64::from(unit.cores)).min(*draw);
        held.floor += if gives { floor } else { *draw };
        held.aim.0 = higher(held.aim.0, part.cap);
    }
    for Use { job, unit, part, .. } in uses {
        if let Some(held) = units.get_mut(&unit) {
            let draw = draw_of_unit(view, job, (unit, part), held.aim.0);
            held.aim.1 += draw;
            let factors = view.state().variation.of(&job.request.application);
            held.work += Power::from_mw(factors.factor(unit, None).of_span(Span::from_ms(draw.mw())).ms());
        }
    }
    units.into_values().collect()
}

/// Returns the draw of starts on those of their units that `counts` accepts.
pub(super) fn draw_of_starts(view: &View<'_>, starts: &[Start], counts: impl Fn(UnitId) -> bool) -> Power {
    let of_start = |start: &Start| {
        let job = view.job(start.job)?;
        let units = start.placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part)));
        let units = units.filter(|(unit, _)| counts(*unit));
        Some(units.map(|(unit, part)| draw_of_unit(view, job, (unit, part), part.cap)).sum::<Power>())
    };
    starts.iter().filter_map(of_start).sum()
}

/// Returns the draw of a job on one of its units at `cap`, as if it were not suspended.
pub(super) fn draw_of_unit(view: &View<'_>, job: &Job, (unit, part): (UnitId, &Part), cap: Option<Power>) -> Power {
    let part = Part { unit, ..*part };
    expected(view.state(), job, (&job.request, &part), cap).map(|estimate| estimate.power).unwrap_or_default()
}

impl SharedUnit {
    /// Returns the cap at which its jobs draw at most `draw`, within the unit's range.
    pub fn cap_for(&self, view: &View<'_>, draw: Power) -> Option<Power> {
        let (low, high) = view.node(self.unit.node)?.cap_range(self.unit.unit)?;
        let cap = draw.mw().saturating_mul(i64::from(self.cores.0)) / i64::from(self.cores.1.max(1));
        Some(Power::from_mw(cap).max(low).min(high))
    }

    /// Returns a cap for that draw below the present one. If readings show a higher draw than that cap allows, it is
    /// lowered in proportion.
    pub fn lower_cap_for(&self, view: &View<'_>, draw: Power) -> Option<Power> {
        let (low, cap) = (view.node(self.unit.node)?.cap_range(self.unit.unit)?.0, self.cap_for(view, draw)?);
        let Some(current) = cap_of(view, self.unit) else { return Some(cap) };
        let lower = current.scaled(draw.mw(), self.draw.mw().max(1)).max(low);
        Some(if cap < current { cap } else { lower }).filter(|cap| *cap < current)
    }

    /// Returns the highest cap that it gets: that with which its jobs were started; below the band, usually none.
    pub fn highest(&self, below: bool) -> Option<Power> {
        self.aim.0.filter(|_| !below || self.stays)
    }

    /// Returns the draw of its jobs at this cap.
    pub fn aim_draw(&self, view: &View<'_>, below: bool) -> Power {
        if !below || self.stays {
            return self.aim.1;
        }
        let jobs = view.cluster().jobs_on(self.unit.node).into_iter().filter_map(|id| view.job(id));
        let draws = jobs.filter(|job| job.is_active_and_kept()).flat_map(|job| {
            let units = job.assignment().into_iter().flat_map(Assignment::units);
            units.filter(|(unit, _)| *unit == self.unit).map(move |of| draw_of_unit(view, job, of, None))
        });
        draws.sum()
    }
}
