//! Owners of nodes in a random run: no job runs on a node while its owner is there.

use limo_model::{Beside, OwnerRules, Part, Reboot, SleepAfter, SleepRules, Span, StopReason};
use limo_sched::{Event, Node, Phase, Refused};

use super::Run;

impl Run {
    /// Returns rules that depend on a number; none for half of all numbers.
    pub(super) fn owner_rules(number: i64) -> Option<OwnerRules> {
        let jobs = if number % 6 == 1 { Beside::Run } else { Beside::Suspend };
        let (start_after, evict_after) = (Span::from_secs(number * 3 % 200), Span::from_secs(number * 7 % 300));
        (number % 2 == 1).then_some(OwnerRules { jobs, start_after, evict_after })
    }

    /// Returns rules for the sleep of a group, or none.
    pub(super) fn sleep_rules(number: i64) -> SleepRules {
        let after = match number % 5 {
            0 => Some(SleepAfter::Never),
            1 => Some(SleepAfter::Idle(Span::from_secs(number * 11 % 100))),
            _ => None,
        };
        SleepRules { after, stays: number % 3 == 1 }
    }

    pub(super) fn owner(&mut self, node: u8, comes: bool) -> Result<(), Refused> {
        let node = self.node(node);
        self.world.apply(if comes { Event::OwnerCame { node } } else { Event::OwnerLeft { node } })
    }

    pub(super) fn reboot(&mut self, node: u8, step: u8) -> Result<(), Refused> {
        let node = self.node(node);
        let reboot = match step % 4 {
            0 => None,
            1 => Some(Reboot::Failed { reason: "it has the same boot id".into() }),
            2 if self.world.core.may_reboot(node) => Some(Reboot::Ordered { boot: "boot".into() }),
            _ => Some(Reboot::Wanted { until: self.world.now, evicts: step % 8 > 3 }),
        };
        self.world.apply(Event::Rebooting { node, reboot })
    }

    /// Checks that jobs on nodes whose owners are there stand still, and that only jobs that may run again are evicted.
    pub(super) fn check_owners(&self) {
        let core = &self.world.core;
        let suspends = |node: &Node| node.owner().suspends_since().is_some();
        for (id, job) in core.jobs() {
            let Some(assignment) = job.assignment() else { continue };
            let mut nodes = assignment.placement.iter().flat_map(Part::nodes).filter_map(|node| core.node(node));
            let runs = matches!(job.phase, Phase::Running(..)) && assignment.stop.is_none();
            assert!(!runs || !nodes.any(suspends), "job {id} runs beside an owner: {job:?}");
            let evicted = matches!(assignment.stop, Some((StopReason::Evicted { .. }, _)));
            assert!(!evicted || job.request.may_requeue, "job {id} may not run again: {job:?}");
        }
    }
}
