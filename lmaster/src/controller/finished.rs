//! Records of a finished job: its row in the journal, and its contribution to profiles.

use limo_journal::FinishedRow;
use limo_model::{JobEnd, Span, StopReason};
use limo_proto::JobReport;
use limo_sched::Finished;

use super::Lesson;

/// Returns the row of a finished job in the journal.
pub(super) fn row(finished: &Finished, report: &JobReport, text: String) -> FinishedRow {
    FinishedRow {
        job: finished.job,
        user: report.user.clone(),
        name: report.name.clone(),
        application: report.application.clone(),
        state: report.state.name().to_owned(),
        submitted: report.submitted,
        // Tasks have their own rows, so arrays are in no sum.
        started: report.started.filter(|_| finished.tasks.is_none()),
        ended: report.ended.unwrap_or_default(),
        energy: finished.account.energy,
        cost: finished.account.cost,
        start_now_cost: finished.account.start_now_cost,
        emulated: report.emulated,
        measured: report.measured,
        report: text,
    }
}

/// Returns the lesson of a run. The application must be known, and the run must have been on one unit, under one cap
/// and without a pause. It must have ended well by itself, with measured energy.
pub(super) fn lesson(finished: &Finished, request: &limo_model::Request, nodes: &[limo_sched::Node]) -> Option<Lesson> {
    let JobEnd::Ran { outcome: limo_model::Outcome::Exited(0), stopped: None::<StopReason> } = &finished.end else {
        return None;
    };
    if !finished.steady || request.application == limo_model::application::UNKNOWN {
        return None;
    }
    let [part @ limo_model::Part { count: 1, .. }] = finished.placement.as_slice() else { return None };
    let node = nodes.get(part.unit.node.0 as usize)?;
    let unit = node.spec().units.get(usize::from(part.unit.unit))?;
    // A profile is of one chunk.
    let chunks = request.chunks_by_node(&finished.placement).first().copied().unwrap_or(1).max(1);
    let key = limo_model::ProfileKey {
        application: request.application.clone(),
        size: request.size.clone(),
        hardware: unit.hardware.clone(),
        cores: Some(part.cores / chunks),
        cap: part.cap,
    };
    let (duration, energy) = (finished.usage.elapsed, finished.usage.energy?.scaled(1, i64::from(chunks)));
    let confidence = finished.usage.confidence;
    (duration > Span::ZERO).then_some(Lesson { job: finished.job, key, unit: part.unit, duration, energy, confidence })
}
