//! The draw of groups of nodes, counted from the whole record; and the cost of energy there.

use limo_model::decimal::divide;
use limo_model::{Energy, JobId, Money, NodeId, Part, Power, Price, Span, Tariff, Time};

use super::State;
use crate::account::priced;

impl State {
    /// Counts the believed draw of each group, in the order of their names: its part of [`super::Sums::draw`].
    pub(crate) fn group_draws(&self) -> Vec<Power> {
        let mut draws = vec![Power::ZERO; self.settings.groups.iter().count()];
        if draws.is_empty() {
            return draws;
        }
        let mut add = |node: NodeId, more: Power| {
            if let Some(draw) = self.node(node).and_then(|of| draws.get_mut(of.group()?)) {
                *draw += more;
            }
        };
        self.nodes.iter().for_each(|node| add(node.id, node.own));
        let hidden = |id: JobId| {
            let (job, assignment) = self.jobs.get(id).and_then(|job| Some((job, job.assignment()?)))?;
            let is_seen = move |node| job.running().is_some_and(|running| running.seen_on.contains(&node));
            Some(assignment.draw_by_unit().filter(move |(unit, _)| !is_seen(unit.node)))
        };
        for (unit, share) in self.active.iter().filter_map(hidden).flatten() {
            add(unit.node, share);
        }
        draws
    }

    /// Returns the cost of a job's energy on its nodes, spread evenly over `span` from `from`, for the part with a known
    /// price. `None` without a known price.
    pub(crate) fn cost_on(&self, placement: &[Part], energy: Energy, (from, span): (Time, Span)) -> Option<Money> {
        let (part, price) = priced(energy, from, span, self.settings.prices.as_ref())?;
        Some(part * self.price_on(placement, price))
    }

    /// Returns the price of a job's energy while the cluster has this price: that of the groups of its nodes, by the cores
    /// that the job has in each.
    pub(crate) fn price_on(&self, placement: &[Part], price: Price) -> Price {
        let groups = &self.settings.groups;
        if !groups.have_tariffs() {
            return price;
        }
        let tariffs: Vec<Tariff> = groups.iter().map(|(_, spec)| spec.tariff).collect();
        let (mut sum, mut cores) = (0, 0);
        for (node, weight) in placement.iter().flat_map(|part| part.nodes().map(|node| (node, i128::from(part.cores))))
        {
            let group = self.node(node).and_then(|node| tariffs.get(node.group()?));
            let its_price = group.map_or(price, |tariff| tariff.price(price));
            sum += i128::from(its_price.milli_per_mwh()) * weight;
            cores += weight;
        }
        if cores == 0 {
            price
        } else {
            Price::from_milli_per_mwh(i64::try_from(divide(sum, cores)).unwrap_or(i64::MAX))
        }
    }
}
