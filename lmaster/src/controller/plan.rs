//! The future of the cluster: limits, prices, and the starts that the policy plans.

use limo_model::{Band, Span, Time};
use limo_proto::{Answer, PlanQuery, PlanReport, PlannedJob, STARTS_LIMIT, STEPS_LIMIT, encoded_len};

use super::pages::PAGE;
use super::queries::Serve;
use super::{Controller, PeerId};
use crate::report;

impl Serve for PlanQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let report = controller.plan(self);
        controller.say(peer, Answer::Plan(Box::new(report)));
    }
}

/// Time for which planned starts are shared by all who ask: making them costs as much as a round.
const FRESH: Span = Span::from_ms(1_000);

/// The starts that were planned last, for one moment.
#[derive(Debug, Default)]
pub struct Planned {
    at: Option<Time>,
    starts: Vec<PlannedJob>,
    more: u32,
}

impl Controller {
    fn plan(&mut self, PlanQuery { from, until }: PlanQuery) -> PlanReport {
        let now = self.tx.now;
        if !self.planned.at.is_some_and(|at| at <= now && now - at < FRESH) {
            self.planned = self.planned_now();
        }
        let core = &self.tx.core;
        let clock = core.clock();
        // Curves of limits and prices have times of the core.
        let (from, until) = (clock.cluster(from), clock.cluster(until));
        let is_before = |at: &Time| *at < until;
        let limits = &core.settings().limits;
        let first = limits.is_limited().then(|| (from, limits.band(from)));
        let limits = first.into_iter().chain(limits.bands(from).filter(|_| first.is_some()));
        let limits: Vec<(Time, Band)> = limits.take_while(|(at, _)| is_before(at)).take(STEPS_LIMIT).collect();
        let prices = core.prices().into_iter().flat_map(|prices| {
            let first = (from, prices.at(from).copied());
            std::iter::once(first).chain(prices.changes(from).map(|(at, price)| (at, price.copied())))
        });
        let prices = prices.take_while(|(at, _)| is_before(at)).take(STEPS_LIMIT);
        PlanReport {
            limits: limits.into_iter().map(|(at, band)| (clock.shown(at), band)).collect(),
            prices: prices.map(|(at, price)| (clock.shown(at), price)).collect(),
            starts: self.planned.starts.clone(),
            more: self.planned.more,
        }
    }

    fn planned_now(&self) -> Planned {
        let (core, now) = (&self.tx.core, self.tx.now);
        let clock = core.clock();
        let mut starts = Vec::new();
        let (mut size, mut more) = (0, 0);
        let mut planned: Vec<_> = core.planned_starts(now).collect();
        planned.sort_by_key(|(job, start)| (start.at, *job));
        for (id, start) in planned {
            let Some(job) = core.job(id) else { continue };
            let planned = PlannedJob {
                job: id,
                user: job.request.user.clone(),
                name: job.request.name.clone(),
                at: clock.shown(start.at),
                time_limit: job.request.time_limit,
                place: report::place(core, start.place),
            };
            size += encoded_len(&planned);
            if starts.len() >= STARTS_LIMIT || size > PAGE {
                more += 1;
            } else {
                starts.push(planned);
            }
        }
        Planned { at: Some(now), starts, more }
    }
}
