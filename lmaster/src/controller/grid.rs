//! The grid's limits in the controller: messages of its sources become the limits in force. The journal records
//! changes of these. The operator's own limits stay known. [`Arbiter`] decides which limits hold.

use limo_feeds::grid::{Arbiter, Kept, Mode, Report, Word, same_from};
use limo_model::{Span, Time};
use limo_sched::Event;

use super::Controller;

/// Name of the sources' last messages in the journal.
pub const KEPT: &str = "grid";

/// The sources, and their last log lines.
#[derive(Debug)]
pub struct Grid {
    pub(super) arbiter: Arbiter,
    /// Offset of the wall clock in the arbiter's times.
    offset: Span,
    /// The last text given to the journal; `None` if the journal may lack it.
    kept: Option<Kept>,
    /// The logged state of each source, in the order of the configuration.
    logged: Vec<Logged>,
}

/// State of a source in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Logged {
    mode: Option<Mode>,
    fault: Option<String>,
}

impl Grid {
    /// Uses the offset of the wall clock at the creation of `arbiter`.
    pub fn new(arbiter: Arbiter, offset: Span) -> Self {
        Self { kept: Some(arbiter.kept()), logged: Vec::new(), offset, arbiter }
    }

    /// Handles a journal that went back to an earlier state.
    pub(super) fn forget_kept(&mut self) {
        self.kept = None;
    }

    /// Handles a jump of the wall clock, which does not change the age of messages.
    pub(super) fn follow_clock(&mut self, offset: Span) {
        self.arbiter.clock_jumped(offset - self.offset);
        self.offset = offset;
    }

    /// Logs changes.
    fn log(&mut self, now: Time) {
        let reports = self.arbiter.reports(now);
        self.logged.resize(reports.len(), Logged::default());
        for (report, logged) in reports.iter().zip(&mut self.logged) {
            report_change(report, logged);
        }
    }
}

fn report_change(report: &Report, logged: &mut Logged) {
    let source = report.name.as_str();
    // Repeated faults are logged once.
    if let Some(fault) = report.fault.as_ref().filter(|fault| logged.fault.as_ref() != Some(fault)) {
        tracing::warn!(source, fault, "a source of limits fails");
        logged.fault = Some(fault.clone());
    }
    // The return of the heartbeat alone does not end failsafe.
    let kind = |mode: Mode| std::mem::discriminant(&mode);
    if logged.mode.map(kind) == Some(kind(report.mode)) {
        return;
    }
    match report.mode {
        Mode::Ok if logged.mode.is_some() => tracing::info!(source, "a source of limits works again"),
        Mode::Ok => {}
        Mode::Stale => tracing::warn!(source, "a source of limits is silent"),
        Mode::Failsafe { .. } => tracing::warn!(source, "a source of limits is silent: its failsafe limit applies"),
    }
    logged.mode = Some(report.mode);
}

impl Controller {
    /// Handles a message of a source, or a failed query.
    pub(super) fn word(&mut self, source: usize, word: Word) {
        let wall = self.wall();
        self.grid.arbiter.hear(wall, source, word);
        self.follow_grid();
    }

    /// Returns the next time at which a source is lost, or anything else changes without a message.
    pub(super) fn grid_due(&self) -> Option<Time> {
        self.grid.arbiter.deadline().map(|at| self.core.clock().cluster(at))
    }

    /// Applies the present limits of the sources and the operator, and keeps the text for a restart.
    pub(super) fn follow_grid(&mut self) {
        if self.grid.arbiter.is_empty() && self.core.settings().own_limits.is_none() {
            return;
        }
        let wall = self.wall();
        self.grid.arbiter.advance(wall);
        self.grid.log(wall);
        let kept = self.grid.arbiter.kept();
        if self.grid.kept.as_ref() != Some(&kept) {
            match serde_json::to_string(&kept) {
                Ok(text) if self.keep(KEPT, &text) => self.grid.kept = Some(kept),
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "the known limits of the grid cannot be written"),
            }
        }
        // Without a state this is postponed until one is available.
        if !self.commits.is_open() {
            return;
        }
        let (settings, clock) = (self.core.settings(), self.core.clock());
        let limits = self.grid.arbiter.curve(wall, &clock.shown_curve(settings.operator_limits()));
        if !same_from(wall, &limits, &clock.shown_curve(&settings.limits)) {
            let band = limits.band(wall);
            tracing::info!(high = %band.high(), low = %band.low(), "the limits in force change");
            self.must(Event::GridLimited { limits });
        }
    }
}
