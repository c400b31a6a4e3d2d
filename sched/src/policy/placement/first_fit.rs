//! `fifo`: the behaviour of a general-purpose manager, and the baseline of limo-2018, section 4.4.
//!
//! Idea: jobs start in order of submission, each on the first node on which it fits, or on the first nodes on which
//! it fits together. Constraints: cores and memory; no job passes one that waits for resources. Ignores: power,
//! price, deadlines, the speed and efficiency of units. A job without any reachable node does not block other jobs.
//! Cost: for each job up to the first waiting one, one check of each kind of unit, and of the nodes that may be free
//! soonest. No options.

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
