//! Chunks: the equal sets of resources of which a job consists, and their arrangement on nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::job::Request;
use crate::memory::Memory;
use crate::placement::{Part, nodes};

/// The resources of one chunk, all on one node. A [`crate::Request`] has a number of equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk {
    /// Cores of the CPU. With accelerators it has cores only if `with_cores` is set.
    pub cores: Cores,
    /// True if it has cores next to its accelerators.
    pub with_cores: bool,
    /// Whole accelerators of one type.
    pub accelerators: Option<NonZeroU32>,
    /// Memory; zero if not requested.
    pub memory: Memory,
}

/// The arrangement of the chunks of a job on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrange {
    /// Each chunk is on another node.
    #[default]
    Spread,
    /// A node has as many chunks as the policy finds room for, so their numbers may differ.
    Pack,
}

impl Request {
    /// Returns the resources of each of its chunks.
    pub fn chunk(&self) -> Chunk {
        let Self { cores, with_cores, accelerators, memory, .. } = *self;
        Chunk { cores, with_cores, accelerators, memory }
    }

    /// Returns true if several of its chunks may share a node. A single chunk is placed like a spread one.
    pub fn is_packed(&self) -> bool {
        self.arrange == Arrange::Pack && self.nodes > NonZeroU32::MIN
    }

    /// Returns the number of its chunks on each node of a placement, in ascending order of nodes.
    pub fn chunks_by_node(&self, placement: &[Part]) -> Vec<u32> {
        if !self.is_packed() {
            return nodes(placement).map(|_| 1).collect();
        }
        // By node: the number of its parts, and the cores of the first.
        let mut here: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
        for (part, node) in placement.iter().flat_map(|part| part.nodes().map(move |node| (part, node))) {
            here.entry(node).or_insert((0, part.cores)).0 += 1;
        }
        let chunks = |(parts, cores): (u32, u32)| {
            let chunks = match (self.accelerators, self.cores) {
                (Some(each), _) => parts.saturating_sub(u32::from(self.with_cores)) / each,
                (None, Cores::Count(each)) => cores / each,
                (None, Cores::All) => 1,
            };
            // On an accelerator for which the job brings a variant there is one chunk, whatever its cores.
            chunks.max(1)
        };
        here.into_values().map(chunks).collect()
    }
}

/// Cores of a CPU; an accelerator is always taken whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cores {
    /// This number of cores.
    Count(NonZeroU32),
    /// Every core of the chosen unit.
    All,
}

impl Cores {
    /// Returns the number of cores taken from a unit that has `total`.
    pub fn on(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count.get(),
            Self::All => total,
        }
    }
}

impl FromStr for Cores {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => text
                .parse()
                .map(Self::Count)
                .map_err(|_| format!("`{text}` is not a number of cores: 1 or more, or `all`")),
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::UnitId;

    #[test]
    fn cores() {
        assert_eq!("all".parse::<Cores>().map(|c| c.on(8)), Ok(8));
        assert_eq!("3".parse::<Cores>().map(|c| c.on(8)), Ok(3));
        assert_eq!("0".parse::<Cores>(), Err("`0` is not a number of cores: 1 or more, or `all`".into()));
    }

    #[test]
    fn several_chunks_may_be_packed() {
        let request = |arrange, nodes| Request { arrange, nodes: count(nodes), ..Request::one_core("a") };
        assert!(request(Arrange::Pack, 2).is_packed());
        assert!(!request(Arrange::Pack, 1).is_packed(), "one chunk shares its node with no other of the job");
        assert!(!request(Arrange::Spread, 2).is_packed());
        let chunk = Request { with_cores: true, accelerators: Some(count(3)), ..request(Arrange::Pack, 2) }.chunk();
        assert_eq!((chunk.cores, chunk.with_cores), (Cores::Count(count(1)), true));
        assert_eq!((chunk.accelerators, chunk.memory), (Some(count(3)), Memory::ZERO));
    }

    #[test]
    fn parts_hold_whole_chunks() {
        let part = |node: u32, unit: u16, count: u32, cores: u32| {
            let unit = UnitId { node: NodeId(node), unit };
            Part { unit, count, cores, memory: Memory::ZERO, cap: None }
        };
        let check = |request: &Request, placement: &[Part], expected: &[u32]| {
            assert_eq!(request.chunks_by_node(placement), expected, "{placement:?}");
        };
        let two_cores = Request { cores: Cores::Count(count(2)), nodes: count(9), ..Request::one_core("a") };
        let packed = Request { arrange: Arrange::Pack, ..two_cores.clone() };
        check(&packed, &[part(3, 0, 1, 2), part(0, 0, 2, 6)], &[3, 3, 1]);
        check(&two_cores, &[part(0, 0, 2, 2)], &[1, 1]);
        check(&Request { cores: Cores::All, ..packed.clone() }, &[part(0, 0, 2, 8)], &[1, 1]);
        // An accelerator for which the job brings a variant.
        check(&packed, &[part(0, 1, 1, 1), part(1, 0, 1, 4)], &[1, 2]);
        let gpus = Request { accelerators: Some(count(2)), ..packed };
        let four = [part(0, 1, 1, 1), part(0, 2, 1, 1), part(0, 3, 1, 1), part(0, 4, 1, 1)];
        check(&gpus, &four, &[2]);
        check(&Request { with_cores: true, ..gpus }, &[&four[..], &[part(0, 0, 1, 4)]].concat(), &[2]);
    }

    #[test]
    fn requests_of_older_journals_are_spread() {
        let mut old = serde_json::to_value(Request::one_core("a")).expect("a request is JSON");
        old.as_object_mut().expect("an object").remove("arrange").expect("it is written");
        let read: Request = serde_json::from_value(old).expect("a request");
        assert_eq!(read, Request::one_core("a"));
    }

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("at least one")
    }
}
