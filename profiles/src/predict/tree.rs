//! Regression trees over binned features, grown by the reduction of squared errors (Breiman et al. 1984), and forests of
//! them over random rows and features (Breiman 2001).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::features::Target;

/// Most bins of a feature.
const BINS: usize = 64;
/// Weight of durations against draws when a split is chosen, both relative to their variances.
const DURATION_WEIGHT: f64 = 0.1;
/// Most rows of which the quantiles of a feature are taken.
const SAMPLE: usize = 10_000;

/// Shape of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Least rows of a leaf.
    pub leaf: usize,
    pub leaves: usize,
    pub depth: usize,
    /// Features that each split considers.
    pub features: usize,
}

/// A node. The children of a split are adjacent, and come after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Node {
    /// [`LEAF`], or the feature that is compared.
    pub feature: u8,
    /// Values up to this one go to the left child.
    pub threshold: f32,
    /// Index of the left child; 0 for a leaf.
    pub left: u32,
    /// Mean of the rows of a leaf.
    pub watts: f32,
    pub duration: f32,
}

pub(super) const LEAF: u8 = u8::MAX;

/// A tree; never empty, and each path ends at a leaf.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree(pub(super) Vec<Node>);

impl Tree {
    /// Returns the draw and the duration, as logarithms.
    pub fn guess(&self, values: &[f32]) -> (f64, f64) {
        let mut node = &self.0[0];
        while node.feature != LEAF {
            let right = values[usize::from(node.feature)] > node.threshold;
            node = &self.0[node.left as usize + usize::from(right)];
        }
        (f64::from(node.watts), f64::from(node.duration))
    }
}

/// Rows to learn from: N features each, and targets.
pub(super) struct Binned {
    /// Upper ends of all bins but the last, by feature.
    cuts: Vec<Vec<f32>>,
    /// Bins by feature and row.
    bins: Vec<Vec<u8>>,
    targets: Vec<Target>,
}

impl Binned {
    /// Bins the rows. There must be at most 2^32 of them.
    pub fn new<const N: usize>(rows: &[[f32; N]], targets: &[Target]) -> Self {
        let step = rows.len().div_ceil(SAMPLE).max(1);
        let cuts: Vec<Vec<f32>> = (0..N).map(|f| cuts(rows.iter().step_by(step).map(|row| row[f]).collect())).collect();
        let bin = |f: usize| rows.iter().map(|row| cuts[f].partition_point(|cut| *cut < row[f]) as u8).collect();
        let bins = (0..N).map(bin).collect();
        Self { cuts, bins, targets: targets.to_vec() }
    }
}

/// Returns at most `BINS - 1` values that divide the sorted ones evenly; equal values share a bin.
fn cuts(mut values: Vec<f32>) -> Vec<f32> {
    values.sort_unstable_by(f32::total_cmp);
    let mut distinct = values.clone();
    distinct.dedup();
    if distinct.len() <= BINS {
        distinct.pop();
        return distinct;
    }
    let mut cuts: Vec<f32> = (1..BINS).map(|part| values[part * (values.len() - 1) / BINS]).collect();
    cuts.dedup();
    cuts
}

/// Sums over rows.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    watts: f64,
    duration: f64,
}

impl Sums {
    fn add(&mut self, target: &Target) {
        self.count += 1.0;
        self.watts += f64::from(target.watts);
        self.duration += f64::from(target.duration);
    }

    fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            watts: self.watts + other.watts,
            duration: self.duration + other.duration,
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            count: self.count - other.count,
            watts: self.watts - other.watts,
            duration: self.duration - other.duration,
        }
    }

    /// Returns how much the squared errors shrink if these rows are told by their mean.
    fn explained(&self, duration_weight: f64) -> f64 {
        (self.watts * self.watts + self.duration * self.duration * duration_weight) / self.count
    }
}

/// A split: gain, feature and the last bin on the left.
type Split = (f64, usize, usize);

struct Grower<'a> {
    rows: &'a Binned,
    shape: Shape,
    /// Weight of squared durations, in units of squared draws.
    duration_weight: f64,
}

impl Grower<'_> {
    fn sums(&self, members: &[u32]) -> Sums {
        let mut sums = Sums::default();
        members.iter().for_each(|row| sums.add(&self.rows.targets[*row as usize]));
        sums
    }

    /// Returns the best split of a feature that leaves enough rows on both sides.
    fn best(&self, members: &[u32], all: Sums, feature: usize) -> Option<Split> {
        let bins = &self.rows.bins[feature];
        let mut histogram = [Sums::default(); BINS];
        for row in members {
            histogram[usize::from(bins[*row as usize])].add(&self.rows.targets[*row as usize]);
        }
        let least = self.shape.leaf as f64;
        let mut left = Sums::default();
        let mut best: Option<Split> = None;
        for (bin, sums) in histogram.iter().enumerate().take(self.rows.cuts[feature].len()) {
            left = left.plus(*sums);
            let right = all.less(left);
            if sums.count == 0.0 || left.count < least || right.count < least {
                continue;
            }
            let gain = left.explained(self.duration_weight) + right.explained(self.duration_weight);
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, feature, bin));
            }
        }
        best
    }

    /// Chooses among random features.
    fn split(&self, members: &[u32], all: Sums, draw: &mut Xoshiro256PlusPlus) -> Option<Split> {
        if members.len() < 2 * self.shape.leaf {
            return None;
        }
        let mut order: Vec<usize> = (0..self.rows.bins.len()).collect();
        let mut best: Option<Split> = None;
        for taken in 0..self.shape.features.min(order.len()) {
            let other = taken + below(draw, order.len() - taken);
            order.swap(taken, other);
            let found = self.best(members, all, order[taken]);
            if let Some(found) = found.filter(|found| best.is_none_or(|best| found.0 > best.0)) {
                best = Some(found);
            }
        }
        // A gain that is only a rounding error divides equal rows.
        let least = all.explained(self.duration_weight) + 1e-9 * all.count;
        best.filter(|best| best.0 > least)
    }
}

/// Draws a number below `limit`, which is at least 1.
fn below(draw: &mut Xoshiro256PlusPlus, limit: usize) -> usize {
    ((u128::from(draw.next_u64()) * limit as u128) >> 64) as usize
}

fn variance(rows: &Binned, members: &[u32], of: fn(&Target) -> f32) -> f64 {
    let values = || members.iter().map(|row| f64::from(of(&rows.targets[*row as usize])));
    let mean = values().sum::<f64>() / members.len() as f64;
    values().map(|value| (value - mean) * (value - mean)).sum::<f64>() / members.len() as f64
}

/// Grows a tree for the rows `members`, of which there is at least one.
pub(super) fn grow(rows: &Binned, members: &mut [u32], shape: Shape, draw: &mut Xoshiro256PlusPlus) -> Tree {
    let watts = variance(rows, members, |target| target.watts);
    let duration = variance(rows, members, |target| target.duration);
    let duration_weight = if duration > 1e-12 { DURATION_WEIGHT * watts / duration } else { 0.0 };
    let grower = Grower { rows, shape, duration_weight };
    let mut nodes = vec![leaf(grower.sums(members))];
    let mut leaves = 1;
    // Level by level, so that the limit of leaves cuts the lowest ones.
    let mut open = std::collections::VecDeque::from([(0_usize, 0_usize, members.len(), 0_usize)]);
    while let Some((node, from, to, depth)) = open.pop_front() {
        if leaves == shape.leaves || depth == shape.depth {
            continue;
        }
        let part = &mut members[from..to];
        let all = grower.sums(part);
        let Some((_, feature, bin)) = grower.split(part, all, draw) else { continue };
        let bins = &rows.bins[feature];
        let middle = partition(part, |row| usize::from(bins[row as usize]) <= bin);
        let (left, right) = part.split_at(middle);
        let first = nodes.len();
        nodes.extend([leaf(grower.sums(left)), leaf(grower.sums(right))]);
        nodes[node] = Node {
            // There are fewer features than that, and fewer nodes than 2^32.
            feature: feature as u8,
            threshold: rows.cuts[feature][bin],
            left: first as u32,
            watts: 0.0,
            duration: 0.0,
        };
        leaves += 1;
        open.extend([(first, from, from + middle, depth + 1), (first + 1, from + middle, to, depth + 1)]);
    }
    Tree(nodes)
}

fn leaf(sums: Sums) -> Node {
    let (watts, duration) = ((sums.watts / sums.count) as f32, (sums.duration / sums.count) as f32);
    Node { feature: LEAF, threshold: 0.0, left: 0, watts, duration }
}

/// Moves the rows that are `left` to the front, and returns their number.
fn partition(rows: &mut [u32], left: impl Fn(u32) -> bool) -> usize {
    let mut count = 0;
    for index in 0..rows.len() {
        if left(rows[index]) {
            rows.swap(index, count);
            count += 1;
        }
    }
    count
}

/// Grows `count` trees, each of `sample` random rows; fewer than one row give no tree. Stops before the next tree if
/// `is_stopped` returns true.
pub(super) fn forest(
    rows: &Binned,
    (count, sample): (usize, usize),
    shape: Shape,
    seed: u64,
    is_stopped: &dyn Fn() -> bool,
) -> Vec<Tree> {
    let all = rows.targets.len();
    if all == 0 {
        return Vec::new();
    }
    let mut draw = Xoshiro256PlusPlus::seed_from_u64(seed);
    let tree = |_| {
        let mut members: Vec<u32> = (0..sample.clamp(1, all)).map(|_| below(&mut draw, all) as u32).collect();
        members.sort_unstable();
        grow(rows, &mut members, shape, &mut draw)
    };
    (0..count).take_while(|_| !is_stopped()).map(tree).collect()
}

/// Returns the mean of the trees; `None` without any.
pub(super) fn guess(forest: &[Tree], values: &[f32]) -> Option<(f64, f64)> {
    let count = forest.len() as f64;
    let sum = forest.iter().map(|tree| tree.guess(values)).reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
    Some((sum.0 / count, sum.1 / count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Shape = Shape { leaf: 1, leaves: 64, depth: 8, features: 2 };

    fn target(watts: f32) -> Target {
        Target { watts, peak: 0.0, duration: 2.0 * watts }
    }

    #[test]
    fn a_step_is_found() {
        // The second feature is noise: the first one alone tells the target.
        let rows: Vec<[f32; 2]> = (0..100).map(|i| [i as f32, (i % 7) as f32]).collect();
        let targets: Vec<Target> = (0..100).map(|i| target(if i < 40 { 1.0 } else { 3.0 })).collect();
        let mut members: Vec<u32> = (0..100).collect();
        let shape = Shape { leaf: 1, leaves: 2, depth: 1, features: 2 };
        let tree = grow(&Binned::new(&rows, &targets), &mut members, shape, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        // The cuts are quantiles, so the step is found within a bin, which has at most two rows.
        let near = |x: f32, watts: f64| (tree.guess(&[x, 0.0]).0 - watts).abs() < 0.1;
        assert!(near(38.0, 1.0) && near(42.0, 3.0), "{tree:?}");
        assert_eq!(tree.0.len(), 3);
    }

    #[test]
    fn equal_rows_make_one_leaf() {
        let rows: Vec<[f32; 2]> = (0..50).map(|i| [i as f32, 0.0]).collect();
        let targets = vec![target(1.5); 50];
        let trees = forest(&Binned::new(&rows, &targets), (3, 50), PLAIN, 9, &|| false);
        assert!(trees.iter().all(|tree| tree.0.len() == 1));
        assert_eq!(guess(&trees, &[0.0, 0.0]), Some((1.5, 3.0)));
        assert_eq!(guess(&[], &[0.0, 0.0]), None);
    }

    #[test]
    fn the_limits_of_a_tree_hold() {
        let rows: Vec<[f32; 2]> = (0..1_000).map(|i| [i as f32, (i * 7 % 11) as f32]).collect();
        let targets: Vec<Target> = (0..1_000).map(|i| target((i * 37 % 101) as f32)).collect();
        let shape = Shape { leaf: 20, leaves: 10, depth: 8, features: 2 };
        for tree in forest(&Binned::new(&rows, &targets), (4, 1_000), shape, 3, &|| false) {
            assert_eq!(tree.0.iter().filter(|node| node.feature == LEAF).count(), 10);
        }
        let twice = [5, 5].map(|seed| forest(&Binned::new(&rows, &targets), (2, 500), shape, seed, &|| false));
        assert_eq!(twice[0], twice[1]);
    }
}
