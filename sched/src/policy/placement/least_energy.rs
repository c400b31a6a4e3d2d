//! `least-energy`: of the suitable nodes with room now, those on which the job is expected to use least energy.
//!
//! Idea: the energy of a run depends on the type of node, so the types are tried in the order of the expected energy
//! above idle, from profiles, else from the nameplate for the time limit. Within a type, and between types of equal
//! energy, the order is that of the placement without this part: the least room, then the number. Constraints: only
//! nodes on which the job can start now, awake ones first; under `easy`, a placement that delays the reservation, or
//! for which power or energy is missing, is given up for the next one, which has no node of the type that was first in
//! it. On several nodes the sum over the nodes counts. Ignores: prices, the lower limit, nodes that will be free soon,
//! and the energy for waking a node. Cost: one estimate for each type of node. No options.

use limo_model::{Energy, JobId, Placement, PlacementRule, Request};

use super::ranked::KnownPlacements;
use super::{least_room, ranked};
use crate::facts::{Known, estimate, host_power, units_wanted};
use crate::index::{HeadReservation, Shape, Way};
use crate::policy::order::{AskedJob, Decision, PlanBuilder};
use crate::state::Job;
use crate::view::View;

/// The placements that a job could have now under the order `easy`, best first.
pub(in crate::policy) struct Placements<'a> {
    view: View<'a>,
    job: (JobId, &'a Job),
    shape: &'a Shape,
    /// The shape in place of that of the job: for unshared units, or with the types of node that are left.
    own: Option<Box<Shape>>,
    by_energy: bool,
    has_ended: bool,
}

impl<'a> Placements<'a> {
    /// Placements on nodes with enough free cores.
    pub fn of(view: &View<'a>, shape: &'a Shape, job: (JobId, &'a Job)) -> Self {
        Self::on(view, (shape, None), job)
    }

    /// Placements on units without any job, so that they can be held at a cap of the job.
    pub fn unshared(view: &View<'a>, shape: &'a Shape, job: (JobId, &'a Job)) -> Self {
        Self::on(view, (shape, Some(Box::new(shape.unshared(&view.index().classes)))), job)
    }

    fn on(view: &View<'a>, (shape, mut own): (&'a Shape, Option<Box<Shape>>), job: (JobId, &'a Job)) -> Self {
        let by_energy = view.parts().placement == PlacementRule::LeastEnergy;
        if by_energy {
            own = Some(Box::new(ordered(view, own.as_deref().unwrap_or(shape), &job.1.request)));
        }
        Self { view: *view, job, shape, own, by_energy, has_ended: false }
    }

    /// Returns the next placement. There is one, unless it is by least energy.
    pub fn next(
        &mut self,
        reservation: Option<&HeadReservation>,
        known: &mut KnownPlacements<'a>,
    ) -> Option<Placement> {
        if self.has_ended {
            return None;
        }
        let shape = self.own.as_deref().unwrap_or(self.shape);
        let placement = match (self.view.parts().placement, &self.own) {
            (PlacementRule::Ranked | PlacementRule::Window, None) => {
                known.find(&self.view, self.shape, self.job, reservation)
            }
            (PlacementRule::Ranked | PlacementRule::Window, Some(_)) | (PlacementRule::Pool, _) => {
                ranked::find(&self.view, shape, self.job, reservation)
            }
            _ => least_room::find(&self.view, shape, self.job.1, reservation),
        }?;
        self.has_ended = true;
        if let Some(shape) = self.own.as_deref_mut().filter(|_| self.by_energy) {
            let first = placement.first().and_then(|part| self.view.index().classes.place_of(part.unit.node));
            let place = shape.ways.iter().position(|way| first.is_some_and(|(class, _)| way.class == class));
            if let Some(place) = place {
                shape.remove_way(place);
                self.has_ended = false;
            }
        }
        Some(placement)
    }
}

/// Returns the shape with its types of node by the energy of a job. The order of types of equal energy stays.
fn ordered(view: &View<'_>, shape: &Shape, request: &Request) -> Shape {
    let mut order: Vec<(Energy, usize)> =
        shape.ways.iter().enumerate().map(|(index, way)| (energy(view, way, request), index)).collect();
    order.sort_unstable();
    shape.in_order(order.into_iter().map(|(_, index)| index))
}

/// Returns the energy above idle that a job is expected to use on a node of a type.
fn energy(view: &View<'_>, way: &Way, request: &Request) -> Energy {
    let (known, units) = (Known::of(view.state()), &view.index().classes.class(way.class).units);
    let Some(unit) = units.get(usize::from(way.unit)) else { return Energy::ZERO };
    let each = estimate(known, request, unit).times(units_wanted(request));
    each.with_draw(host_power(known, request, units)).energy
}

impl PlanBuilder<'_> {
    /// Starts the job on the candidate with least energy, under the orders that plan with the future.
    pub(in crate::policy) fn least_energy(&self, asked: AskedJob<'_>) -> Decision {
        let now = self.view.now();
        let starts = self.starts(asked.ways, now);
        let best = starts.iter().filter(|found| found.at == now).min_by_key(|found| found.offer.estimate.energy);
        match best.and_then(|found| self.choice(found)) {
            Some(choice) => Decision::Start(choice),
            None => self.later(asked, starts.iter().min_by_key(|found| found.at)),
        }
    }
}
