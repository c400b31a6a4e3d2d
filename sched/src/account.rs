//! Energy and cost as sums without rounding errors, for pieces of any length.

use std::ops::Range;

use limo_model::{Curve, Energy, Money, Power, Price, Span, Time};
use serde::{Deserialize, Serialize};

/// mW x ms in one mJ.
const PER_MJ: i64 = 1_000;
/// mW x ms x (1/1000 EUR/MWh) in one micro-EUR: 1 MWh is 3.6e15 mW x ms, and 1 EUR/MWh is 1000 units.
const PER_MICRO: i64 = 3_600_000_000_000;

/// Energy and cost of a draw over time. The remainders keep amounts below one unit of energy or money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bill {
    energy: Energy,
    /// The known cost; `None` until a price was known.
    cost: Option<Money>,
    energy_rest: i64,
    cost_rest: i64,
}

impl Bill {
    pub fn energy(&self) -> Energy {
        self.energy
    }

    /// Returns the cost for the time with a known price; `None` without any.
    pub fn cost(&self) -> Option<Money> {
        self.cost
    }

    /// Adds `draw` from `from` to `to` at `prices`; only energy while no price is known.
    pub fn add(&mut self, draw: Power, from: Time, to: Time, prices: Option<&Curve<Price>>) {
        if to <= from {
            return;
        }
        let work = i128::from(draw.mw()) * i128::from((to - from).ms()) + i128::from(self.energy_rest);
        let (whole, rest) = divide(work, PER_MJ);
        self.energy += Energy::from_mj(whole);
        self.energy_rest = rest;
        for (start, end, price) in prices.into_iter().flat_map(|prices| prices.pieces(from, to)) {
            let work = i128::from(draw.mw()) * i128::from((end - start).ms());
            // The product, in units of 1/1000 EUR/MWh x mW x ms: a thousandth of a micro-EUR is exact in them.
            let worth =
                work.saturating_mul(i128::from(price.milli_per_mwh())).saturating_add(i128::from(self.cost_rest));
            let (whole, rest) = divide(worth, PER_MICRO);
            self.cost = Some(self.cost.unwrap_or_default() + Money::from_micro(whole));
            self.cost_rest = rest;
        }
    }
}

/// Returns quotient and remainder, rounded down. Nearly all operands fit 64 bits, which is several times faster.
fn divide(value: i128, by: i64) -> (i64, i64) {
    match i64::try_from(value) {
        Ok(value) => (value.div_euclid(by), value.rem_euclid(by)),
        Err(_) => (narrow(value.div_euclid(i128::from(by))), narrow(value.rem_euclid(i128::from(by)))),
    }
}

/// Remainders are below 3.6e12; quotients outside i64 exceed any real energy.
fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// A sum for each of many nodes, in mJ or micro-EUR. Adding to a run of nodes costs the same for any length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<i64>", into = "Vec<i64>")]
pub(crate) struct NodeSums {
    /// Differences between the sums of neighbouring nodes.
    steps: Vec<i128>,
    /// The sum of the last node.
    last: i128,
}

impl NodeSums {
    /// Adds a node with a sum of zero.
    pub fn push(&mut self) {
        self.steps.push(-self.last);
        self.last = 0;
    }

    /// Adds to the sums of a run of existing nodes.
    pub fn add(&mut self, run: Range<usize>, value: i64) {
        let value = i128::from(value);
        if let Some(step) = self.steps.get_mut(run.start).filter(|_| !run.is_empty()) {
            *step += value;
            match self.steps.get_mut(run.end) {
                Some(step) => *step -= value,
                None => self.last += value,
            }
        }
    }

    /// Returns the sum of a node by adding the differences of all nodes before it.
    pub fn of(&self, node: usize) -> i64 {
        narrow(self.steps.iter().take(node.saturating_add(1)).sum())
    }
}

impl From<NodeSums> for Vec<i64> {
    fn from(sums: NodeSums) -> Self {
        let mut sum = 0;
        let each = sums.steps.iter().map(|step| {
            sum += step;
            narrow(sum)
        });
        each.collect()
    }
}

impl From<Vec<i64>> for NodeSums {
    fn from(sums: Vec<i64>) -> Self {
        let before = [0].into_iter().chain(sums.iter().copied());
        let steps = sums.iter().zip(before).map(|(sum, before)| i128::from(*sum) - i128::from(before));
        Self { steps: steps.collect(), last: i128::from(sums.last().copied().unwrap_or(0)) }
    }
}

/// Returns the cost of `energy`, spread evenly over `span` from `from`, for the part with a known price. `None` without
/// a known price.
pub(crate) fn cost_of(energy: Energy, from: Time, span: Span, prices: Option<&Curve<Price>>) -> Option<Money> {
    priced(energy, from, span, prices).map(|(part, price)| part * price)
}

/// Returns the part of `energy` that has a known price, and the mean of this price.
pub(crate) fn priced(energy: Energy, from: Time, span: Span, prices: Option<&Curve<Price>>) -> Option<(Energy, Price)> {
    let (price, known) = prices?.mean(from, span)?;
    Some((if known < span { energy.scaled(known.ms(), span.ms()) } else { energy }, price))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    #[test]
    fn the_designs_example() {
        // 300 W for 30 min at 80 EUR/MWh: 0.15 kWh, 1.2 ct.
        let mut bill = Bill::default();
        let price = Curve::constant(Price::from_milli_per_mwh(80_000));
        bill.add(Power::from_watts(300), at(0), at(1_800_000), Some(&price));
        assert_eq!((bill.energy(), bill.cost()), (Energy::from_joules(540_000), Some(Money::from_micro(12_000))));
    }

    #[test]
    fn a_cost_is_unknown_until_a_price_is_known() {
        let mut bill = Bill::default();
        let hour = 3_600_000;
        let prices =
            Curve::new(vec![(at(hour), Price::from_milli_per_mwh(80_000))], Some(at(2 * hour))).expect("a curve");
        let kilowatt = Power::from_watts(1_000);
        bill.add(kilowatt, at(0), at(hour), Some(&prices));
        bill.add(kilowatt, at(0), at(hour), None);
        assert_eq!(bill.cost(), None);
        // 1 kWh at 80 EUR/MWh, then an hour without a price.
        bill.add(kilowatt, at(hour), at(3 * hour), Some(&prices));
        assert_eq!((bill.energy(), bill.cost()), ("4 kWh".parse().expect("energy"), Some(Money::from_micro(80_000))));
        let free = Curve::constant(Price::ZERO);
        let mut bill = Bill::default();
        bill.add(kilowatt, at(0), at(hour), Some(&free));
        assert_eq!(bill.cost(), Some(Money::ZERO), "a price of zero is known");
        let cost = |from, span| cost_of(Energy::from_joules(7_200_000), at(from), Span::from_ms(span), Some(&prices));
        // 2 kWh in two hours; one hour has a price.
        assert_eq!(cost(0, 2 * hour), Some(Money::from_micro(80_000)));
        assert_eq!((cost(0, hour), cost(2 * hour, hour)), (None, None));
    }

    #[test]
    fn an_impossible_draw_does_not_wrap() {
        let mut bill = Bill::default();
        bill.add(Power::MAX, at(0), Time::MAX, Some(&Curve::constant(Price::MAX)));
        bill.add(Power::MAX, at(0), Time::MAX, Some(&Curve::constant(Price::MAX)));
        assert_eq!((bill.energy(), bill.cost()), (Energy::MAX, Some(Money::MAX)));
    }

    proptest! {
        /// Compares with one number for each node.
        #[test]
        fn sums_of_runs(adds in proptest::collection::vec((0_usize..20, 0_usize..20, any::<i64>()), 0..30)) {
            let (mut sums, mut naive) = (NodeSums::default(), Vec::new());
            for (index, (from, count, value)) in adds.into_iter().enumerate() {
                if index % 3 == 0 {
                    sums.push();
                    naive.push(0_i128);
                }
                let run = from.min(naive.len())..(from + count).min(naive.len());
                sums.add(run.clone(), value);
                naive[run].iter_mut().for_each(|sum| *sum += i128::from(value));
                let expected: Vec<i64> = naive.iter().copied().map(narrow).collect();
                prop_assert_eq!((0..naive.len()).map(|node| sums.of(node)).collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(Vec::from(sums.clone()), expected);
            }
            let text = serde_json::to_string(&sums).expect("text");
            let again: NodeSums = serde_json::from_str(&text).expect("read back");
            prop_assert_eq!(serde_json::to_string(&again).expect("text"), text);
        }

        /// Any division of the time gives the same sum, which is the integral of the draw.
        #[test]
        fn cuts_do_not_matter(draw in -1_000_000_i64..1_000_000, mut cuts in proptest::collection::vec(0_i64..10_000, 0..20)) {
            let prices = Curve::new(vec![(at(0), Price::from_milli_per_mwh(-83_040)), (at(3_333), Price::from_milli_per_mwh(56_930))], None).expect("ascending");
            let draw = Power::from_mw(draw);
            let (mut whole, mut cut) = (Bill::default(), Bill::default());
            whole.add(draw, at(0), at(10_000), Some(&prices));
            cuts.extend([0, 10_000]);
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                cut.add(draw, at(pair[0]), at(pair[1]), Some(&prices));
            }
            prop_assert_eq!(whole, cut);
            prop_assert_eq!(whole.energy().mj(), (draw.mw() * 10_000).div_euclid(1_000));
        }
    }
}
