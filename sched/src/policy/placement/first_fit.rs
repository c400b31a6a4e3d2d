//! `fifo`: the behaviour of a general-purpose manager, and the baseline of limo-2018, section 4.4.
//!
//! Idea: jobs in order of submission, each on the first node with room, or on the first nodes that together have room.
//! Constraints: cores and memory; no job passes one that waits for room. Ignores: power, price, deadlines, the speed
//! and efficiency of units. A job for which no node is up holds no other job back. Cost: for each job up to the first
//! that waits, one check of each kind of unit, and of the nodes that may be free soonest. No options.

use crate::policy::order::{AskedJob, Decision, PlanBuilder};

impl PlanBuilder<'_> {
    pub(in crate::policy) fn first_fit(&self, asked: AskedJob<'_>) -> Decision {
        let now = self.view.now();
        let starts = self.starts(asked.ways, now);
        let first = starts.iter().min_by_key(|found| found.at);
        if let Some(choice) = first.filter(|found| found.at == now).and_then(|found| self.choice(found)) {
            return Decision::Start(choice);
        }
        self.later(asked, first)
    }
}
