//! The numbers of nodes among which a moldable job gets one.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::Request;
use crate::placement::{Part, nodes};

/// Most nodes of a range.
pub const WIDTH_LIMIT: u32 = 100_000;

/// The range of nodes of a moldable job. A plan chooses one of these numbers as long as the job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Widths {
    /// Least number of nodes.
    pub least: NonZeroU32,
    /// Largest number of nodes, at most [`WIDTH_LIMIT`].
    pub most: NonZeroU32,
    /// Number of tasks of each node, if the number of tasks follows that of the nodes.
    pub tasks_per_node: Option<NonZeroU32>,
}

/// A number of nodes, or a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRange {
    /// Least number of nodes.
    pub least: NonZeroU32,
    /// Largest number of nodes; equal to the least unless a range is given.
    pub most: NonZeroU32,
}

/// Reason why a text is not a number of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum NodeRangeError {
    #[error("`{0}` is not a number of nodes: write for example `4`, or `2-8` for a range")]
    NotANumber(String),
    #[error("the range {least}-{most} is empty: write `{most}-{least}`")]
    Reversed { least: u32, most: u32 },
    #[error("{0} nodes are too many: a range has at most {WIDTH_LIMIT}")]
    TooMany(u32),
}

impl FromStr for NodeRange {
    type Err = NodeRangeError;

    fn from_str(text: &str) -> Result<Self, NodeRangeError> {
        let number = |part: &str| part.parse().map_err(|_| NodeRangeError::NotANumber(text.to_owned()));
        let Some((least, most)) = text.split_once('-') else {
            let nodes = number(text)?;
            return Ok(Self { least: nodes, most: nodes });
        };
        let (least, most): (NonZeroU32, NonZeroU32) = (number(least)?, number(most)?);
        if least > most {
            return Err(NodeRangeError::Reversed { least: least.get(), most: most.get() });
        }
        if most.get() > WIDTH_LIMIT {
            return Err(NodeRangeError::TooMany(most.get()));
        }
        Ok(Self { least, most })
    }
}

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.least, self.most)
    }
}

impl Widths {
    /// Returns true if the job may have this number of nodes.
    pub fn contains(&self, nodes: u32) -> bool {
        (self.least.get()..=self.most.get()).contains(&nodes)
    }

    /// Returns true if it has a number, and none above [`WIDTH_LIMIT`].
    pub fn is_sound(&self) -> bool {
        self.least <= self.most && self.most.get() <= WIDTH_LIMIT
    }
}

impl Request {
    /// Returns the request of a moldable job for this number of nodes: its tasks are divided among them.
    #[must_use]
    pub fn at_width(&self, nodes: NonZeroU32) -> Self {
        let mut request = Self { nodes, ..self.clone() };
        let each = self.widths.and_then(|widths| widths.tasks_per_node);
        if let Some(spread) = &mut request.spread {
            spread.nodes = Some(nodes);
            if let Some(each) = each {
                spread.tasks = each.saturating_mul(nodes);
            }
            request.cores = spread.cores_on_one(nodes.get());
        }
        request
    }

    /// Returns the request of a job that has this placement: a moldable job has the number of nodes that was chosen.
    pub fn on(&self, placement: &[Part]) -> Cow<'_, Self> {
        let width = || u32::try_from(nodes(placement).count()).ok().and_then(NonZeroU32::new);
        match self.widths.and_then(|_| width()).filter(|nodes| *nodes != self.nodes) {
            Some(nodes) => Cow::Owned(self.at_width(nodes)),
            None => Cow::Borrowed(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Cores;
    use crate::id::{NodeId, UnitId};
    use crate::memory::Memory;
    use crate::spread::Spread;

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("at least one")
    }

    #[test]
    fn ranges_are_read_from_least_to_most() {
        let check = |text: &str, expected: Result<(u32, u32), &str>| {
            let found = text.parse::<NodeRange>().map(|range| (range.least.get(), range.most.get()));
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
        };
        check("4", Ok((4, 4)));
        check("2-8", Ok((2, 8)));
        check("8-8", Ok((8, 8)));
        check("8-2", Err("the range 8-2 is empty: write `2-8`"));
        let hint = "is not a number of nodes: write for example `4`, or `2-8` for a range";
        check("0", Err(&format!("`0` {hint}")));
        check("0-3", Err(&format!("`0-3` {hint}")));
        check("2-", Err(&format!("`2-` {hint}")));
        check("-2", Err(&format!("`-2` {hint}")));
        check("1-2-3", Err(&format!("`1-2-3` {hint}")));
        check("1-100001", Err("100001 nodes are too many: a range has at most 100000"));
    }

    #[test]
    fn tasks_follow_the_number_of_nodes_unless_they_are_given() {
        let range = |each| Some(Widths { least: count(1), most: count(8), tasks_per_node: each });
        let spread = Spread { tasks: count(8), cores: Cores::Count(count(2)), nodes: Some(count(1)), per_node: None };
        let given = Request { spread: Some(spread), widths: range(None), ..Request::one_core("a") };
        let on_three = given.at_width(count(3));
        assert_eq!((on_three.nodes.get(), on_three.cores), (3, Cores::Count(count(6))), "3 of 8 tasks on one node");
        assert_eq!(on_three.spread.map(|spread| (spread.tasks.get(), spread.nodes)), Some((8, Some(count(3)))));
        assert_eq!(on_three.at_width(count(8)).cores, Cores::Count(count(2)));
        let unit = UnitId { node: NodeId(0), unit: 0 };
        let placement = [Part { unit, count: 3, cores: 6, memory: Memory::ZERO, cap: None }];
        assert_eq!(*given.on(&placement), on_three);
        assert_eq!(*given.on(&[]), given, "it has no nodes yet");
        let following = Request { widths: range(Some(count(2))), ..given };
        let on_three = following.at_width(count(3));
        assert_eq!(
            (on_three.cores, on_three.spread.map(|spread| spread.tasks.get())),
            (Cores::Count(count(4)), Some(6))
        );
    }
}
