//! Good and wasted work of a pool's jobs (htc-sim-2015, section III-H).

use limo_model::{Eviction, Power, Span};

use super::checkpoints::CheckpointedRun;
use super::ledger::Spent;
use super::{Load, PoolFigures, Run, Simulation};
use crate::record::Sink;

/// Running time of jobs for a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunTime {
    /// Number of completed jobs, of evictions or of checkpoints.
    pub count: u64,
    pub spent: Spent,
}

impl RunTime {
    fn add(&mut self, count: u64, span: Span, draw: Power) {
        self.count += count;
        self.spent.span = self.spent.span + span;
        self.spent.uj += i128::from(draw.mw()) * i128::from(span.ms());
    }
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    /// Counts the work of a completed job, whose earlier attempts kept `kept`.
    pub fn count_good(&mut self, run: &Run, kept: Span) {
        let (worked, made) = (run.worked(self.now), run.made());
        if let Some((figures, busy)) = self.figures_of(run) {
            figures.good.add(1, worked - made.cost + kept, busy);
            figures.checkpoints.add(made.checkpoints.unsigned_abs(), made.cost, busy);
        }
    }

    /// Counts an attempt that was evicted after `worked`. Its job does not repeat what its checkpoints have kept, unless it
    /// is given up: then `kept` of earlier attempts is lost, too.
    pub fn count_evicted(
        &mut self,
        run: &Run,
        why: Eviction,
        (worked, made): (Span, CheckpointedRun),
        lost: Option<Span>,
    ) {
        if let Some((figures, busy)) = self.figures_of(run) {
            let again = lost.map_or(worked - made.cost - made.kept, |kept| worked - made.cost + kept);
            figures.wasted[why as usize].add(1, again, busy);
            figures.checkpoints.add(made.checkpoints.unsigned_abs(), made.cost, busy);
            figures.given_up += u64::from(lost.is_some());
        }
    }

    fn figures_of(&mut self, run: &Run) -> Option<(&mut PoolFigures, Power)> {
        let (visiting, part) = self.visiting.as_mut().zip(run.placement.first())?;
        let busy = visiting.ledger.busy(part.unit.node);
        Some((&mut visiting.figures, busy))
    }
}
