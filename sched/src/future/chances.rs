//! Times at which resources of nodes become free, in order, to find the first node for a job.
//!
//! They are stored in blocks with the most free resources of each, so that unsuitable blocks are skipped at once.

use limo_model::Time;

/// Number of entries above which a block is divided.
const MOST: usize = 128;

/// A node has `free` cores of its first unit from `at` on, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chance {
    pub at: Time,
    pub node: u32,
    pub free: i64,
}

/// A block, never empty; ordered by times, then nodes.
struct ChanceBlock {
    most: i64,
    all: Vec<Chance>,
}

#[derive(Default)]
pub(crate) struct Chances(Vec<ChanceBlock>);

impl Chance {
    fn key(&self) -> (Time, u32) {
        (self.at, self.node)
    }
}

impl ChanceBlock {
    fn of(all: Vec<Chance>) -> Self {
        let mut block = Self { most: 0, all };
        block.find_most();
        block
    }

    fn find_most(&mut self) {
        self.most = self.all.iter().map(|chance| chance.free).max().unwrap_or(0);
    }
}

impl Chances {
    pub fn of(mut all: Vec<Chance>) -> Self {
        all.sort_unstable_by_key(Chance::key);
        Self(all.chunks(MOST / 2).map(|block| ChanceBlock::of(block.to_vec())).collect())
    }

    /// Notes the free cores of a node from `at` on.
    pub fn set(&mut self, chance: Chance) {
        let at = self.0.partition_point(|block| block.all[0].key() <= chance.key()).saturating_sub(1);
        let Some(block) = self.0.get_mut(at) else {
            self.0.push(ChanceBlock::of(vec![chance]));
            return;
        };
        match block.all.binary_search_by_key(&chance.key(), Chance::key) {
            Ok(index) => block.all[index] = chance,
            Err(index) => block.all.insert(index, chance),
        }
        block.find_most();
        if block.all.len() > MOST {
            let rest = block.all.split_off(MOST / 2);
            block.find_most();
            self.0.insert(at + 1, ChanceBlock::of(rest));
        }
    }

    /// Returns the chances with at least `free` cores.
    pub fn with(&self, free: i64) -> impl Iterator<Item = Chance> {
        let blocks = self.0.iter().filter(move |block| block.most >= free);
        blocks.flat_map(|block| &block.all).copied().filter(move |chance| chance.free >= free)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_map_has_them(
            first in proptest::collection::vec((0..50_i64, 0..9_u32, 0..5_i64), 0..300),
            then in proptest::collection::vec((0..50_i64, 0..9_u32, 0..5_i64), 0..300),
            least in 0..6_i64,
        ) {
            let key = |(at, node, _): &(i64, u32, i64)| (Time::from_unix_ms(*at), *node);
            let mut map: BTreeMap<(Time, u32), i64> = first.iter().map(|of| (key(of), of.2)).collect();
            let chance = |((at, node), free): (&(Time, u32), &i64)| Chance { at: *at, node: *node, free: *free };
            let mut chances = Chances::of(map.iter().map(chance).collect());
            for of in &then {
                map.insert(key(of), of.2);
                let (at, node) = key(of);
                chances.set(Chance { at, node, free: of.2 });
            }
            let expected: Vec<Chance> = map.iter().map(chance).filter(|chance| chance.free >= least).collect();
            prop_assert_eq!(chances.with(least).collect::<Vec<_>>(), expected);
            prop_assert!(chances.0.iter().all(|block| block.all.len() <= MOST));
        }
    }
}
