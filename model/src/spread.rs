//! The tasks of a job and their distribution over its nodes. A task is one process that runs the job's command.
//!
//! Spread tasks are dealt in blocks: the first nodes get the first tasks, and one more if their number does not divide
//! evenly. Each packed task is a chunk of its own. A policy chooses the nodes.

use std::num::NonZeroU32;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chunk::{Arrange, Cores};
use crate::job::Request;
use crate::placement::{Part, nodes};
use crate::widths::Widths;

/// Most tasks of one job: a node keeps two pipes open for each of its tasks.
const SPREAD_LIMIT: u32 = 100_000;

/// The wishes of a user for a job of several tasks. The nodes and the cores of its [`Request`] follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Spread {
    /// Number of tasks on all nodes together, 1 to 100,000.
    pub tasks: NonZeroU32,
    /// Cores of each task.
    pub cores: Cores,
    /// Number of nodes; if unset, as few as the tasks fit on.
    pub nodes: Option<NonZeroU32>,
    /// Most tasks on one node.
    pub per_node: Option<NonZeroU32>,
}

/// Reason why tasks cannot be distributed over nodes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SpreadError {
    #[error("{tasks} tasks are too many: the limit is {SPREAD_LIMIT}")]
    TooMany { tasks: u32 },
    #[error("{nodes} nodes for {tasks} tasks: each node needs one")]
    IdleNodes { nodes: u32, tasks: u32 },
    #[error("{tasks} tasks on {nodes} nodes are {on_one} on one of them: at most {per_node} were asked for")]
    Crowded { tasks: u32, nodes: u32, on_one: u32, per_node: u32 },
    #[error("packed tasks go to as many nodes as have room: neither nodes nor tasks per node can be asked for")]
    Packed,
    #[error("{tasks} tasks of {cores} cores do not fit: the {nodes} nodes that the job may use have {offered} cores")]
    NoRoom { tasks: u32, cores: Cores, nodes: usize, offered: u64 },
}

impl Spread {
    /// Returns the number of tasks of the node at `index` of `nodes`.
    fn tasks_on(self, nodes: u32, index: u32) -> Range<u32> {
        let (each, more) = (self.tasks.get() / nodes.max(1), self.tasks.get() % nodes.max(1));
        let first = index * each + index.min(more);
        first..first + each + u32::from(index < more)
    }

    /// Returns the most tasks on one of `nodes`.
    fn on_one(self, nodes: u32) -> u32 {
        self.tasks.get().div_ceil(nodes)
    }

    /// Returns the cores of a node for its tasks. With all cores of each node, its tasks share them.
    pub(crate) fn cores_on_one(self, nodes: u32) -> Cores {
        match self.cores {
            Cores::All => Cores::All,
            Cores::Count(cores) => {
                Cores::Count(cores.saturating_mul(NonZeroU32::new(self.on_one(nodes)).unwrap_or(cores)))
            }
        }
    }

    fn check(self, nodes: NonZeroU32) -> Result<NonZeroU32, SpreadError> {
        let (tasks, on_one) = (self.tasks.get(), self.on_one(nodes.get()));
        match self.per_node {
            _ if nodes.get() > tasks => Err(SpreadError::IdleNodes { nodes: nodes.get(), tasks }),
            Some(per_node) if on_one > per_node.get() => {
                Err(SpreadError::Crowded { tasks, nodes: nodes.get(), on_one, per_node: per_node.get() })
            }
            _ => Ok(nodes),
        }
    }

    /// Returns the number of nodes for the tasks. `offered` returns the cores of each suitable node; without one, none are
    /// known.
    ///
    /// # Errors
    /// [`SpreadError`].
    pub fn width(self, offered: impl FnOnce() -> Vec<u32>) -> Result<NonZeroU32, SpreadError> {
        let tasks = self.tasks.get();
        if tasks > SPREAD_LIMIT {
            return Err(SpreadError::TooMany { tasks });
        }
        let least = self.per_node.map_or(1, |per_node| tasks.div_ceil(per_node.get()));
        let least = NonZeroU32::new(least).unwrap_or(NonZeroU32::MIN);
        if let Some(nodes) = self.nodes {
            return self.check(nodes);
        }
        let Cores::Count(cores) = self.cores else { return Ok(least) };
        let mut offered = offered();
        if offered.is_empty() {
            return Ok(least);
        }
        offered.sort_unstable_by(|a, b| b.cmp(a));
        let fits = |(smallest, nodes): (&u32, u32)| {
            let needed = u64::from(self.on_one(nodes)) * u64::from(cores.get());
            (nodes >= least.get() && needed <= u64::from(*smallest)).then(|| NonZeroU32::new(nodes)).flatten()
        };
        offered.iter().zip(1..=tasks).find_map(fits).ok_or_else(|| SpreadError::NoRoom {
            tasks,
            cores: self.cores,
            nodes: offered.len(),
            offered: offered.iter().map(|cores| u64::from(*cores)).sum(),
        })
    }
}

impl Request {
    /// Fixes the number of chunks and the cores of each from the wishes for its tasks: a spread job has a chunk on each
    /// node for the tasks there, a packed one a chunk for each task. `offered` returns the cores of each suitable node; it
    /// is called only for tasks without a number of nodes.
    ///
    /// # Errors
    /// [`SpreadError`].
    pub fn settle(&mut self, offered: impl FnOnce(&Self) -> Vec<u32>) -> Result<(), SpreadError> {
        let Some(spread) = self.spread else { return Ok(()) };
        if let Some(widths) = self.widths {
            return self.settle_widths(spread, widths, offered);
        }
        match self.arrange {
            Arrange::Spread => {
                self.nodes = spread.width(|| offered(self))?;
                self.cores = spread.cores_on_one(self.nodes.get());
            }
            Arrange::Pack if spread.nodes.is_some() || spread.per_node.is_some() => return Err(SpreadError::Packed),
            Arrange::Pack if spread.tasks.get() > SPREAD_LIMIT => {
                return Err(SpreadError::TooMany { tasks: spread.tasks.get() });
            }
            Arrange::Pack => (self.nodes, self.cores) = (spread.tasks, spread.cores),
        }
        Ok(())
    }

    /// Checks the tasks at both ends of a range of nodes, and fixes the chunks for the least number of them. A given number
    /// of tasks raises it to the least number on which they fit.
    fn settle_widths(
        &mut self,
        spread: Spread,
        widths: Widths,
        offered: impl FnOnce(&Self) -> Vec<u32>,
    ) -> Result<(), SpreadError> {
        if self.is_packed() {
            return Err(SpreadError::Packed);
        }
        let fitting = || Spread { nodes: None, ..spread }.width(|| offered(self));
        let fitting = if widths.tasks_per_node.is_none() { fitting()? } else { widths.least };
        let least = widths.least.max(fitting).min(widths.most);
        self.widths = Some(Widths { least, ..widths });
        for nodes in [widths.most, least] {
            *self = self.at_width(nodes);
            self.spread.map(|spread| spread.width(Vec::new)).transpose()?;
        }
        Ok(())
    }

    /// Returns the tasks on each node of a placement, in ascending order of nodes; `None` for one plain task.
    pub fn tasks_by_node(&self, placement: &[Part]) -> Option<Vec<Range<u32>>> {
        let spread = self.spread?;
        if self.arrange == Arrange::Spread {
            let width = u32::try_from(nodes(placement).count()).unwrap_or(u32::MAX);
            return Some((0..width).map(|index| spread.tasks_on(width, index)).collect());
        }
        let mut first = 0;
        let on_node = |chunks: u32| {
            let tasks = first..first + chunks;
            first = tasks.end;
            tasks
        };
        Some(self.chunks_by_node(placement).into_iter().map(on_node).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{NodeId, UnitId};
    use crate::memory::Memory;

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("at least one")
    }

    fn spread(tasks: u32, cores: u32) -> Spread {
        Spread { tasks: count(tasks), cores: Cores::Count(count(cores)), nodes: None, per_node: None }
    }

    #[test]
    fn tasks_are_dealt_in_blocks() {
        let dealt = |tasks, nodes| (0..nodes).map(|index| spread(tasks, 1).tasks_on(nodes, index)).collect::<Vec<_>>();
        assert_eq!(dealt(7, 3), [0..3, 3..5, 5..7]);
        assert_eq!(dealt(4, 2), [0..2, 2..4]);
        assert_eq!(spread(3, 1).tasks_on(1, 0), 0..3);
    }

    #[test]
    fn packed_tasks_are_where_their_chunks_are() {
        let part = |node: u32, count: u32, cores: u32| {
            let unit = UnitId { node: NodeId(node), unit: 0 };
            Part { unit, count, cores, memory: Memory::ZERO, cap: None }
        };
        let spread = Some(spread(8, 2));
        let mut request = Request { spread, arrange: Arrange::Pack, ..Request::one_core("a") };
        assert_eq!(request.settle(|_| vec![1]), Ok(()));
        assert_eq!((request.nodes.get(), request.cores), (8, Cores::Count(count(2))));
        let tasks = request.tasks_by_node(&[part(5, 1, 8), part(0, 2, 4)]);
        assert_eq!(tasks, Some(vec![0..2, 2..4, 4..8]));
        let in_blocks = Request { arrange: Arrange::Spread, ..request.clone() };
        assert_eq!(in_blocks.tasks_by_node(&[part(0, 3, 6)]), Some(vec![0..3, 3..6, 6..8]));
        assert_eq!(Request { spread: None, ..request.clone() }.tasks_by_node(&[part(0, 1, 1)]), None);
        let refused = |change: fn(&mut Spread)| {
            let mut request = request.clone();
            request.spread.as_mut().map(change);
            request.settle(|_| Vec::new()).expect_err("it cannot be packed")
        };
        assert_eq!(refused(|spread| spread.nodes = Some(count(2))), SpreadError::Packed);
        assert_eq!(refused(|spread| spread.per_node = Some(count(2))), SpreadError::Packed);
        assert_eq!(refused(|spread| spread.tasks = count(100_001)), SpreadError::TooMany { tasks: 100_001 });
    }

    #[test]
    fn as_few_nodes_as_have_room() {
        let check = |spread: Spread, offered: &[u32], expected: Result<(u32, u32), &str>| {
            let mut request = Request { spread: Some(spread), ..Request::one_core("a") };
            let settled = request.settle(|_| offered.to_vec()).map(|()| (request.nodes.get(), request.cores.on(99)));
            assert_eq!(settled.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{spread:?}");
        };
        check(spread(4, 2), &[4, 8], Ok((1, 8)));
        check(spread(5, 2), &[4, 8, 8], Ok((2, 6)));
        // The third node is too small for a share of three, but not for a share of two.
        check(spread(6, 1), &[2, 2, 2], Ok((3, 2)));
        check(spread(4, 1), &[], Ok((1, 4)));
        let no_room = "999 tasks of 1 cores do not fit: the 2 nodes that the job may use have 6 cores";
        check(spread(999, 1), &[4, 2], Err(no_room));
        let on_two = |tasks| Spread { nodes: Some(count(2)), ..spread(tasks, 3) };
        check(on_two(3), &[1], Ok((2, 6)));
        check(on_two(1), &[8, 8], Err("2 nodes for 1 tasks: each node needs one"));
        check(on_two(2), &[8, 8], Ok((2, 3)));
        let few = |tasks| Spread { per_node: Some(count(2)), ..spread(tasks, 1) };
        check(few(5), &[8, 8, 8], Ok((3, 2)));
        let crowded = "6 tasks on 2 nodes are 3 on one of them: at most 2 were asked for";
        check(Spread { nodes: Some(count(2)), ..few(6) }, &[8, 8], Err(crowded));
        check(Spread { nodes: Some(count(2)), ..few(4) }, &[8, 8], Ok((2, 2)));
        let in_range = |tasks, offered: &[u32]| {
            let widths = Some(Widths { least: NonZeroU32::MIN, most: count(4), tasks_per_node: None });
            let mut request = Request { spread: Some(spread(tasks, 2)), widths, ..Request::one_core("a") };
            let settled = request.settle(|_| offered.to_vec()).map(|()| (request.nodes.get(), request.cores.on(99)));
            (settled.map_err(|error| error.to_string()), request.widths.map(|widths| widths.least.get()))
        };
        assert_eq!(in_range(4, &[8, 8, 8]), (Ok((1, 8)), Some(1)));
        assert_eq!(in_range(8, &[8, 8, 8]), (Ok((2, 8)), Some(2)), "16 cores do not fit on one node");
        assert_eq!(in_range(3, &[8]).0, Err("4 nodes for 3 tasks: each node needs one".to_owned()));
        check(Spread { cores: Cores::All, ..spread(6, 1) }, &[2], Ok((1, 99)));
        check(spread(SPREAD_LIMIT, 1), &[], Ok((1, SPREAD_LIMIT)));
        check(spread(SPREAD_LIMIT + 1, 1), &[8], Err("100001 tasks are too many: the limit is 100000"));
    }
}
