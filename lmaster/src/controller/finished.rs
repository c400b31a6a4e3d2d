//! Records of a finished job: its row in the journal, and its contribution to profiles and predictions.

use limo_journal::FinishedRow;
use limo_model::{JobEnd, Outcome, Part, Request, Span, StopReason, UnitId, UnitSpec};
use limo_profiles::predict::{ExpectedDraw, FinishedJob};
use limo_profiles::statistics::SURE;
use limo_proto::JobReport;
use limo_sched::{Finished, Node, OnHardware};

use super::{Lesson, Live};
use crate::predictor::features;

/// Returns the row of a finished job in the journal.
pub(super) fn row(finished: &Finished, report: &JobReport, text: String) -> FinishedRow {
    FinishedRow {
        job: finished.job,
        user: report.user.clone(),
        name: report.name.clone(),
        application: report.application.clone(),
        state: report.state.name().to_owned(),
        submitted: report.submitted,
        // Tasks have their own rows, so arrays are in no sum. The energy of steps is part of their jobs'.
        started: report.started.filter(|_| finished.tasks.is_none() && report.step.is_none()),
        ended: report.ended.unwrap_or_default(),
        energy: finished.account.energy,
        cost: finished.account.cost,
        start_now_cost: finished.account.start_now_cost,
        emulated: report.emulated,
        measured: report.measured,
        report: text,
        step_of: report.step.map(|(of, _)| of),
    }
}

/// Returns the part and the unit of a run whose measurement is of one unit: it was on one, under one cap and without a
/// pause, and ended well by itself.
fn sole_unit<'a>(finished: &'a Finished, nodes: &'a [Node]) -> Option<(&'a Part, &'a UnitSpec)> {
    equal_units(finished, nodes).filter(|(part, _)| finished.placement.len() == 1 && part.count == 1)
}

/// Returns the first part and the unit of a run whose measurement is of equal units, one on each of its nodes: it was
/// under one cap and without a pause, and ended well by itself.
fn equal_units<'a>(finished: &'a Finished, nodes: &'a [Node]) -> Option<(&'a Part, &'a UnitSpec)> {
    let JobEnd::Ran { outcome: Outcome::Exited(0), stopped: None::<StopReason> } = &finished.end else { return None };
    let unit = |id: UnitId| nodes.get(id.node.0 as usize)?.spec().units.get(usize::from(id.unit));
    let parts = finished.placement.as_slice();
    let (part, first) = parts.first().and_then(|part| Some((part, unit(part.unit)?)))?;
    let is_same = |of: &Part| (of.cores, of.cap) == (part.cores, part.cap);
    let is_like = |id: UnitId| unit(id).is_some_and(|of| (of.kind, &of.hardware) == (first.kind, &first.hardware));
    let is_even = parts.len() == 1 && part.count == 1
        || limo_model::nodes(parts).count() == limo_model::width(parts) as usize
            && parts.iter().all(|of| is_same(of) && of.units().all(is_like));
    (finished.steady && is_even).then_some((part, first))
}

/// Returns the number of chunks of a run on one unit. Profiles and predictions are of one chunk.
fn chunks(finished: &Finished, request: &Request) -> u32 {
    request.chunks_by_node(&finished.placement).first().copied().unwrap_or(1).max(1)
}

/// Returns the lesson of a run of a known application with measured energy. The runs of moldable jobs are learned for each
/// number of nodes.
pub(super) fn lesson(finished: &Finished, request: &Request, nodes: &[Node]) -> Option<Lesson> {
    let width = request.widths.map(|_| request.nodes.get());
    let measured = if width.is_some() { equal_units(finished, nodes) } else { sole_unit(finished, nodes) };
    let (part, unit) = measured?;
    if request.application == limo_model::application::UNKNOWN {
        return None;
    }
    let chunks = chunks(finished, request);
    let key = limo_model::ProfileKey {
        application: request.application.clone(),
        size: request.size.clone(),
        hardware: unit.hardware.clone(),
        cores: Some(part.cores / chunks),
        nodes: width,
        cap: part.cap,
    };
    let (duration, energy) =
        (finished.usage.elapsed, finished.usage.energy?.scaled(1, i64::from(chunks * width.unwrap_or(1))));
    let confidence = finished.usage.confidence;
    let unit = (width.unwrap_or(1) == 1).then_some(part.unit);
    (duration > Span::ZERO).then_some(Lesson { job: finished.job, key, unit, duration, energy, confidence })
}

/// A finished job from which the predictor learns.
#[derive(Debug)]
pub(super) struct Observation {
    pub row: FinishedJob,
    /// The prediction that was recorded when it was submitted.
    pub expected: Option<ExpectedDraw>,
}

/// Returns what the predictor learns from a run without a cap whose energy is surely its own. The highest draw is not
/// measured.
pub(super) fn observed(
    finished: &Finished,
    live: &Live,
    (report, nodes): (&JobReport, &[Node]),
) -> Option<Observation> {
    let (part, unit) = sole_unit(finished, nodes)?;
    let (request, usage) = (&live.request.on(&finished.placement), &finished.usage);
    if part.cap.is_some() || usage.confidence < SURE || usage.elapsed <= Span::ZERO {
        return None;
    }
    let mean = usage.energy?.over(usage.elapsed).scaled(1, i64::from(chunks(finished, request)));
    let on = OnHardware::of(request, unit);
    let predicted = request.predicted.iter().find(|of| of.hardware == on.hardware && of.cores == on.cores);
    let row = FinishedJob {
        features: features(request, &on, (live.launch.array.is_some(), report.submitted)),
        mean,
        peak: mean,
        nameplate: unit.nameplate.scaled(i64::from(on.cores), i64::from(unit.cores)),
        duration: usage.elapsed,
        submitted: report.submitted,
        ended: report.ended?,
    };
    let expected = predicted.map(ExpectedDraw::from);
    Some(Observation { row, expected })
}
