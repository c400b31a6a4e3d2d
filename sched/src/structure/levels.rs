//! The nodes of one class by their free cores, for best fit.
//!
//! Positions in the class stand for nodes. For each occurring number of free cores there is the set of the usable
//! positions that have it. An unusable position (asleep, drained, lost) keeps its level, and its cores may be
//! returned, but it is in no set and is never given out. Owners of cores are not stored.

use std::ops::Range;

use super::Bits;

/// Number of sets from which an empty one is reused for another level. Nodes seldom have more cores than this, so in
/// practice each level keeps its set.
const SETS: usize = 260;

/// Free cores per position.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    cores: u32,
    free: Vec<u32>,
    usable: Bits,
    /// Ascending; `sets[i]` holds the usable positions with `levels[i]` free cores. A set stays when it becomes
    /// empty.
    levels: Vec<u32>,
    sets: Vec<Bits>,
    /// Place of each level's set, or `NOWHERE`; only for the levels that nodes have in practice.
    places: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Levels {
    /// Starts without positions, for nodes with this many cores each.
    pub(crate) fn new(cores: u32) -> Self {
        let places = vec![NOWHERE; (cores as usize + 1).min(SETS)];
        Self { cores, free: Vec::new(), usable: Bits::new(0), levels: Vec::new(), sets: Vec::new(), places }
    }

    /// Returns the number of positions, usable or not.
    pub(crate) fn len(&self) -> u32 {
        self.usable.len()
    }

    /// Appends a position with `level` free cores. Panics if a node does not have that many.
    pub(crate) fn push(&mut self, level: u32, usable: bool) {
        assert!(level <= self.cores, "{level} free of {} cores", self.cores);
        let position = self.len();
        self.free.push(level);
        self.usable.grow(position + 1);
        if usable {
            self.usable.insert(position);
            self.set(level).insert(position);
        }
    }

    /// Returns the free cores at each position, and true if it is usable.
    #[cfg(debug_assertions)]
    pub(crate) fn positions(&self) -> Vec<(u32, bool)> {
        (0..self.len()).map(|position| (self.free(position), self.usable.contains(position))).collect()
    }

    /// Returns the free cores at a position, usable or not.
    pub(crate) fn free(&self, position: u32) -> u32 {
        self.free[position as usize]
    }

    /// Returns the usable positions.
    pub(crate) fn usable(&self) -> &Bits {
        &self.usable
    }

    /// Sets if a position is usable. Returns true if that is a change.
    pub(crate) fn set_usable(&mut self, position: u32, usable: bool) -> bool {
        let level = self.free(position);
        if usable {
            return self.usable.insert(position) && self.set(level).insert(position);
        }
        self.usable.remove(position) && self.set(level).remove(position)
    }

    /// Returns the set of a level; makes it if it is missing.
    fn set(&mut self, level: u32) -> &mut Bits {
        let at = match self.places.get(level as usize) {
            Some(at) if *at != NOWHERE => *at as usize,
            _ => self.find_set(level),
        };
        let set = &mut self.sets[at];
        set.grow(self.usable.len());
        set
    }

    #[cold]
    fn find_set(&mut self, level: u32) -> usize {
        self.levels.binary_search(&level).unwrap_or_else(|at| self.make_set(at, level))
    }

    fn make_set(&mut self, mut at: usize, level: u32) -> usize {
        let spare = if self.sets.len() < SETS { None } else { self.sets.iter().position(|set| set.count() == 0) };
        let set = match spare {
            Some(spare) => {
                self.levels.remove(spare);
                at -= usize::from(spare < at);
                self.sets.remove(spare)
            }
            None => Bits::new(self.usable.len()),
        };
        self.levels.insert(at, level);
        self.sets.insert(at, set);
        self.places.fill(NOWHERE);
        for (at, level) in self.levels.iter().enumerate() {
            if let Some(place) = self.places.get_mut(*level as usize) {
                *place = at as u32;
            }
        }
        at
    }

    /// Sets the level of a position, usable or not. Panics if a node does not have that many cores.
    pub(crate) fn put(&mut self, position: u32, level: u32) {
        let before = self.free(position);
        assert!(level <= self.cores, "{level} free of {} cores", self.cores);
        if before != level {
            self.free[position as usize] = level;
            self.move_sets(position..position + 1, before, level);
        }
    }

    /// Takes `cores` at each position of a run, usable or not. Panics if one of them has fewer.
    pub(crate) fn take(&mut self, run: Range<u32>, cores: u32) {
        self.shift(run, |level| level.checked_sub(cores), cores);
    }

    /// Returns `cores` to each position of a run, usable or not. Panics if a position would exceed the cores of a node.
    pub(crate) fn give(&mut self, run: Range<u32>, cores: u32) {
        let most = self.cores;
        self.shift(run, |level| level.checked_add(cores).filter(|level| *level <= most), cores);
    }

    fn shift(&mut self, run: Range<u32>, to: impl Fn(u32) -> Option<u32>, cores: u32) {
        let mut rest = run;
        while !rest.is_empty() && cores > 0 {
            let level = self.free(rest.start);
            let Some(new) = to(level) else { panic!("{cores} cores at position {} with {level} free", rest.start) };
            let piece = self.same_level(rest.clone(), level);
            rest.start = piece.end;
            self.free[piece.start as usize..piece.end as usize].fill(new);
            self.move_sets(piece, level, new);
        }
    }

    /// Returns the positions at the front of a run that have the level of the first one. The result is empty only for
    /// an empty run.
    fn same_level(&mut self, run: Range<u32>, level: u32) -> Range<u32> {
        // Usually all positions are usable and equal, so the set can answer for 64 positions at once.
        if run.end - run.start == 1 || self.set(level).contains_range(run.clone()) {
            return run;
        }
        let free = &self.free[run.start as usize..run.end as usize];
        let same = free.iter().take_while(|free| **free == level).count();
        run.start..run.start + same as u32
    }

    /// Moves the usable positions of a piece from the set of one level to that of another.
    fn move_sets(&mut self, piece: Range<u32>, old: u32, new: u32) {
        let size = piece.end - piece.start;
        let usable = self.set(old).remove_range(piece.clone());
        if usable == size {
            self.set(new).insert_range(piece);
            return;
        }
        if usable > 0 {
            for position in piece.filter(|position| self.usable.contains(*position)).collect::<Vec<_>>() {
                self.set(new).insert(position);
            }
        }
    }

    /// Returns the sets with `cores` and more, the best fit first.
    fn fitting(&self, cores: u32) -> &[Bits] {
        let first = self.levels.partition_point(|level| *level < cores);
        &self.sets[first..]
    }

    /// Returns the number of usable positions with at least `cores` free. Cost: the number of occurring levels.
    pub(crate) fn count_at_least(&self, cores: u32) -> u32 {
        self.fitting(cores).iter().map(Bits::count).sum()
    }

    /// Calls `each` with `n` usable positions with at least `cores` free, or all if there are fewer. Returns their
    /// number. Positions with the fewest free cores come first, among equal ones the lowest. Each run has one level.
    pub(crate) fn lowest_fit(&self, cores: u32, n: u32, mut each: impl FnMut(Range<u32>)) -> u32 {
        let mut missing = n;
        for set in self.fitting(cores) {
            missing -= set.lowest(missing, &mut each);
            if missing == 0 {
                break;
            }
        }
        n - missing
    }

    /// Does the same for the members of a set.
    pub(crate) fn lowest_fit_of(&self, of: &Bits, cores: u32, n: u32, mut each: impl FnMut(Range<u32>)) {
        let mut missing = n;
        for set in self.fitting(cores) {
            let mut set = set.clone();
            set.intersect_with(of);
            missing -= set.lowest(missing, &mut each);
            if missing == 0 {
                break;
            }
        }
    }

    /// Returns the usable positions at one level.
    pub(crate) fn at(&self, level: u32) -> Option<&Bits> {
        self.levels.binary_search(&level).ok().map(|at| &self.sets[at])
    }

    /// Returns all usable positions with at least `cores` free. `scratch` lends its memory if there are several levels;
    /// its contents are lost.
    pub(crate) fn members<'a>(&'a self, cores: u32, scratch: &'a mut Bits) -> &'a Bits {
        let mut sets = self.fitting(cores).iter().filter(|set| set.count() > 0);
        let Some(first) = sets.next() else {
            scratch.clear();
            return scratch;
        };
        let Some(second) = sets.next() else { return first };
        scratch.clear();
        for set in [first, second].into_iter().chain(sets) {
            scratch.union_with(set);
        }
        scratch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(cores: u32, free: &[u32]) -> Levels {
        let mut levels = Levels::new(cores);
        for level in free {
            levels.push(*level, true);
        }
        levels
    }

    fn fit(levels: &Levels, cores: u32, n: u32) -> Vec<Range<u32>> {
        let mut runs = Vec::new();
        let found = levels.lowest_fit(cores, n, |run| runs.push(run));
        assert_eq!(found, runs.iter().map(|run| run.end - run.start).sum::<u32>());
        runs
    }

    #[test]
    fn the_fewest_free_cores_that_suffice_come_first() {
        let levels = levels(8, &[8, 8, 2, 4, 4, 3]);
        assert_eq!(levels.count_at_least(3), 5);
        assert_eq!(fit(&levels, 3, 9), [5..6, 3..5, 0..2]);
        assert_eq!(fit(&levels, 3, 2), [5..6, 3..4]);
        assert_eq!(fit(&levels, 4, 3), [3..5, 0..1]);
        assert_eq!(fit(&levels, 9, 1), []);
    }

    #[test]
    fn runs_of_mixed_levels_are_taken_and_given() {
        let mut levels = levels(8, &[8, 8, 2, 4, 4, 3]);
        levels.take(1..5, 2);
        assert_eq!(levels.free, [8, 6, 0, 2, 2, 3]);
        assert_eq!(fit(&levels, 1, 9), [3..5, 5..6, 1..2, 0..1]);
        levels.give(1..5, 2);
        assert_eq!(levels.free, [8, 8, 2, 4, 4, 3]);
        assert_eq!(fit(&levels, 8, 9), vec![0..2]);
    }

    #[test]
    fn an_unusable_position_keeps_its_level_but_is_not_handed_out() {
        let mut levels = levels(8, &[8; 4]);
        levels.take(0..4, 5);
        assert!(levels.set_usable(2, false));
        assert!(!levels.set_usable(2, false));
        levels.give(0..4, 5);
        assert_eq!((levels.free(2), levels.count_at_least(0)), (8, 3));
        assert_eq!(fit(&levels, 8, 4), [0..2, 3..4]);
        assert!(levels.set_usable(2, true));
        assert_eq!(fit(&levels, 8, 4), vec![0..4]);
    }

    #[test]
    fn the_members_of_one_level_or_of_several() {
        let levels = levels(8, &[8, 8, 2, 4, 4, 3]);
        let mut scratch = Bits::new(0);
        scratch.grow(1);
        scratch.insert(0);
        for (cores, members) in [(9, vec![]), (5, vec![0, 1]), (3, vec![0, 1, 3, 4, 5])] {
            assert_eq!(levels.members(cores, &mut scratch).iter().collect::<Vec<_>>(), members);
        }
    }

    #[test]
    fn sets_that_are_empty_serve_other_levels() {
        let mut levels = levels(65_536, &[65_536; 3]);
        for _ in 0..10_000 {
            levels.take(1..2, 3);
        }
        assert_eq!(levels.sets.len(), SETS);
        assert_eq!(fit(&levels, 35_536, 3), [1..2, 0..1, 2..3]);
        assert_eq!(levels.count_at_least(35_537), 2);
        // Goes back up over other levels, so that the reused set is below.
        for given in 1..=10_000 {
            levels.give(1..2, 2);
            assert_eq!(levels.count_at_least(35_536 + 2 * given), 3);
            assert_eq!(levels.count_at_least(35_537 + 2 * given), 2);
        }
        levels.take(1..2, 55_536);
        assert_eq!(fit(&levels, 0, 3), [1..2, 0..1, 2..3]);
        assert!(levels.levels.is_sorted());
        assert_eq!(levels.sets.len(), SETS);
    }

    #[test]
    fn each_level_is_found_again_after_its_set_served_another() {
        let mut levels = levels(1000, &[1000]);
        for free in (0..1000).rev() {
            levels.take(0..1, 1);
            assert_eq!((levels.count_at_least(free), levels.count_at_least(free + 1)), (1, 0));
        }
        for free in 1..=1000 {
            levels.give(0..1, 1);
            assert_eq!((levels.count_at_least(free), levels.count_at_least(free + 1)), (1, 0));
        }
    }

    #[test]
    #[should_panic(expected = "3 cores at position 1 with 2 free")]
    fn more_than_is_free_is_not_taken() {
        levels(8, &[8, 2]).take(0..2, 3);
    }

    #[test]
    #[should_panic(expected = "1 cores at position 0 with 8 free")]
    fn more_than_there_is_is_not_given() {
        levels(8, &[8, 2]).give(0..2, 1);
    }
}
