//! Caps: the shell sets the newest request of the master, and the node answers. If the master is unreachable for longer
//! than the lease, the original values are restored. Jobs that outlive a daemon keep their caps meanwhile.

use std::time::Duration;

use limo_model::Power;
use limo_proto::{List, NodeToMaster};
use tracing::{debug, info, warn};

use super::Node;
use crate::exchange::{Effect, FailedCaps};
use crate::faults::{self, Fault};

pub(super) struct Caps {
    /// True if anything may be capped.
    may_cap: bool,
    lease: Duration,
    /// End of the lease; set while anything may be capped and the master is unreachable.
    lease_end: Option<Duration>,
    /// Highest generation of this connection. Each connection starts anew, because it may be that of another master.
    newest: Option<u64>,
    /// True if a cap was set since the last restore.
    capping: bool,
    working: bool,
    /// Next work; replaces earlier work that has not begun.
    next: Option<Work>,
    /// Units that failed last, so that the log reports a failure once.
    failed: FailedCaps,
}

enum Work {
    Cap { generation: u64, caps: Vec<Option<Power>> },
    PutBack,
}

impl Caps {
    pub(super) fn new(may_cap: bool, lease: Duration) -> Self {
        let (lease_end, newest, next) = (None, None, None);
        Self { may_cap, lease, lease_end, newest, capping: false, working: false, next, failed: FailedCaps::new() }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.lease_end
    }

    /// Ends the lease, because the master is back and sends all caps again.
    pub(super) fn registered(&mut self) {
        self.lease_end = None;
        self.newest = None;
    }

    pub(super) fn disconnected(&mut self, now: Duration) {
        if self.capping && !faults::has(Fault::CapsKept) {
            self.lease_end.get_or_insert(now + self.lease);
        }
    }
}

impl Node {
    /// Handles caps from the master.
    pub(super) fn caps(&mut self, generation: u64, caps: Vec<Option<Power>>) {
        if self.caps.newest.is_some_and(|newest| generation < newest) {
            return debug!(generation, "these caps are older than the known ones");
        }
        self.caps.newest = Some(generation);
        if self.model().is_some() {
            return self.emulated_caps(generation, &caps);
        }
        self.caps.capping = true;
        self.work(Work::Cap { generation, caps });
    }

    fn work(&mut self, work: Work) {
        if !self.caps.may_cap {
            return self.cannot(work);
        }
        if self.caps.working {
            self.caps.next = Some(work);
            return;
        }
        self.caps.working = true;
        if let (Work::Cap { generation, .. }, true) = (&work, faults::has(Fault::CapsConfirmedEarly)) {
            self.send(NodeToMaster::Capped { generation: *generation, failed: List::default() });
        }
        self.effect(match work {
            Work::Cap { generation, caps } => Effect::SetCaps { generation, caps },
            Work::PutBack => Effect::PutCapsBack,
        });
    }

    /// Answers that nothing can be capped or restored.
    fn cannot(&mut self, work: Work) {
        self.caps.capping = false;
        let Work::Cap { generation, caps } = work else { return };
        let reason = "the node does not know the values before its caps; see its log";
        let capped = (0..).zip(&caps).filter(|(_, cap)| cap.is_some());
        let failed = capped.map(|(unit, _)| (unit, reason.into())).collect();
        self.send(NodeToMaster::Capped { generation, failed: List::clipped(failed) });
    }

    pub(super) fn capped(&mut self, generation: u64, failed: FailedCaps) {
        if failed != self.caps.failed {
            failed.iter().for_each(|(unit, reason)| warn!(unit, %reason, "the unit does not hold its cap"));
            self.caps.failed.clone_from(&failed);
        }
        debug!(generation, failures = failed.len(), "caps are set");
        self.send(NodeToMaster::Capped { generation, failed: List::clipped(failed) });
        self.next_work();
    }

    pub(super) fn caps_put_back(&mut self, complete: bool) {
        info!(complete, "the values before the caps are restored");
        // Caps that arrived meanwhile follow now, with their own lease.
        if self.caps.next.is_none() {
            // A failed restore is retried, unless the master is back and sends its own caps.
            let again = (!complete && !self.is_registered()).then(|| self.now.since + self.caps.lease);
            self.caps.capping = !complete;
            self.caps.lease_end = again;
        }
        self.next_work();
    }

    /// Keeps the caps of an earlier daemon for the jobs that go on, as long as their lease; without any job, it lifts them.
    pub(super) fn resume_caps(&mut self) {
        self.caps.capping = true;
        let go_on = self.has_jobs() && !faults::has(Fault::CapsLifted);
        if go_on { self.caps.disconnected(self.now.since) } else { self.work(Work::PutBack) }
    }

    fn next_work(&mut self) {
        self.caps.working = false;
        if let Some(work) = self.caps.next.take() {
            self.work(work);
        }
    }

    pub(super) fn end_cap_lease(&mut self) {
        if self.caps.lease_end.is_some_and(|end| end <= self.now.since) {
            self.caps.lease_end = None;
            warn!("no master for {} s: caps are lifted", self.caps.lease.as_secs());
            self.work(Work::PutBack);
        }
    }
}
