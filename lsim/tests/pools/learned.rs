//! The rank `learned` of the naive simulator: the value of each group for each hour of the week.

use super::naive::{NaivePhase, NaivePool};

impl NaivePool<'_> {
    /// Returns the learned value of a group for an hour of the week.
    pub fn learned(&self, group: usize, now: i64) -> i64 {
        self.learned.get(&(group, now / 3_600 % 168)).copied().unwrap_or(0)
    }

    /// Learns from an attempt: the seconds that it ran are wasted if it was evicted.
    pub fn learn(&mut self, job: usize, is_evicted: bool) {
        let of = &self.jobs[job];
        let ran = of.moved + of.worked;
        if of.phase != NaivePhase::Assigned && ran > 0 {
            let reward = if is_evicted { -ran } else { ran }.clamp(-3_600, 3_600) * 1_000;
            let (group, hour) = (self.nodes[of.node].group, of.started / 3_600 % 168);
            let value = self.learned.entry((group, hour)).or_default();
            *value += (reward - *value).div_euclid(8);
        }
    }
}
