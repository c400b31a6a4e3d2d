//! Caps: what the master asks is done beside the loop, the newest of it only, and answered. Without a master for longer
//! than the lease, what was there before any cap is put back.

use std::sync::PoisonError;
use std::time::Duration;

use limo_model::Power;
use limo_power::Keeper;
use limo_proto::{List, NodeToMaster, Text};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Input, Node};
use crate::caps::{Shared, tell};

/// Units, by index, that do not hold their cap, and why.
type Failed = Vec<(u16, Text<256>)>;

pub(super) struct Caps {
    /// `None` where nothing may be capped.
    keeper: Option<Shared>,
    lease: Duration,
    /// When the lease ends; set while anything may be capped and no master is there.
    lease_end: Option<Instant>,
    /// The highest generation of this connection. The next one begins anew: it may be another master's.
    newest: Option<u64>,
    /// Whether anything was capped since it was put back.
    capping: bool,
    working: bool,
    /// What is to be done next; what was to be done before it is not.
    next: Option<Work>,
    /// What failed last, so that the log says it once.
    failed: Failed,
}

enum Work {
    Cap { generation: u64, caps: Vec<Option<Power>> },
    PutBack,
}

/// What was done.
pub enum Done {
    Capped { generation: u64, failed: Failed },
    PutBack { complete: bool },
}

impl Caps {
    pub(super) fn new(keeper: Option<Shared>, lease: Duration) -> Self {
        let (lease_end, newest, next) = (None, None, None);
        Self { keeper, lease, lease_end, newest, capping: false, working: false, next, failed: Failed::new() }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.lease_end
    }

    /// The master is there; it tells all caps again.
    pub(super) fn registered(&mut self) {
        self.lease_end = None;
        self.newest = None;
    }

    pub(super) fn disconnected(&mut self, now: Instant) {
        if self.capping {
            self.lease_end.get_or_insert(now + self.lease);
        }
    }
}

impl Node {
    /// The master says what each unit may draw.
    pub(super) fn caps(&mut self, generation: u64, caps: Vec<Option<Power>>) {
        if self.caps.newest.is_some_and(|newest| generation < newest) {
            return debug!(generation, "older caps than those that are known");
        }
        self.caps.newest = Some(generation);
        if self.model().is_some() {
            return self.emulated_caps(generation, &caps);
        }
        self.caps.capping = true;
        self.work(Work::Cap { generation, caps });
    }

    fn work(&mut self, work: Work) {
        let (Some(inputs), Some(keeper)) = (self.inputs.upgrade(), self.caps.keeper.clone()) else {
            return self.cannot(work);
        };
        if self.caps.working {
            self.caps.next = Some(work);
            return;
        }
        self.caps.working = true;
        let units: Vec<String> = self.spec.units.iter().map(|unit| unit.name.clone()).collect();
        tokio::task::spawn_blocking(move || {
            // What a panic left in it is still what is to be put back.
            let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            let done = match work {
                Work::Cap { generation, caps } => {
                    Done::Capped { generation, failed: cap_all(&mut keeper, &units, &caps) }
                }
                Work::PutBack => {
                    let failures = keeper.restore();
                    tell(&failures);
                    Done::PutBack { complete: failures.is_empty() }
                }
            };
            drop(keeper);
            // A loop that is gone has ended with the daemon.
            let _ = inputs.blocking_send(Input::Capped(done));
        });
    }

    /// Nothing is capped here, so nothing is put back either.
    fn cannot(&mut self, work: Work) {
        self.caps.capping = false;
        let Work::Cap { generation, caps } = work else { return };
        let reason = "the node does not know what was there before its caps; its log says why";
        let capped = (0..).zip(&caps).filter(|(_, cap)| cap.is_some());
        let failed = capped.map(|(unit, _)| (unit, reason.into())).collect();
        self.send(NodeToMaster::Capped { generation, failed: List::clipped(failed) });
    }

    pub(super) fn capped(&mut self, done: Done) {
        self.caps.working = false;
        match done {
            Done::Capped { generation, failed } => {
                if failed != self.caps.failed {
                    failed.iter().for_each(|(unit, reason)| warn!(unit, %reason, "the unit does not hold its cap"));
                    self.caps.failed.clone_from(&failed);
                }
                debug!(generation, failures = failed.len(), "caps are set");
                self.send(NodeToMaster::Capped { generation, failed: List::clipped(failed) });
            }
            Done::PutBack { complete } => {
                info!(complete, "what was there before the caps is put back");
                // Caps that came meanwhile follow now, and their lease goes by what came after them.
                if self.caps.next.is_none() {
                    // Tried again, unless the master is back and says what it wants.
                    let again = (!complete && !self.is_registered()).then(|| Instant::now() + self.caps.lease);
                    self.caps.capping = !complete;
                    self.caps.lease_end = again;
                }
            }
        }
        if let Some(work) = self.caps.next.take() {
            self.work(work);
        }
    }

    pub(super) fn end_lease(&mut self, now: Instant) {
        if self.caps.lease_end.is_some_and(|end| end <= now) {
            self.caps.lease_end = None;
            warn!("no master for {} s: caps are lifted", self.caps.lease.as_secs());
            self.work(Work::PutBack);
        }
    }
}

/// A unit that is not mentioned has no cap.
fn cap_all(keeper: &mut Keeper, units: &[String], caps: &[Option<Power>]) -> Failed {
    let mut failed = Failed::new();
    for (index, unit) in (0_u16..).zip(units) {
        if let Err(error) = keeper.set(unit, caps.get(usize::from(index)).copied().flatten()) {
            failed.push((index, error.to_string().into()));
        }
    }
    for (index, cap) in (0_u16..).zip(caps).skip(units.len()) {
        if cap.is_some() {
            failed.push((index, format!("the node has no unit {index}: it has {}", units.len()).into()));
        }
    }
    failed
}
