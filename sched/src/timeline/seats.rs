//! When each node has exactly what was asked for before, for jobs that ask for the same again: only nodes on which
//! something was put since then, and those whose time has passed, are asked again. Decides nothing.
//!
//! What is put on nodes only makes a start later, and so does asking from a later time on. So what a node answered stays a
//! lower bound; and as long as nothing was put on it, the answer itself, up to the time that it named.

use limo_model::{NodeId, Span, Time};

use super::bounds::{BLOCK, Bounds};
use super::{Need, Timeline};

/// What is asked for and for how long, on nodes of which class.
pub(super) type Key = (Need, Span, usize);

#[derive(Debug, Clone)]
pub(super) struct Seats {
    /// The latest time from which on it was asked: what nodes answered says nothing of earlier ones.
    from: Time,
    bounds: Bounds,
}

impl Timeline<'_> {
    /// The same as [`Timeline::first_on`], once it is asked for the second time; `None` before that, and where it was asked
    /// from a later time on meanwhile. All nodes are of one class.
    pub(super) fn first_seat(
        &self,
        nodes: &[NodeId],
        need: &Need,
        (from, span): (Time, Span),
        best: (Time, NodeId),
    ) -> Option<Option<(Time, NodeId)>> {
        let class = nodes.first().and_then(|node| self.view.index().classes.place_of(*node)).map(|(class, _)| class)?;
        let mut all = self.seats.borrow_mut();
        let Some(known) = all.get_mut(&(*need, span, class)) else {
            all.insert((*need, span, class), None);
            return None;
        };
        let known = known.get_or_insert_with(|| self.all_seats(class, need, span));
        (known.from <= from).then(|| self.first_of(known, nodes, need, (from, span), best))
    }

    /// Nobody was asked yet for exactly that.
    fn all_seats(&self, class: usize, need: &Need, span: Span) -> Seats {
        let all = self.bounds.borrow();
        let looser = all.get(&self.key(need, span));
        let mut bounds = Bounds::new(self.first_units.len(), Time::MAX);
        for node in &self.view.index().classes.class(class).nodes {
            let place = node.0 as usize;
            bounds.times[place] = looser.map_or(self.now, |looser| looser.times[place]);
        }
        (0..bounds.blocks.len()).for_each(|block| bounds.look(block));
        Seats { from: self.now, bounds }
    }

    fn first_of(
        &self,
        known: &mut Seats,
        nodes: &[NodeId],
        need: &Need,
        (from, span): (Time, Span),
        mut best: (Time, NodeId),
    ) -> Option<(Time, NodeId)> {
        known.from = from;
        let bounds = &mut known.bounds;
        let mut found = None;
        for block in 0..bounds.blocks.len() {
            let begin = block as u32 * BLOCK;
            if (bounds.blocks[block].max(from), NodeId(begin)) >= best {
                continue;
            }
            let first = nodes.partition_point(|node| node.0 < begin);
            let mut is_later = false;
            for node in nodes[first..].iter().take_while(|node| node.0 - begin < BLOCK) {
                let place = node.0 as usize;
                let mut at = bounds.times[place];
                if at == Time::MAX || (at.max(from), *node) >= best {
                    continue;
                }
                if at < from || bounds.asked[place] != Some(self.versions[place]) {
                    at = self.earliest_on(*node, need, from, span).unwrap_or(Time::MAX);
                    bounds.times[place] = at;
                    bounds.asked[place] = Some(self.versions[place]);
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
                bounds.look(block);
            }
            if found.is_some_and(|(at, _)| at == from) {
                break;
            }
        }
        found
    }
}
