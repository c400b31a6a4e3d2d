//! Resources that a running job has used so far. Its nodes read them when a client asks.

use limo_model::{JobId, Memory, Span};
use serde::{Deserialize, Serialize};

/// Asks for the resources that a running job or step has used so far. Nodes without an answer after 5 s are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageQuery(pub JobId);

/// Resources that the processes of an attempt have used on one node, or on several together. Those of a job include its
/// steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveUsage {
    /// CPU time in user mode.
    pub user_cpu: Span,
    /// CPU time in the kernel.
    pub system_cpu: Span,
    /// Present memory; zero if nothing counts it.
    pub memory: Memory,
    /// Most memory until now; zero if nothing counts it.
    pub peak: Memory,
}

/// The answer to a [`UsageQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UsageReport {
    /// Number of nodes on which it runs; 0 if it does not run.
    pub nodes: u32,
    /// Number of nodes that have answered with figures. Nodes without control groups have none.
    pub answered: u32,
    /// Sums over these nodes.
    pub sum: LiveUsage,
    /// Most memory on one of these nodes until now.
    pub most: Memory,
    /// The name of that node; empty without one.
    pub most_on: String,
}

impl UsageReport {
    /// Adds the figures of a node.
    pub fn add(&mut self, node: &str, used: &LiveUsage) {
        let bytes = |a: Memory, b: Memory| Memory::from_bytes(a.bytes().saturating_add(b.bytes()));
        self.answered += 1;
        self.sum.user_cpu = self.sum.user_cpu + used.user_cpu;
        self.sum.system_cpu = self.sum.system_cpu + used.system_cpu;
        self.sum.memory = bytes(self.sum.memory, used.memory);
        self.sum.peak = bytes(self.sum.peak, used.peak);
        if self.most_on.is_empty() || used.peak > self.most {
            (self.most, self.most_on) = (used.peak, node.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_nodes_are_added() {
        let used = |seconds: i64, mib: u64| LiveUsage {
            user_cpu: Span::from_secs(seconds),
            system_cpu: Span::from_secs(1),
            memory: Memory::from_bytes(mib << 20),
            peak: Memory::from_bytes(mib << 21),
        };
        let mut report = UsageReport { nodes: 3, ..UsageReport::default() };
        report.add("n1", &used(2, 10));
        report.add("n2", &used(3, 30));
        report.add("n3", &used(4, 20));
        assert_eq!(
            (report.answered, report.sum.user_cpu, report.sum.system_cpu),
            (3, Span::from_secs(9), Span::from_secs(3))
        );
        assert_eq!((report.sum.memory.bytes() >> 20, report.most.bytes() >> 20), (60, 60));
        assert_eq!(report.most_on, "n2");
    }
}
