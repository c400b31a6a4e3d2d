//! The expected draw over time, with the upper limit minus the reserve. Pieces are stored in blocks with their
//! extremes, so that a search skips uniform blocks at once. Independent of the sources of the draw.

use limo_model::{Power, Span, Time};

/// Pieces of a block before it is split. A search then checks as many blocks as pieces, for some thousand pieces in
/// all.
const MOST: usize = 64;

/// A piece, from a time until the next piece.
#[derive(Debug, Clone, Copy)]
struct Piece {
    at: Time,
    /// The draw, in mW, without the sum added to the whole block.
    level: i64,
    /// Ceiling in mW.
    ceiling: i64,
}

/// Consecutive pieces; at least one.
#[derive(Debug, Clone)]
struct Block {
    pieces: Vec<Piece>,
    /// Amount to add to the level of each piece. The sum never leaves the range.
    more: i64,
    /// Lowest and highest level, without `more`.
    levels: (i64, i64),
    /// Lowest and highest difference between ceiling and level, without `more`.
    left: (i128, i128),
}

impl Block {
    fn of(pieces: Vec<Piece>) -> Self {
        let mut block = Self { pieces, more: 0, levels: (0, 0), left: (0, 0) };
        block.look();
        block
    }

    /// Recomputes the extremes.
    fn look(&mut self) {
        let (mut levels, mut left) = ((i64::MAX, i64::MIN), (i128::MAX, i128::MIN));
        for piece in &self.pieces {
            levels = (levels.0.min(piece.level), levels.1.max(piece.level));
            let free = i128::from(piece.ceiling) - i128::from(piece.level);
            left = (left.0.min(free), left.1.max(free));
        }
        (self.levels, self.left) = (levels, left);
    }

    /// Adds to the pieces from `first` to before `last`.
    fn add(&mut self, first: usize, last: usize, amount: i64) {
        let sum = self.more.checked_add(amount);
        let sum =
            sum.filter(|sum| self.levels.0.checked_add(*sum).is_some() && self.levels.1.checked_add(*sum).is_some());
        if let Some(sum) = sum.filter(|_| first == 0 && last == self.pieces.len()) {
            self.more = sum;
            return;
        }
        let more = std::mem::take(&mut self.more);
        self.pieces.iter_mut().for_each(|piece| piece.level += more);
        // Sums are clamped to the range, because a value reported by a node must not wrap.
        self.pieces[first..last].iter_mut().for_each(|piece| piece.level = piece.level.saturating_add(amount));
        self.look();
    }

    fn start(&self) -> Time {
        self.pieces[0].at
    }
}

/// The draw and its ceiling from each step on, without an end.
#[derive(Debug, Clone)]
pub(super) struct Draw {
    blocks: Vec<Block>,
}

impl Draw {
    /// Makes the draw: `base` until the first change; the changes are differences, in any order. Each of the
    /// `ceilings` holds from its time on, and the first one also before.
    pub fn of(base: i64, mut changes: Vec<(Time, i64)>, ceilings: &[(Time, Power)]) -> Self {
        changes.extend(ceilings.iter().skip(1).map(|(at, _)| (*at, 0)));
        // Most changes are in order already, and so are the ceilings: a stable sort merges such runs.
        changes.sort_by_key(|(at, _)| *at);
        let ceiling = |index: usize| ceilings.get(index).map_or(i64::MAX, |(_, ceiling)| ceiling.mw());
        let mut pieces: Vec<Piece> = Vec::with_capacity(changes.len() + 1);
        pieces.push(Piece { at: Time::from_unix_ms(i64::MIN), level: base, ceiling: ceiling(0) });
        let (mut level, mut holds) = (base, 0);
        for (at, amount) in changes {
            level = level.saturating_add(amount);
            while ceilings.get(holds + 1).is_some_and(|(from, _)| *from <= at) {
                holds += 1;
            }
            let piece = Piece { at, level, ceiling: ceiling(holds) };
            match pieces.last_mut() {
                Some(last) if last.at == at => *last = piece,
                _ => pieces.push(piece),
            }
        }
        // Blocks are half full, because more pieces are inserted.
        Self { blocks: pieces.chunks(MOST / 2).map(|pieces| Block::of(pieces.to_vec())).collect() }
    }

    /// Returns the place of the piece at `at`: its block, and its index there.
    fn place(&self, at: Time) -> (usize, usize) {
        let block = self.blocks.partition_point(|block| block.start() <= at).saturating_sub(1);
        let pieces = &self.blocks[block].pieces;
        (block, pieces.partition_point(|piece| piece.at <= at).saturating_sub(1))
    }

    /// Returns the place of the piece that begins at `at`; inserts it if missing.
    fn cut(&mut self, at: Time) -> (usize, usize) {
        let (of, place) = self.place(at);
        let block = &mut self.blocks[of];
        if block.pieces[place].at == at {
            return (of, place);
        }
        block.pieces.insert(place + 1, Piece { at, ..block.pieces[place] });
        if block.pieces.len() <= MOST {
            return (of, place + 1);
        }
        let mut second = Block::of(block.pieces.split_off(MOST / 2));
        second.more = block.more;
        block.look();
        self.blocks.insert(of + 1, second);
        self.place(at)
    }

    /// Adds `amount` from `from` until `to`, which is later; [`Time::MAX`] has no end.
    pub fn add(&mut self, from: Time, to: Time, amount: i64) {
        self.cut(from);
        let end = (self.blocks.len() - 1, usize::MAX);
        let (last_block, last) = if to < Time::MAX { self.cut(to) } else { end };
        let (first_block, first) = self.place(from);
        for of in first_block..=last_block {
            let block = &mut self.blocks[of];
            let begin = if of == first_block { first } else { 0 };
            let end = if of == last_block { last.min(block.pieces.len()) } else { block.pieces.len() };
            if begin < end {
                block.add(begin, end, amount);
            }
        }
    }

    /// Returns the pieces from `from` on: start and level.
    pub fn pieces(&self, from: Time) -> impl Iterator<Item = (Time, i64)> {
        let (first, place) = self.place(from);
        self.blocks[first..].iter().enumerate().flat_map(move |(index, block)| {
            let begin = if index == 0 { place } else { 0 };
            let piece = move |piece: &Piece| (piece.at.max(from), piece.level + block.more);
            block.pieces[begin..].iter().map(piece)
        })
    }

    /// Returns the first time from `from` on after which the ceiling leaves `need` for all of `span`; `None` if it is
    /// after `latest`.
    pub fn earliest(&self, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        let (first, place) = self.place(from);
        // Begin of the earlier consecutive pieces with enough power, if there are any.
        let mut start: Option<Time> = None;
        for (index, block) in self.blocks.iter().enumerate().skip(first) {
            let begin = if index == first { place } else { 0 };
            let enters = block.pieces[begin].at.max(from);
            if start.is_some_and(|start| enters - start >= span) {
                return start;
            }
            if start.is_none() && enters > latest {
                return None;
            }
            match block.all(need) {
                Some(true) => start = start.or(Some(enters)),
                Some(false) => start = None,
                None => {
                    for piece in &block.pieces[begin..] {
                        let at = piece.at.max(from);
                        if start.is_some_and(|start| at - start >= span) {
                            return start;
                        }
                        if start.is_none() && at > latest {
                            return None;
                        }
                        let fits = Power::from_mw(piece.level + block.more) + need <= Power::from_mw(piece.ceiling);
                        start = if fits { start.or(Some(at)) } else { None };
                    }
                }
            }
        }
        start
    }

    /// Returns the least power that the ceiling leaves from `from` until before `to`; [`Power::MAX`] if the time is
    /// empty.
    pub fn least_left(&self, from: Time, to: Time) -> Power {
        let mut least = i128::from(i64::MAX);
        let (first, place) = self.place(from);
        for (index, block) in self.blocks.iter().enumerate().skip(first) {
            let begin = if index == first { place } else { 0 };
            if block.pieces[begin].at.max(from) >= to {
                break;
            }
            let more = i128::from(block.more);
            let is_whole = begin == 0 && self.blocks.get(index + 1).is_some_and(|next| next.start() < to);
            if is_whole {
                least = least.min(block.left.0 - more);
                continue;
            }
            let pieces = block.pieces[begin..].iter().take_while(|piece| piece.at.max(from) < to);
            let left = pieces.map(|piece| i128::from(piece.ceiling) - i128::from(piece.level) - more).min();
            least = left.map_or(least, |left| left.min(least));
        }
        Power::from_mw(i64::try_from(least).unwrap_or(i64::MIN))
    }
}

impl Block {
    /// Returns true if `need` fits on all pieces, false if on none, and `None` if each must be checked.
    fn all(&self, need: Power) -> Option<bool> {
        let more = i128::from(self.more);
        let need = i128::from(need.mw());
        let highest = i128::from(self.levels.1) + more + need;
        if highest > i128::from(i64::MAX) {
            // Without a limit, any need fits.
            return None;
        }
        if self.left.0 - more >= need {
            return Some(true);
        }
        (self.left.1 - more < need).then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn watts(mw: i64) -> Power {
        Power::from_mw(mw)
    }

    #[test]
    fn levels_do_not_wrap() {
        let mut draw = Draw::of(i64::MAX, vec![(at(5), 1), (at(5), i64::MAX)], &[(at(0), watts(7))]);
        draw.add(at(1), at(9), i64::MAX);
        assert!(draw.pieces(at(0)).all(|(_, level)| level == i64::MAX));
        assert_eq!(draw.earliest(watts(0), (at(0), Time::MAX), Span::from_ms(1)), None);
        let boundless = Draw::of(i64::MAX, Vec::new(), &[(at(0), Power::MAX)]);
        assert_eq!(boundless.earliest(watts(3), (at(2), Time::MAX), Span::from_ms(1)), Some(at(2)));
    }

    proptest! {
        /// Compares with one level and one ceiling for each millisecond, with more pieces than a block has.
        #[test]
        fn a_draw_is_its_levels(
            base in -5_i64..20,
            changes in proptest::collection::vec((0_i64..400, -6_i64..4), 0..90),
            tops in proptest::collection::vec((1_i64..400, 0_i64..25), 0..4),
            adds in proptest::collection::vec((0_i64..400, 1_i64..90, -3_i64..6), 0..90),
            asks in proptest::collection::vec((0_i64..400, 1_i64..80, -3_i64..20), 1..20),
        ) {
            let mut ceilings = vec![(at(0), watts(15))];
            let tops: std::collections::BTreeMap<i64, i64> = tops.into_iter().collect();
            ceilings.extend(tops.iter().map(|(ms, top)| (at(*ms), watts(*top))));
            let mut levels = [base; 600];
            for (ms, amount) in &changes {
                levels[*ms as usize..].iter_mut().for_each(|level| *level += amount);
            }
            let mut draw = Draw::of(base, changes.iter().map(|(ms, amount)| (at(*ms), *amount)).collect(), &ceilings);
            for (from, span, amount) in adds {
                draw.add(at(from), at(from + span), amount);
                levels[from as usize..(from + span) as usize].iter_mut().for_each(|level| *level += amount);
            }
            let top = |ms: i64| tops.range(..=ms).next_back().map_or(15, |(_, top)| *top);
            let left: Vec<i64> = (0..600).map(|ms| top(ms) - levels[ms as usize]).collect();
            for (from, span, need) in asks {
                let fits = |start: i64| left[start as usize..(start + span) as usize].iter().all(|left| *left >= need);
                let earliest = |latest| draw.earliest(watts(need), (at(from), latest), Span::from_ms(span));
                let found = earliest(Time::MAX);
                prop_assert_eq!(found.map(Time::unix_ms), (from..510).find(|start| fits(*start)));
                prop_assert_eq!(earliest(at(from)).filter(|found| *found == at(from)), found.filter(|found| *found == at(from)));
                let least = left[from as usize..(from + span) as usize].iter().min().copied();
                prop_assert_eq!(Some(draw.least_left(at(from), at(from + span)).mw()), least);
                let level = draw.pieces(at(from)).next().map(|(_, level)| level);
                prop_assert_eq!(level, Some(levels[from as usize]));
            }
        }
    }
}
