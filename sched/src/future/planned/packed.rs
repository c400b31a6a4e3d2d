//! Planned starts of packed jobs: over all classes that could run them, each node with as many chunks as fit, the lowest
//! nodes first, sleeping ones last.

use limo_model::{Placement, Span, Time};

use super::super::open::Open;
use super::super::{NodeNeed, add_chunks, additions, first_time, in_order, stairs};
use super::{Asker, PlannedNode, Planner};
use crate::index::Way;

impl Planner<'_> {
    /// Returns the first time at which all chunks fit.
    pub(super) fn earliest_packed(&self, asker: Asker<'_>, span: Span) -> Option<Time> {
        let mut from = self.view.now();
        loop {
            let each = self.open_to(asker).map(|(_, open, way)| {
                let need = asker.need(way);
                let first = |chunks, from| self.earliest_on(asker, (*open, &need.times(chunks)), (from, span));
                stairs(way.most, from, first)
            });
            let more = each.flat_map(|stairs| additions(&stairs).collect::<Vec<_>>()).collect();
            let at = first_time(more, asker.job.request.nodes.get())?;
            if at == from {
                return Some(at);
            }
            from = at;
        }
    }

    /// Chooses the nodes of a job from `at` on, independent of their load like [`Planner::choose`].
    pub(super) fn choose_packed(&self, asker: Asker<'_>, (at, span): (Time, Span)) -> Vec<PlannedNode> {
        let mut open: Vec<(usize, &Open, &Way)> = self.open_to(asker).collect();
        open.sort_by_key(|(_, open, _)| open.wake > Span::ZERO);
        let mut missing = asker.job.request.nodes.get();
        let mut chosen = Vec::new();
        for (index, open, way) in open {
            if missing == 0 {
                break;
            }
            let need = asker.need(way);
            let first = |chunks, from| self.earliest_on(asker, (*open, &need.times(chunks)), (from, span));
            let found = stairs(way.most, at, |chunks, from| first(chunks, from).filter(|first| *first == at));
            let chunks = found.first().map_or(0, |stair| stair.chunks.min(missing));
            if chunks > 0 {
                missing -= chunks;
                chosen.push(PlannedNode { way: index, open: *open, at, chunks });
            }
        }
        chosen
    }

    /// Returns the parts of a job that starts now at these places.
    pub(super) fn packed_placement(
        &self,
        asker: Asker<'_>,
        ways: &[Way],
        (span, seats): (Span, &[PlannedNode]),
    ) -> Placement {
        let request = &asker.job.request;
        let mut placement = Placement::new();
        for seat in seats {
            let way = &ways[seat.way];
            let units = match request.accelerators {
                None => Vec::new(),
                // Alone on its node a job has the first ones.
                Some(_) => {
                    let need = NodeNeed { of: asker.accelerators(way), ..asker.need(way) }.times(seat.chunks);
                    self.future.units_at(seat.open.node, &need, (self.view.now(), span + seat.open.wake))
                }
            };
            add_chunks(&mut placement, request, (way, seat.open.node), (seat.chunks, &units));
        }
        in_order(&self.view, request, placement)
    }

    /// Returns the nodes of all classes that could run a job, each with its candidate.
    fn open_to<'p>(&'p self, asker: Asker<'p>) -> impl Iterator<Item = (usize, &'p Open, &'p Way)> {
        let ways = asker.shape.ways.iter().enumerate();
        ways.flat_map(|(index, way)| self.open[way.class].all.iter().map(move |open| (index, open, way)))
    }
}
