//! The nodes that a packed job gets by least room: the fullest ones that have room for a chunk of it, each with as many
//! chunks as fit there, lowest first; sleeping nodes last. Its chunks need not be on neighbours.

use limo_model::Placement;

use super::least_room::free_units;
use crate::future::{Asker, add_chunks, chunks, in_order};
use crate::index::{HeadReservation, Way};
use crate::view::View;

/// Returns a placement for all chunks of the job now, if there is one. If the reservation is of neighbours, a job that
/// would not be over before it does not get them.
pub(super) fn find(view: &View<'_>, asker: Asker<'_>, reservation: Option<&HeadReservation>) -> Option<Placement> {
    let request = &asker.job.request;
    let walltime = request.time_limit.unwrap_or(view.options().default_duration);
    let kept = reservation.filter(|reservation| view.now() + walltime > reservation.at);
    let mut placement = Placement::new();
    let mut missing = request.nodes.get();
    for asleep in [false, true] {
        for way in &asker.shape.ways {
            if missing == 0 {
                break;
            }
            let nodes = &view.index().classes.class(way.class).nodes;
            for (position, fits) in fullest(view, asker, way, (asleep, kept)) {
                let taken = fits.min(missing);
                if taken == 0 {
                    break;
                }
                let node = nodes[position as usize];
                let units = free_units(view, request, (way, node), taken);
                add_chunks(&mut placement, request, (way, node), (taken, &units));
                missing -= taken;
            }
        }
    }
    (missing == 0).then(|| in_order(view, request, placement))
}

/// Returns the nodes of a class with room for a chunk, awake or asleep, each with the number of chunks that fit, in the
/// order in which the job gets them. None of them is kept for the reservation.
fn fullest(
    view: &View<'_>,
    asker: Asker<'_>,
    way: &Way,
    (asleep, kept): (bool, Option<&HeadReservation>),
) -> Vec<(u32, u32)> {
    let class = view.index().classes.class(way.class);
    let Some(levels) = class.levels.get(usize::from(way.unit)) else { return Vec::new() };
    let mut open = if asleep { class.asleep.clone() } else { levels.usable().clone() };
    if let Some(reservation) = kept {
        reservation.remove_from(way.class, &mut open);
    }
    let mut found: Vec<(u32, u32)> =
        chunks(view, asker, way).filter(|(position, _)| open.contains(*position)).collect();
    let room = |(position, fits): &(u32, u32)| match asker.job.request.accelerators {
        None => levels.free(*position),
        Some(_) => *fits,
    };
    found.sort_by_key(room);
    found
}
