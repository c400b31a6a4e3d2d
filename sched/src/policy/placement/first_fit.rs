//! `fifo`: what a general-purpose manager does, and the baseline of limo-2018, section 4.4.
//!
//! Idea: jobs in order of submission, each on the first node with room, or on the first nodes that have it together.
//! Constraints: cores and memory; nothing passes a job that waits for room. Ignores: power, price, deadlines, how fast or
//! frugal a unit is. A job for which no node is up holds nobody back. Cost: for each job until the first that waits one look
//! at each kind of unit, and at the nodes that may be free soonest. No options.

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
