//! Nodes that a job could have now, by free resources and permissions. Does not choose between them.

use std::ops::Range;

use limo_model::{Part, Placement, UnitId};

use super::{Asker, then};
use crate::index::{Class, Shape, Way};
use crate::state::Job;
use crate::structure::Bits;
use crate::view::View;

/// Returns true if each node must be checked: because of the needs of the shape, or because caps of another policy
/// remain.
pub(crate) fn asks_each(view: &View<'_>, shape: &Shape) -> bool {
    shape.asks_each || !view.index().capped.is_empty()
}

/// Returns the positions of a class with the resources for the shape, awake or asleep.
pub(crate) fn free(view: &View<'_>, shape: &Shape, way: &Way) -> Bits {
    let class = view.index().classes.class(way.class);
    let mut free = view.index().classes.members(way, &shape.ask);
    free.grow(class.nodes.len() as u32);
    free.union_with(&class.asleep);
    free
}

/// Returns the positions that the job could have now. Each is checked if necessary.
pub(crate) fn could_have(view: &View<'_>, shape: &Shape, way: &Way, job: &Job) -> Bits {
    let mut free = free(view, shape, way);
    if !asks_each(view, shape) {
        return free;
    }
    let (class, then) = (view.index().classes.class(way.class), then::now(view));
    let is_away = |at: &u32| then.chunks(job, (way, class.nodes[*at as usize]), &[]) == 0;
    let others: Vec<u32> = free.iter().filter(is_away).collect();
    for at in others {
        free.remove(at);
    }
    free
}

/// Returns true if there is enough room for a job now, regardless of reservations for others.
pub(crate) fn has_room(view: &View<'_>, asker: Asker<'_>) -> bool {
    let Asker { job, shape } = asker;
    let wanted = job.request.nodes.get();
    if !asks_each(view, shape) {
        return wanted <= shape.room();
    }
    wanted <= room(view, asker)
}

/// Returns the number of chunks that a job could have now, at most one on each node unless it is packed. Each node is
/// checked.
pub(crate) fn room(view: &View<'_>, asker: Asker<'_>) -> u32 {
    let each = asker.shape.ways.iter().flat_map(|way| chunks(view, asker, way));
    each.fold(0, |sum, (_, chunks)| sum.saturating_add(chunks))
}

/// Returns the positions of a class that a job could have now, awake or asleep, each with the number of its chunks there.
pub(crate) fn chunks<'a>(
    view: &View<'a>,
    Asker { job, shape }: Asker<'a>,
    way: &'a Way,
) -> impl Iterator<Item = (u32, u32)> + use<'a> {
    let (class, view) = (view.index().classes.class(way.class), *view);
    let free: Vec<u32> = free(&view, shape, way).iter().collect();
    let of = move |at| (at, then::now(&view).chunks(job, (way, class.nodes[at as usize]), &[]));
    free.into_iter().map(of).filter(|(_, chunks)| *chunks > 0)
}

/// Returns the positions of a class that are falling asleep or waking, and will be free then.
pub(crate) fn soon<'a>(view: &View<'a>, way: &'a Way) -> impl Iterator<Item = u32> {
    let class = view.index().classes.class(way.class);
    let levels = class.levels.get(usize::from(way.unit));
    let is_free = move |at: &u32| levels.is_some_and(|levels| levels.free(*at) >= way.cores);
    class.switching.iter().filter(is_free)
}

/// Adds the job's part of a run of nodes.
pub(crate) fn add(placement: &mut Placement, class: &Class, way: &Way, job: &Job, run: Range<u32>) {
    class.node_runs(run, |node, count| {
        let unit = UnitId { node, unit: way.unit };
        placement.push(Part { unit, count, cores: way.takes, memory: job.request.memory, cap: job.request.cap });
    });
}
