//! Answers `lq explain` and `--dry-run`: every unit on which a job could run, and the obstacle on each.

use limo_model::{Estimate, JobId, Money, NodeId, Power, Request, Time, UnitId, Wait};

use crate::apply::bar;
use crate::core::Core;
use crate::engine::Wanted;
use crate::facts::{Known, Looked};
use crate::future::{Future, Respect};
use crate::policy::{Weighed, planned, weigh};
use crate::round::Command;
use crate::view::{Choice, View};

/// A unit on which a job could run. For a multi-node job it is a unit that meets the request for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Possibility {
    pub unit: UnitId,
    pub cap: Option<Power>,
    pub estimate: Estimate,
    /// Source of the estimate, as text.
    pub origin: String,
    /// Cost of a start now, at the mean of the known prices for its duration; `None` if there are none.
    pub cost: Option<Money>,
    /// The other terms of the cost of a start now, for a job that may wait for a better price.
    pub waiting: Money,
    pub band: Money,
    /// The obstacle to a start here now, apart from other waiting jobs.
    pub obstacle: Option<Wait>,
}

/// Returns the units on which a request submitted at that time could run, in order of nodes and units.
pub fn possibilities(view: &View<'_>, request: &Request, submitted: Time) -> Vec<Possibility> {
    let future = Future::new(view);
    let draw = future.draw_at(view.now());
    let describe = |choice: &Choice| {
        let weighed = weigh(view, submitted, &choice.estimate, (view.now(), draw));
        let described = describe(view, &future, (request, choice), weighed)?;
        let full = || view.full_group(request, view.node(described.unit.node)?);
        let obstacle = reserved(view, request, described.unit).or(described.obstacle.clone()).or_else(full);
        Some(Possibility { obstacle, ..described })
    };
    view.choices(request).iter().filter_map(describe).collect()
}

fn describe(
    view: &View<'_>,
    future: &Future<'_>,
    (request, choice): (&Request, &Choice),
    weighed: Weighed,
) -> Option<Possibility> {
    let part = choice.placement.first()?;
    let (_, unit) = view.unit(part.unit)?;
    let known = Known::of(view.state());
    let looked = Looked::up(known, request, unit);
    Some(Possibility {
        unit: part.unit,
        cap: part.cap,
        estimate: choice.estimate,
        origin: match view.factor(request, part.unit, part.cap) {
            Some(factor) => format!("{}; {factor}", looked.origin(known, request, unit, part.cap)),
            None => looked.origin(known, request, unit, part.cap),
        },
        cost: weighed.energy,
        waiting: weighed.waiting,
        band: weighed.band,
        obstacle: obstacle(view, future, choice, part.unit),
    })
}

/// Returns the reservation that keeps the job off the node of a choice.
fn reserved(view: &View<'_>, request: &Request, unit: UnitId) -> Option<Wait> {
    let node = view.node(unit.node)?;
    let reservation = bar(view.cluster(), view.now(), request, node)?;
    let of = view.state().reservations.get(reservation);
    if request.reservation.as_deref() == Some(reservation) {
        let from = of.map(|of| of.from).filter(|from| *from > view.now());
        return Some(Wait::Reservation { reservation: reservation.to_owned(), from });
    }
    let (from, until) = of.map(|of| (of.from, of.until))?;
    Some(Wait::Reserved { node: node.spec.name.clone(), reservation: reservation.to_owned(), from, until })
}

fn obstacle(view: &View<'_>, future: &Future<'_>, choice: &Choice, unit: UnitId) -> Option<Wait> {
    let (now, node) = (view.now(), view.node(unit.node));
    if !node.is_some_and(|node| node.is_available(now)) {
        return Some(node.and_then(|node| view.owner_of(node)).unwrap_or(Wait::NoNode));
    }
    let until = future.earliest(choice, now, Respect::Resources);
    if until != Some(now) {
        return Some(Wait::Resources { until });
    }
    let until = future.earliest(choice, now, Respect::ResourcesAndBand);
    let left = future.headroom_for(choice.estimate.duration).at_least_zero();
    (until != Some(now)).then_some(Wait::Band { needs: choice.estimate.power, left, until })
}

/// The decision of the next round about a job that is not submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prospect {
    Starts { unit: Option<UnitId>, estimate: Estimate },
    Waits(Wait),
    Refused(Wait),
}

/// A start that the policy plans for a waiting job. The next round may plan it otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStart {
    pub at: Time,
    pub place: PlannedPlace,
}

/// The place of a planned start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedPlace {
    Named(Vec<NodeId>),
    /// This many nodes that are chosen at the start.
    Any(u32),
}

impl Core {
    /// Returns the start that the policy plans for a waiting job; `None` if it plans none, or looks at too few jobs. Costs
    /// as much as a round.
    pub fn planned_start(&self, now: Time, job: JobId) -> Option<PlannedStart> {
        self.planned_starts(now).find(|(planned, _)| *planned == job).map(|(_, start)| start)
    }

    /// Returns all starts that the policy plans, in its order. Costs as much as a round.
    pub fn planned_starts(&self, now: Time) -> impl Iterator<Item = (JobId, PlannedStart)> {
        planned(&self.view(now)).1.into_iter().map(|later| {
            let place = match later.wanted {
                Wanted::Named(nodes) => PlannedPlace::Named(nodes),
                Wanted::Some { count, .. } => PlannedPlace::Any(count),
            };
            (later.job, PlannedStart { at: later.at, place })
        })
    }

    /// Tries a request on a copy of the state.
    ///
    /// # Errors
    /// [`crate::refused::Refused`] if it would not be accepted.
    pub fn dry_run(&self, now: limo_model::Time, request: &Request) -> Result<Prospect, crate::refused::Refused> {
        let mut copy = self.clone();
        let job: JobId = copy.next_job();
        copy.apply(now, &crate::event::Event::Submitted { job, request: Box::new(request.clone()) })?;
        let round = copy.round(now);
        let start = round.commands.iter().find_map(|command| match command {
            Command::Start { job: id, placement, estimate, .. } if *id == job => {
                Some(Prospect::Starts { unit: placement.first().map(|part| part.unit), estimate: *estimate })
            }
            _ => None,
        });
        let wait = || round.waits.iter().find(|(id, _)| *id == job).map(|(_, wait)| Prospect::Waits(wait.clone()));
        let refusal = || {
            round.finished.iter().find(|finished| finished.job == job).and_then(|finished| match &finished.end {
                limo_model::JobEnd::Refused { wait } => Some(Prospect::Refused(wait.clone())),
                _ => None,
            })
        };
        let depth = self.settings().options.depth;
        Ok(start.or_else(wait).or_else(refusal).unwrap_or(Prospect::Waits(Wait::Depth { depth })))
    }
}
