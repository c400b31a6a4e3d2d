//! The grid's limits in the controller: messages of its sources become the limits in force. The journal records
//! changes of these. The operator's own limits stay known. [`Arbiter`] decides which limits hold.

use limo_feeds::grid::{Arbiter, Kept, Mode, Report};
use limo_model::{Span, Time};

/// Name of the sources' last messages in the journal.
pub const KEPT: &str = "grid";

/// The sources, and their last log lines.
#[derive(Debug)]
pub struct Grid {
    pub(super) arbiter: Arbiter,
    /// Offset of the wall clock in the arbiter's times.
    offset: Span,
    /// The last text given to the journal; `None` if the journal may lack it.
    pub(super) kept: Option<Kept>,
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
    pub(super) fn log(&mut self, now: Time) {
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
