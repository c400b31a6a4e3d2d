//! The choice of a computer by the naive simulator: the ranks of docs/policies.md, computed anew for each job.

use limo_sched::PoolRank;

use super::cases::CaseGroup;
use super::naive::{NaivePool, NaivePower};

impl NaivePool<'_> {
    /// Returns the free computer that comes first.
    pub fn best(&self, now: i64) -> Option<usize> {
        let free = |node: &usize| {
            let of = &self.nodes[*node];
            let is_free = of.job.is_none() && of.reboots_until.is_none();
            let is_closed = self.owners_of(*node).is_some() && (of.owners > 0 || now < of.closed_until);
            is_free && !is_closed && matches!(of.power, NaivePower::Awake | NaivePower::Asleep)
        };
        let key = |node: &usize| {
            let of = &self.nodes[*node];
            (self.rank(*node, now), of.power == NaivePower::Asleep, self.kind(of.group), of.group, *node)
        };
        (0..self.nodes.len()).filter(free).min_by_key(key)
    }

    /// Returns the first group with computers of the same type. Those whose owners suspend jobs are another type.
    fn kind(&self, group: usize) -> Option<usize> {
        let kind =
            |of: &CaseGroup| (of.owners.is_some_and(|owners| owners.suspends), of.cores, of.active_w - of.idle_w);
        self.case.groups.iter().position(|other| kind(other) == kind(&self.case.groups[group]))
    }

    /// Returns the rank of a computer (htc-sim-2015, section V).
    fn rank(&self, node: usize, now: i64) -> i64 {
        let group = self.nodes[node].group;
        let own = self.case.sessions.iter().filter(|session| session.node == node);
        let of_group = self.case.sessions.iter().filter(|session| self.nodes[session.node].group == group);
        let used = || of_group.clone().map(|session| session.logout - session.login).sum::<i64>();
        match self.case.rank {
            PoolRank::S1 => 0,
            PoolRank::Learned => -self.learned(group, now),
            PoolRank::S2 => self.case.groups[group].active_w,
            PoolRank::S3a => {
                let logins = own.clone().map(|session| session.login);
                let end = self.case.sessions.iter().map(|session| session.logout).max().unwrap_or(self.case.start);
                let free = std::iter::once(self.case.start).chain(own.map(|session| session.logout));
                let gaps: Vec<i64> = logins.chain([end]).zip(free).map(|(until, from)| until - from).collect();
                let gaps: Vec<i64> = gaps.into_iter().filter(|gap| *gap > 0).collect();
                // In microseconds, so that means that differ stay different.
                (gaps.iter().sum::<i64>() * 1_000_000).checked_div(gaps.len() as i64).map_or(i64::MIN, |mean| -mean)
            }
            PoolRank::S3b => own.count() as i64,
            PoolRank::S4 => {
                let of = &self.case.groups[group];
                let open = of.open.iter().rfind(|(from, _)| *from <= now).map_or(of.open.is_empty(), |(_, open)| *open);
                i64::from(of.owners.is_some() && open)
            }
            PoolRank::S5a => used(),
            PoolRank::S5b => (used() * 1_000_000).checked_div(of_group.count() as i64).unwrap_or(0),
            PoolRank::S6 => {
                let begun = |login: i64| now - self.case.window <= login && login < now;
                of_group.filter(|session| begun(session.login)).count() as i64
            }
        }
    }
}
