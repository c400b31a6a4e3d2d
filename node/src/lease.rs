//! Leases of requeueable jobs. If the master has not answered for too long, the node ends such jobs, because the
//! master may run them elsewhere. The lease begins when the newest answered ping was sent. `lshepherd` has the timer,
//! so that it also expires while this daemon is stopped.

use std::time::Duration;

use limo_model::{Attempt as Number, JobId, Lease, Outcome};
use limo_shepherd::{BootTime, Order, Why};
use tracing::warn;

use super::Node;
use crate::records::End;

/// Attempt with a lease, from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leased {
    number: Number,
    pub(super) lease: Lease,
    /// True if the lease has ended the attempt.
    is_over: bool,
}

impl Leased {
    pub(super) fn new(number: Number, lease: Lease) -> Self {
        Self { number, lease, is_over: false }
    }
}

/// Returns the outcome of an attempt whose lease has expired.
fn outcome(lease: Lease) -> Outcome {
    Outcome::NodeFailed { reason: format!("the node did not hear from the master for {}", lease.span) }
}

/// Converts to milliseconds; 0 if negative.
pub(super) fn ms(span: limo_model::Span) -> u64 {
    u64::try_from(span.ms()).unwrap_or(0)
}

impl Node {
    /// Extends the leases: the master answered a ping or a registration that was sent at `sent`.
    pub(super) fn master_answered(&mut self, sent: Duration) {
        if !self.is_registered() {
            return;
        }
        let age = u64::try_from(self.now.since.saturating_sub(sent).as_millis()).unwrap_or(u64::MAX);
        self.confirmed = self.confirmed.max(Some(BootTime(self.now.boot.0.saturating_sub(age))));
        // All leases are checked at the end of the shortest one.
        let ends = self.leases.values().filter_map(|leased| self.lease_end(leased.lease));
        if let Some(until) = ends.min() {
            self.order(Order::Lease { until });
        }
    }

    /// Returns the end of a lease that begins with the newest answer.
    pub(super) fn lease_end(&self, lease: Lease) -> Option<BootTime> {
        self.confirmed.map(|confirmed| confirmed.plus(ms(lease.span)))
    }

    /// Records the lease of an attempt that may start now. If the lease has expired because `Go` took too long, ends
    /// the attempt without a start.
    pub(super) fn begin_lease(&mut self, job: JobId, number: Number, lease: Option<Lease>) -> bool {
        let Some(lease) = lease else { return true };
        if self.lease_end(lease).is_none_or(|end| end <= self.now.boot) {
            warn!(%job, attempt = %number, lease = %lease.span, "job not started: its lease has expired");
            self.never_runs(job, number, outcome(lease));
            return false;
        }
        self.leases.insert(job, Leased::new(number, lease));
        true
    }

    /// Handles a timer of `lshepherd` that ends a job.
    pub(super) fn lease_ends(&mut self, job: JobId, why: Why) {
        if let Some(leased) = self.leases.get_mut(&job).filter(|_| why == Why::Lease) {
            leased.is_over = true;
            warn!(%job, lease = %leased.lease.span, "job ended: no answer from the master for its lease");
        }
    }

    /// Returns the outcome of a finished attempt. An expired lease takes precedence over the signal that ended it.
    pub(super) fn without_lease(&mut self, job: JobId, number: Number, end: End) -> End {
        match self.leases.get(&job).copied().filter(|leased| leased.number == number) {
            None => end,
            Some(leased) => {
                self.leases.remove(&job);
                if leased.is_over { End { outcome: outcome(leased.lease), ..end } } else { end }
            }
        }
    }
}
