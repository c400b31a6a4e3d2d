//! Good and wasted work of a pool's jobs (htc-sim-2015, section III-H).

use limo_model::{Eviction, Power, Span};

use super::ledger::Spent;
use super::sections::{Done, Transfer};
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
    /// Counts the work of a job that ended, whose earlier attempts kept `kept`, and its time in the system beyond its
    /// work.
    pub fn count_ended(&mut self, index: usize, run: &Run, (kept, killed): (Span, bool)) {
        let worked = run.worked(self.now);
        let submitted = self.load.submitted(index).unwrap_or(self.now);
        let overhead = self.now - submitted;
        let Some((figures, busy)) = self.figures_of(run) else { return };
        if killed {
            return figures.removed.add(1, worked, busy);
        }
        let done = run.done(worked);
        figures.good.add(1, done.work + kept, busy);
        figures.count_others(run, done, busy);
        figures.overheads.push((overhead - kept - done.work).ms());
    }

    /// Counts an attempt that was evicted. Its job does not repeat what its checkpoints have kept, unless it is given up:
    /// then `lost` of earlier attempts is lost, too.
    pub fn count_evicted(&mut self, run: &Run, why: Eviction, done: Done, lost: Option<Span>) {
        if let Some((figures, busy)) = self.figures_of(run) {
            let again = lost.map_or(done.work - done.made.kept, |kept| done.work + kept);
            figures.wasted[why as usize].add(1, again, busy);
            figures.count_others(run, done, busy);
            figures.given_up += u64::from(lost.is_some());
        }
    }

    fn figures_of(&mut self, run: &Run) -> Option<(&mut PoolFigures, Power)> {
        let (visiting, part) = self.visiting.as_mut().zip(run.placement.first())?;
        let busy = visiting.ledger.busy(part.unit.node);
        Some((&mut visiting.figures, busy))
    }
}

impl PoolFigures {
    /// Counts the checkpoints and transfers of an attempt.
    fn count_others(&mut self, run: &Run, done: Done, busy: Power) {
        self.checkpoints.add(done.made.checkpoints.unsigned_abs(), done.made.cost, busy);
        self.transfers.add(u64::from(run.sections.transfer != Transfer::default()), done.transferred, busy);
    }
}
