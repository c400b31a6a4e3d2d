//! Cost and carbon of the energy of groups of nodes (htc-sim-2015, section III-H).

use limo_model::decimal::divide;
use limo_model::{Curve, Money, Price, Tariff, Time};
use limo_sched::Core;

use crate::engine::ledger::Spent;

/// Energy of a node in µJ (mW x ms), and its worth at the prices of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priced {
    pub uj: i128,
    /// Part of the energy that has a known price.
    pub known_uj: i128,
    /// Sum of this part x price, in µJ x 1/1000 EUR per MWh.
    pub worth: i128,
}

impl Priced {
    /// Adds the energy of a draw from `from` to `to`.
    pub fn add(&mut self, mw: i64, (from, to): (Time, Time), prices: Option<&Curve<Price>>) {
        let Some(prices) = prices else { return };
        for (from, to, price) in prices.pieces(from, to) {
            let uj = i128::from(mw) * i128::from((to - from).ms());
            self.known_uj += uj;
            self.worth += uj * i128::from(price.milli_per_mwh());
        }
    }
}

/// Energy of a group, its cost and its carbon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBill {
    pub group: String,
    /// Energy of its nodes, in µJ.
    pub uj: i128,
    /// Energy of its facility, in µJ.
    pub facility_uj: i128,
    /// Cost of the energy of the facility with the charge for carbon, for the time with a known price. `None` without a
    /// known price.
    pub cost: Option<Money>,
    pub carbon_mg: i128,
    /// Charge for all of the carbon.
    pub charge: Money,
}

/// Returns the bill of each group of the configuration. Nodes of no group have none.
pub fn bills(core: &Core, of_nodes: &[Priced]) -> Vec<GroupBill> {
    let of_group = |(name, spec): (&str, &limo_model::GroupSpec)| {
        let nodes = spec.nodes.iter().filter_map(|node| of_nodes.get(core.node_named(node)?.id().0 as usize));
        let sum = nodes.fold(Priced::default(), |sum, of| Priced {
            uj: sum.uj + of.uj,
            known_uj: sum.known_uj + of.known_uj,
            worth: sum.worth + of.worth,
        });
        bill(name, &spec.tariff, sum)
    };
    core.settings().groups.iter().map(of_group).collect()
}

fn bill(group: &str, tariff: &Tariff, of: Priced) -> GroupBill {
    let facility = |uj: i128| uj * i128::from(tariff.pue.permille());
    // 1 kWh is 3.6e12 µJ; the energy is in thousandths of these because of the ratio.
    let carbon = |uj: i128| divide(facility(uj) * i128::from(tariff.carbon.mg_per_kwh()), 3_600_000_000_000_000);
    // 1/1000 EUR per t is 1e-6 micro-EUR per mg.
    let charge = |mg: i128| money(divide(mg * i128::from(tariff.charge.milli_per_t()), 1_000_000));
    // 1 MWh is 3.6e15 µJ, and a price unit is 1,000 micro-EUR per MWh; two ratios are in thousandths.
    let energy = facility(of.worth) * i128::from(tariff.price_factor.permille());
    let cost = money(divide(energy, 3_600_000_000_000_000_000)) + charge(carbon(of.known_uj));
    GroupBill {
        group: group.to_owned(),
        uj: of.uj,
        facility_uj: divide(facility(of.uj), 1_000),
        cost: (of.known_uj != 0).then_some(cost),
        carbon_mg: carbon(of.uj),
        charge: charge(carbon(of.uj)),
    }
}

fn money(micro: i128) -> Money {
    Money::from_micro(i64::try_from(micro).unwrap_or(i64::MAX))
}

/// Returns the energy of a node in all of its states.
pub fn all_uj(spent: &[Spent]) -> i128 {
    spent.iter().map(|of| of.uj).sum()
}

#[cfg(test)]
mod tests {
    use limo_model::Span;

    use super::*;

    /// A node draws 100 W for 36 h. In the first 12 h a price of 80 EUR/MWh is known, then one of 20 EUR/MWh for 12 h.
    #[test]
    fn a_group_pays_for_the_energy_of_its_facility_and_its_carbon() {
        let hours = |hours: i64| Time::from_unix_ms(0) + Span::from_secs(3_600 * hours);
        let price = |eur: i64| Price::from_milli_per_mwh(1_000 * eur);
        let prices = Curve::new(vec![(hours(0), price(80)), (hours(12), price(20))], Some(hours(24))).expect("a curve");
        let keys = ("1.5".parse().ok(), "1.25".parse().ok());
        let tariff = Tariff::of_keys(keys, ("300 g/kWh".parse().ok(), "80 EUR/t".parse().ok()));
        let mut of = Priced { uj: 3_600 * 3_600_000_000, ..Priced::default() };
        of.add(100_000, (hours(0), hours(36)), Some(&prices));
        let found = bill("g", &tariff, of);
        // 3.6 kWh of the node are 5.4 kWh of the facility and 1.62 kg, which costs 0.1296 EUR.
        assert_eq!((found.uj, found.facility_uj), (12_960_000_000_000, 19_440_000_000_000));
        assert_eq!((found.carbon_mg, found.charge), (1_620_000, Money::from_micro(129_600)));
        // 1.8 kWh at 100 and at 25 EUR/MWh cost 0.18 and 0.045 EUR; two thirds of the carbon are charged in this time.
        assert_eq!(found.cost, Some(Money::from_micro(180_000 + 45_000 + 86_400)));
        assert_eq!(bill("g", &tariff, Priced { uj: 1, ..Priced::default() }).cost, None);
    }
}
