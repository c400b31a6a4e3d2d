//! The grid's limits in the controller: what its sources say becomes the limits in force, in the journal, when they change.
//! What the operator set stays known beside them. Which limits hold is decided by [`Arbiter`].

use limo_feeds::grid::{Arbiter, Kept, Mode, Report, Word, same_from};
use limo_model::{Span, Time};
use limo_sched::Event;

use super::Controller;

/// The name under which the journal keeps what the sources said last.
pub const KEPT: &str = "grid";

/// The sources, and what was said of them last.
#[derive(Debug)]
pub struct Grid {
    pub(super) arbiter: Arbiter,
    /// Of the wall clock that tells the arbiter's times.
    offset: Span,
    /// What the journal was given last; `None` if that may not be there.
    kept: Option<Kept>,
    /// Of each source what the log says of it, in the order of the configuration.
    logged: Vec<Logged>,
}

/// State of a source in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Logged {
    mode: Option<Mode>,
    fault: Option<String>,
}

impl Grid {
    /// `offset` is that of the wall clock by which `arbiter` was made.
    pub fn new(arbiter: Arbiter, offset: Span) -> Self {
        Self { kept: Some(arbiter.kept()), logged: Vec::new(), offset, arbiter }
    }

    /// The journal went back to an earlier state.
    pub(super) fn forget_kept(&mut self) {
        self.kept = None;
    }

    /// The wall clock has jumped: what was heard is as old as it was.
    pub(super) fn follow_clock(&mut self, offset: Span) {
        self.arbiter.clock_jumped(offset - self.offset);
        self.offset = offset;
    }

    /// Logs what is new.
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
    // The same trouble is told once, however often it is met.
    if let Some(fault) = report.fault.as_ref().filter(|fault| logged.fault.as_ref() != Some(fault)) {
        tracing::warn!(source, fault, "a source of limits is in trouble");
        logged.fault = Some(fault.clone());
    }
    // The return of the heartbeat alone does not end failsafe.
    let kind = |mode: Mode| std::mem::discriminant(&mode);
    if logged.mode.map(kind) == Some(kind(report.mode)) {
        return;
    }
    match report.mode {
        Mode::Ok if logged.mode.is_some() => tracing::info!(source, "a source of limits is heard again"),
        Mode::Ok => {}
        Mode::Stale => tracing::warn!(source, "a source of limits is not heard of any more"),
        Mode::Failsafe { .. } => tracing::warn!(source, "a source of limits is not heard of: its failsafe limit holds"),
    }
    logged.mode = Some(report.mode);
}

impl Controller {
    /// A source has said something, or could not be asked.
    pub(super) fn word(&mut self, source: usize, word: Word) {
        let wall = self.wall();
        self.grid.arbiter.hear(wall, source, word);
        self.follow_grid();
    }

    /// When a source is lost, or something else passes without a word.
    pub(super) fn grid_due(&self) -> Option<Time> {
        self.grid.arbiter.deadline().map(|at| self.core.clock().cluster(at))
    }

    /// What the sources and the operator say now is in force, and what is to be kept is.
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
                Err(error) => tracing::error!(%error, "what was heard of the grid cannot be written"),
            }
        }
        // While there is no state, what follows from this waits until there is one.
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
