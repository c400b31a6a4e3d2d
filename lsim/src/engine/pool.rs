//! Owners and reboots of the nodes of a pool, as a trace has them.

use limo_model::{NodeId, NodeSessions, SessionSums, Span, Time};

use super::checkpoints::Checkpointing;
use super::sections::Bandwidth;

/// Visit of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerVisit {
    pub login: Time,
    pub logout: Time,
    pub node: NodeId,
}

/// Daily reboot of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyReboot {
    /// Time of the day (UTC).
    pub at: Span,
    /// End of the window, as a time of the day.
    pub until: Span,
    pub node: NodeId,
}

/// Owners and reboots of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visits {
    /// By login.
    pub visits: Vec<OwnerVisit>,
    /// By time of the day.
    pub reboots: Vec<DailyReboot>,
    /// True if a reboot waits for the end of a job.
    pub defers: bool,
    pub checkpointing: Option<Checkpointing>,
    /// Rate of transfers of a computer; without it they take no time.
    pub bandwidth: Option<Bandwidth>,
}

impl Visits {
    /// Returns the sums of the sessions of each node, with the gaps from `start` on and until the last logout of all.
    pub fn sums(&self, nodes: usize, start: Time) -> Vec<NodeSessions> {
        let end = self.visits.iter().map(|visit| visit.logout).max().unwrap_or(start);
        let mut all: Vec<(SessionSums, Time)> = vec![(SessionSums::default(), start); nodes];
        for visit in &self.visits {
            if let Some((sums, free)) = all.get_mut(visit.node.0 as usize) {
                sums.add_gap(visit.login - *free);
                sums.add_session(visit.logout - visit.login);
                *free = visit.logout.max(*free);
            }
        }
        let of_node = |(node, (mut sums, free)): (u32, (SessionSums, Time))| {
            sums.add_gap(end - free);
            NodeSessions { node: NodeId(node), sums }
        };
        (0..).zip(all).map(of_node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_gaps_of_nodes() {
        let at = |secs: i64| Time::from_unix_ms(secs * 1_000);
        let visit = |login, logout, node| OwnerVisit { login: at(login), logout: at(logout), node: NodeId(node) };
        let visits = vec![visit(10, 30, 0), visit(40, 45, 0), visit(40, 100, 1)];
        let visits = Visits { visits, ..Visits::default() };
        let sums: Vec<_> = visits.sums(3, at(10)).iter().map(|of| of.sums).collect();
        let seconds = Span::from_secs;
        // The first visit begins at once, so that no gap is before it; the last logout of all is at 100 s.
        let expected = [(2, 25, 2, 65), (1, 60, 1, 30), (0, 0, 1, 90)];
        for (sums, (sessions, used, gaps, free)) in sums.iter().zip(expected) {
            assert_eq!(
                (sums.sessions, sums.used, sums.gaps, sums.free),
                (sessions, seconds(used), gaps, seconds(free))
            );
        }
    }
}
