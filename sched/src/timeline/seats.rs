//! When each node has exactly what was asked for before, for jobs that ask for the same again: only nodes on which
//! something was put since then, and those whose time has passed, are asked again. Decides nothing.
//!
//! What is put on nodes only makes a start later, and so does asking from a later time on. So what a node answered stays a
//! lower bound; and as long as nothing was put on it, the answer itself, up to the time that it named.

use limo_model::{NodeId, Span, Time};

use super::bounds::{BLOCK, in_block};
use super::{Need, Timeline};

/// What is asked for and for how long, on nodes of which class.
pub(super) type Key = (Need, Span, usize);

#[derive(Debug, Clone)]
pub(super) struct Seats {
    /// The latest time from which on it was asked: what nodes answered says nothing of earlier ones.
    from: Time,
    /// By node, its answer or a bound of it; the end of time where it never has that.
    times: Vec<Time>,
    /// By node, how often something was put on it when it was asked; none before.
    asked: Vec<Option<u32>>,
    /// By block of nodes, the first of their times.
    blocks: Vec<Time>,
}

impl Timeline<'_> {
    /// The same as [`Timeline::first_on`] for starts after now, once it is asked for the second time; `None` before that,
    /// and where it was asked from a later time on meanwhile. From now on, bounds tell as much.
    pub(super) fn first_seat(
        &self,
        (nodes, class): (&[NodeId], usize),
        need: &Need,
        (from, span): (Time, Span),
        best: (Time, NodeId),
    ) -> Option<Option<(Time, NodeId)>> {
        if from <= self.now {
            return None;
        }
        let mut all = self.seats.borrow_mut();
        let Some(known) = all.get_mut(&(*need, span, class)) else {
            all.insert((*need, span, class), None);
            return None;
        };
        let known = known.get_or_insert_with(|| self.all_seats(class, need, span));
        (known.from <= from).then(|| self.first_of(known, (nodes, class), (need, span), (from, best)))
    }

    /// As much as bounds tell.
    fn all_seats(&self, class: usize, need: &Need, span: Span) -> Seats {
        let all = self.bounds.borrow();
        let (times, asked) = match all.get(&self.key(need, span)) {
            Some(bounds) => (bounds.times.clone(), bounds.asked.clone()),
            None => (vec![self.now; self.class_of.len()], vec![None; self.class_of.len()]),
        };
        let blocks = 0..times.len().div_ceil(BLOCK);
        let blocks = blocks.map(|block| self.first_time(&times, class, block)).collect();
        let is_exact = |(place, asked): (usize, Option<u32>)| asked.filter(|_| self.only_ends(place, need));
        let asked = asked.into_iter().enumerate().map(is_exact).collect();
        Seats { from: self.now, times, asked, blocks }
    }

    fn first_of(
        &self,
        known: &mut Seats,
        (nodes, class): (&[NodeId], usize),
        (need, span): (&Need, Span),
        (from, mut best): (Time, (Time, NodeId)),
    ) -> Option<(Time, NodeId)> {
        known.from = from;
        let mut found = None;
        for block in 0..known.blocks.len() {
            let begin = (block * BLOCK) as u32;
            if (known.blocks[block].max(from), NodeId(begin)) >= best {
                continue;
            }
            let mut is_later = false;
            for node in in_block(nodes, begin) {
                let place = node.0 as usize;
                let mut at = known.times[place];
                if at == Time::MAX || (at.max(from), *node) >= best {
                    continue;
                }
                let is_known = known.asked[place] == Some(self.versions[place]);
                if is_known && self.only_ends(place, need) {
                    at = at.max(from);
                } else if !is_known || at < from {
                    at = self.earliest_on(*node, need, from, span).unwrap_or(Time::MAX);
                    known.times[place] = at;
                    known.asked[place] = Some(self.versions[place]);
                    is_later = true;
                }
                if at < Time::MAX && (at, *node) < best {
                    best = (at, *node);
                    found = Some(best);
                    if at == from {
                        break;
                    }
                }
            }
            if is_later {
                known.blocks[block] = self.first_time(&known.times, class, block);
            }
            if found.is_some_and(|(at, _)| at == from) {
                break;
            }
        }
        found
    }
}
