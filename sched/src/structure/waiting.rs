//! The waiting jobs of one kind in queue order, searched by need.
//!
//! A tree of least needs covers blocks of neighbouring places. A search skips every subtree with a least need that
//! does not fit, and searches the remaining blocks. Keys ascend in queue order; no other data of jobs is stored. A
//! removed job leaves an empty place. When all places are used up, the jobs move together. So memory depends on the
//! number of waiting jobs, and the cost of a job does not depend on earlier ones. Searching costs about log(n) for
//! each block that may fit. A block that mixes needs (one job small, its neighbour short) may be searched in vain.

use std::ops::Range;

/// The part of a request that a search compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Number of nodes or processors; below `u32::MAX`, which marks an empty place.
    pub(crate) parts: u32,
    /// Duration in milliseconds.
    pub(crate) span: i64,
    /// Power in milliwatts.
    pub(crate) power: i64,
}

impl Need {
    /// An empty place, which changes no minimum.
    const NONE: Self = Self { parts: u32::MAX, span: i64::MAX, power: i64::MAX };

    fn is_none(&self) -> bool {
        self.parts == u32::MAX
    }

    fn least(&self, other: &Self) -> Self {
        Self { parts: self.parts.min(other.parts), span: self.span.min(other.span), power: self.power.min(other.power) }
    }
}

/// Places in a leaf of the tree. Of 4, 8, 16 and 32, this value gave the fastest search of a queue of 20,000 jobs
/// with mixed needs: 170 to 260 ns.
const BLOCK: usize = 4;

/// Most jobs that move for one that comes back.
const NEAR: usize = 1_024;

/// A rebuild leaves one empty place for this many jobs before the first one: jobs that come back mostly precede it.
const GAP: usize = 16;

/// Minimum number of places, so that a short queue is not rebuilt repeatedly.
const FEWEST_PLACES: usize = 64;

/// Jobs in the order of their keys.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    /// Keys, strictly ascending, also for empty places.
    keys: Vec<u64>,
    /// Needs, one for each of the `keys`.
    needs: Vec<Need>,
    /// `tree[blocks + i]` is the least need of block `i`, `tree[i]` that of `tree[2 * i]` and `tree[2 * i + 1]`. It
    /// is twice as long as the number of blocks, a power of two; index 0 is unused.
    tree: Vec<Need>,
    /// The first place that is not empty, or `keys.len()`.
    head: usize,
    len: usize,
}

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiting {
    pub(crate) fn new() -> Self {
        let tree = vec![Need::NONE; 2 * FEWEST_PLACES / BLOCK];
        Self { keys: Vec::new(), needs: Vec::new(), tree, head: 0, len: 0 }
    }

    /// Returns the need of the job with this key.
    #[cfg(debug_assertions)]
    pub(crate) fn at(&self, key: u64) -> Option<Need> {
        let place = self.keys.binary_search(&key).ok()?;
        self.needs.get(place).copied().filter(|need| !need.is_none())
    }

    /// Returns the number of waiting jobs.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if a job with this key or a larger one may wait.
    pub(crate) fn reaches(&self, from: u64) -> bool {
        self.len > 0 && self.keys.last().is_some_and(|last| *last >= from)
    }

    /// Returns the number of places.
    fn places(&self) -> usize {
        self.tree.len() / 2 * BLOCK
    }

    /// Returns the node of the tree for the block of a place.
    fn leaf(&self, place: usize) -> usize {
        self.tree.len() / 2 + place / BLOCK
    }

    /// Returns the least need of a block.
    fn least_of(&self, block: usize) -> Need {
        let end = self.needs.len().min((block + 1) * BLOCK);
        self.needs[block * BLOCK..end].iter().fold(Need::NONE, |least, need| least.least(need))
    }

    /// Inserts a job; returns true if the key is new. A known key gets the new need. Cost: log(n) for the largest key
    /// so far, for a key with an existing place and for one near an empty place, otherwise n. Panics on `u32::MAX` parts.
    pub(crate) fn insert(&mut self, key: u64, need: Need) -> bool {
        assert!(!need.is_none(), "job {key} needs {} parts", need.parts);
        if self.keys.last().is_none_or(|last| *last < key) {
            if self.keys.len() == self.places() {
                self.rebuild(None);
            }
            self.keys.push(key);
            self.needs.push(Need::NONE);
            self.put(self.keys.len() - 1, need);
            return true;
        }
        let place = self.lower_bound(key);
        if self.keys[place] != key {
            match self.make_place(place, key) {
                Some(place) => self.put(place, need),
                None => self.rebuild(Some((key, need))),
            }
            return true;
        }
        let new = self.needs[place].is_none();
        if !new {
            self.clear_place(place);
        }
        self.put(place, need);
        new
    }

    /// Moves the jobs between the last empty place before `place` and `place`, if it is near, so that an empty place for
    /// `key` precedes it. A job that comes back is mostly close to the head, before which all places are empty.
    fn make_place(&mut self, place: usize, key: u64) -> Option<usize> {
        let empty = (place.saturating_sub(NEAR)..place).rev().find(|place| self.needs[*place].is_none())?;
        self.keys.copy_within(empty + 1..place, empty);
        self.needs.copy_within(empty + 1..place, empty);
        (self.keys[place - 1], self.needs[place - 1]) = (key, Need::NONE);
        if (empty + 1..place).contains(&self.head) {
            self.head -= 1;
        }
        (empty / BLOCK..=(place - 1) / BLOCK).for_each(|block| self.update(block));
        Some(place - 1)
    }

    /// Updates the tree above a block.
    fn update(&mut self, block: usize) {
        let mut at = self.tree.len() / 2 + block;
        let mut least = self.least_of(block);
        while least != self.tree[at] {
            self.tree[at] = least;
            at /= 2;
            if at == 0 {
                break;
            }
            least = self.tree[2 * at].least(&self.tree[2 * at + 1]);
        }
    }

    /// Fills an empty place.
    fn put(&mut self, place: usize, need: Need) {
        self.len += 1;
        self.head = if self.len == 1 { place } else { self.head.min(place) };
        self.needs[place] = need;
        let mut at = self.leaf(place);
        while at > 0 {
            let least = self.tree[at].least(&need);
            // The nodes above have at most this value.
            if least == self.tree[at] {
                break;
            }
            self.tree[at] = least;
            at /= 2;
        }
    }

    /// Removes a job and returns its need; `None` if it does not wait.
    pub(crate) fn remove(&mut self, key: u64) -> Option<Need> {
        let place = self.place_of(key)?;
        let need = self.needs[place];
        self.clear_place(place);
        if self.len == 0 {
            // The whole tree is also empty, so a new start is free.
            self.keys.clear();
            self.needs.clear();
            self.head = 0;
        } else if place == self.head {
            while self.needs[self.head].is_none() {
                self.head += 1;
            }
        }
        Some(need)
    }

    fn clear_place(&mut self, place: usize) {
        self.len -= 1;
        self.needs[place] = Need::NONE;
        self.update(place / BLOCK);
    }

    /// Returns the need of a waiting job.
    #[cfg(test)]
    pub(crate) fn need(&self, key: u64) -> Option<Need> {
        self.place_of(key).map(|place| self.needs[place])
    }

    fn place_of(&self, key: u64) -> Option<usize> {
        let place = self.lower_bound(key);
        (self.keys.get(place) == Some(&key) && !self.needs[place].is_none()).then_some(place)
    }

    /// Returns the first place with this key or a larger one, or `keys.len()`.
    fn lower_bound(&self, key: u64) -> usize {
        let (Some(first), Some(last)) = (self.keys.first(), self.keys.last()) else { return 0 };
        if key <= *first {
            return 0;
        }
        if key > *last {
            return self.keys.len();
        }
        // Keys ascend by at least 1, so the place is at most as far from each end as the key.
        let end = self.keys.len() - 1;
        let most = (key - first).min(end as u64) as usize;
        if self.keys[most] == key {
            return most;
        }
        let least = end - (last - key).min(end as u64) as usize;
        least + self.keys[least..=most].partition_point(|known| *known < key)
    }

    /// Returns the job with the smallest key.
    pub(crate) fn first(&self) -> Option<(u64, Need)> {
        (self.len > 0).then(|| (self.keys[self.head], self.needs[self.head]))
    }

    /// Returns the smallest value of each need over all waiting jobs; these seldom belong to one job.
    #[cfg(test)]
    pub(crate) fn least(&self) -> Option<Need> {
        (self.len > 0).then_some(self.tree[1])
    }

    /// Returns the first job from key `from` on, inclusive, whose need fits. If `fits` refuses a need, it must refuse
    /// every need that is at least as large in all parts. It is also called with the least needs of several jobs.
    pub(crate) fn next(&self, from: u64, mut fits: impl FnMut(&Need) -> bool) -> Option<(u64, Need)> {
        if !self.reaches(from) || !fits(&self.tree[1]) {
            return None;
        }
        // Most searches start before the first job; finding the place would then cost more than the search itself.
        let start = if self.keys[self.head] >= from { self.head } else { self.lower_bound(from).max(self.head) };
        if !start.is_multiple_of(BLOCK)
            && let Some(found) = self.next_in(start..start.next_multiple_of(BLOCK), &mut fits)
        {
            return Some(found);
        }
        let blocks = self.tree.len() / 2;
        let block = start.div_ceil(BLOCK);
        if block == blocks {
            return None;
        }
        // Starts with the largest subtree that begins at the block. A subtree that does not fit is followed by the
        // largest one that begins behind it. Behind the last subtree this is the root.
        let mut at = blocks + block;
        at >>= at.trailing_zeros();
        loop {
            let least = &self.tree[at];
            if !least.is_none() && fits(least) {
                if at < blocks {
                    at *= 2;
                    continue;
                }
                let first = (at - blocks) * BLOCK;
                if let Some(found) = self.next_in(first..first + BLOCK, &mut fits) {
                    return Some(found);
                }
            }
            at += 1;
            at >>= at.trailing_zeros();
            if at == 1 {
                return None;
            }
        }
    }

    /// Returns the first job at these places whose need fits.
    fn next_in(&self, places: Range<usize>, fits: &mut impl FnMut(&Need) -> bool) -> Option<(u64, Need)> {
        let (from, to) = (places.start, places.end.min(self.needs.len()));
        let found = self.needs[from..to].iter().position(|need| !need.is_none() && fits(need))?;
        Some((self.keys[from + found], self.needs[from + found]))
    }

    /// Moves the jobs together, and inserts one more if given. Leaves at least as many places free as are taken, so
    /// that the cost is spread over that many insertions. Frees excess places.
    #[cold]
    fn rebuild(&mut self, more: Option<(u64, Need)>) {
        let len = self.len + usize::from(more.is_some());
        let mut places = self.places();
        if len > places / 2 || len < places / 8 {
            places = (2 * len).next_power_of_two().max(FEWEST_PLACES);
        }
        let living = (0..self.keys.len()).filter(|place| !self.needs[*place].is_none());
        let living = living.map(|place| (self.keys[place], self.needs[place]));
        let mut jobs: Vec<(u64, Need)> = living.collect();
        if let Some(job) = more {
            let at = jobs.partition_point(|(key, _)| *key < job.0);
            jobs.insert(at, job);
        }
        self.keys = Vec::with_capacity(places);
        self.needs = Vec::with_capacity(places);
        let first = jobs.first().map_or(0, |(key, _)| *key);
        let gap = (len / GAP + 1).min(usize::try_from(first).unwrap_or(usize::MAX));
        self.keys.extend(first - gap as u64..first);
        self.needs.resize(gap, Need::NONE);
        for (key, need) in jobs {
            self.keys.push(key);
            self.needs.push(need);
        }
        let blocks = places / BLOCK;
        self.tree = vec![Need::NONE; 2 * blocks];
        for block in 0..self.keys.len().div_ceil(BLOCK) {
            self.tree[blocks + block] = self.least_of(block);
        }
        for at in (1..blocks).rev() {
            self.tree[at] = self.tree[2 * at].least(&self.tree[2 * at + 1]);
        }
        (self.head, self.len) = (gap, len);
    }
}

#[cfg(test)]
mod tests;
