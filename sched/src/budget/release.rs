//! The release of a budget's energy over its period (energy-budget-2017, IV-B, rule 1; VI for prices).

use limo_model::{Budget, Curve, Energy, Power, Price, Release, Time};
use thiserror::Error;

use super::{UJ_PER_MJ, narrow};

/// Error for a budget that no schedule can keep.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the budget of {energy} is impossible: the cluster at rest draws {floor}, which is {least} over the period of \
     {span}; give at least that"
)]
pub struct Impossible {
    pub energy: Energy,
    pub floor: Power,
    pub least: Energy,
    pub span: limo_model::Span,
}

/// Returns the least energy that the cluster can use in the period of `budget`: the draw `floor` all the time. This is
/// the idle draw, or the draw of sleeping nodes if the policy lets them sleep.
pub fn least(budget: &Budget, floor: Power) -> Energy {
    floor * budget.span()
}

/// Checks that a budget is possible.
///
/// # Errors
/// [`Impossible`] if `budget` is below [`least`].
pub fn possible(budget: &Budget, floor: Power) -> Result<(), Impossible> {
    let least = least(budget, floor);
    if budget.energy < least {
        return Err(Impossible { energy: budget.energy, floor, least, span: budget.span() });
    }
    Ok(())
}

/// Returns the rate at which `budget` is released: each power holds from its time until the next one, the last until
/// the end of the period. The powers are rounded down to whole mW, so that the sum over the period never exceeds the
/// budget.
///
/// `Even`: B / (te - ts). `ByPrice`: `floor`, the draw without jobs, is released all the time, limited to the even
/// rate. The rest of the budget is divided in proportion to (highest price of the period - price). Times with an
/// unknown price have the mean of the known prices. If all prices are equal or unknown, the release is even.
///
/// When prices or nodes change within the period, the rest of the budget, [`super::Counter::rest`], is released anew.
pub fn release(budget: &Budget, floor: Power, prices: Option<&Curve<Price>>) -> Vec<(Time, Power)> {
    let span = i128::from(budget.span().ms().max(1));
    let energy = i128::from(budget.energy.mj()) * UJ_PER_MJ;
    let even = energy.div_euclid(span);
    let weighted = match (budget.release, prices) {
        (Release::ByPrice, Some(prices)) => weights(budget, prices),
        _ => None,
    };
    let Some(weights) = weighted else { return vec![(budget.from, Power::from_mw(narrow(even)))] };
    let floor = i128::from(floor.mw()).clamp(0, even.max(0));
    let extra = energy - floor * span;
    let ends = weights.iter().skip(1).map(|(start, _)| *start).chain([budget.until]);
    let pieces =
        weights.iter().zip(ends).map(|((start, weight), end)| (*start, i128::from((end - *start).ms()), *weight));
    // Weights are below 2^32, lengths below 2^63, energies below 2^73: no product leaves i128.
    let total: i128 = pieces.clone().map(|(_, length, weight)| length * weight).sum();
    let mut steps: Vec<(Time, Power)> = Vec::new();
    for (start, _, weight) in pieces {
        let power = Power::from_mw(narrow(floor + (extra * weight).div_euclid(total.max(1))));
        if steps.last().is_none_or(|(_, last)| *last != power) {
            steps.push((start, power));
        }
    }
    steps
}

/// Returns the price advantage of each piece of the period over the most expensive one, in steps; `None` if all prices
/// are equal.
fn weights(budget: &Budget, prices: &Curve<Price>) -> Option<Vec<(Time, i128)>> {
    let known = prices.until().map_or(budget.until, |until| until.min(budget.until));
    let mut steps: Vec<(Time, i128)> =
        prices.pieces(budget.from, known).map(|(start, _, price)| (start, i128::from(price.milli_per_mwh()))).collect();
    let (highest, lowest) = (steps.iter().map(|step| step.1).max()?, steps.iter().map(|step| step.1).min()?);
    if highest == lowest {
        return None;
    }
    let (mean, _) = prices.mean(budget.from, known - budget.from)?;
    let mean = i128::from(mean.milli_per_mwh());
    if steps.first().is_some_and(|(start, _)| budget.from < *start) {
        steps.insert(0, (budget.from, mean));
    }
    if known < budget.until {
        steps.push((known, mean));
    }
    // Real prices differ by less than 2^32 (4 million EUR/MWh); larger differences count only by their leading bits.
    let excess_bits = (128 - (highest - lowest).leading_zeros()).saturating_sub(32);
    Some(steps.into_iter().map(|(start, price)| (start, (highest - price) >> excess_bits)).collect())
}

/// Returns the µJ that `steps` release in `[from, to)`: nothing before the first step, the last step without end.
pub fn released(steps: &[(Time, Power)], from: Time, to: Time) -> i128 {
    let ends = steps.iter().skip(1).map(|(start, _)| *start).chain([Time::MAX]);
    let pieces = steps.iter().zip(ends).map(|((start, power), end)| {
        let length = (end.min(to) - (*start).max(from)).ms().max(0);
        i128::from(power.mw()) * i128::from(length)
    });
    pieces.fold(0, i128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn budget(from: i64, until: i64, mj: i64, release: Release) -> Budget {
        Budget { from: at(from), until: at(until), energy: Energy::from_mj(mj), release }
    }

    fn curve(steps: &[(i64, i64)], until: Option<i64>) -> Curve<Price> {
        let steps = steps.iter().map(|(ms, eur)| (at(*ms), Price::from_milli_per_mwh(eur * 1_000))).collect();
        Curve::new(steps, until.map(at)).expect("ascending")
    }

    fn check(budget: &Budget, floor: i64, prices: Option<&Curve<Price>>, expected: &[(i64, i64)]) {
        let steps = release(budget, Power::from_mw(floor), prices);
        let steps: Vec<_> = steps.iter().map(|(time, power)| (time.unix_ms(), power.mw())).collect();
        assert_eq!(steps, expected);
    }

    #[test]
    fn even_is_the_budget_over_its_length() {
        // 30 % of 16 nodes of 203.12 W for three days: 0.3 x 16 x 203.12 W = 974.976 W.
        let days = 3 * 86_400_000;
        check(&budget(days, 2 * days, 974_976 * 3 * 86_400, Release::Even), 0, None, &[(days, 974_976)]);
        // 10 mJ over 3 s are 10,000 uJ over 3,000 ms: 3.33 mW, rounded down.
        check(&budget(0, 3_000, 10, Release::Even), 1, None, &[(0, 3)]);
    }

    #[test]
    fn by_price_gives_the_dearest_hour_the_floor_only() {
        // 100 J over 40 s; the floor of 1 W takes 40 J, and 60 J are left. The prices 80, 20, 50, 80 for 10 s each
        // give the weights 0, 60, 30, 0: two thirds (40 J, 4 W) and one third (20 J, 2 W).
        let prices = curve(&[(0, 80), (10_000, 20), (20_000, 50), (30_000, 80)], None);
        let by_price = budget(0, 40_000, 100_000, Release::ByPrice);
        check(&by_price, 1_000, Some(&prices), &[(0, 1_000), (10_000, 5_000), (20_000, 3_000), (30_000, 1_000)]);
        // Prices are known for the first 20 s only; the rest counts as their mean, 50. The weights are 0, 60, 30, 30
        // for 10 s each, of 120.
        let prices = curve(&[(0, 80), (10_000, 20)], Some(20_000));
        check(&by_price, 1_000, Some(&prices), &[(0, 1_000), (10_000, 4_000), (20_000, 2_500)]);
    }

    #[test]
    fn without_a_difference_in_price_it_is_even() {
        let by_price = budget(0, 40_000, 100_000, Release::ByPrice);
        check(&by_price, 1_000, None, &[(0, 2_500)]);
        check(&by_price, 1_000, Some(&curve(&[(0, 80), (10_000, 80), (50_000, 1)], None)), &[(0, 2_500)]);
        check(&by_price, 1_000, Some(&curve(&[(-10, 80), (-5, 20)], Some(0))), &[(0, 2_500)]);
        let even = budget(0, 40_000, 100_000, Release::Even);
        check(&even, 1_000, Some(&curve(&[(0, 80), (10_000, 20)], None)), &[(0, 2_500)]);
    }

    #[test]
    fn a_budget_below_the_draw_at_rest_is_named() {
        // 1.6 kW idle for an hour is 1.6 kWh.
        let hour = budget(0, 3_600_000, 3_600_000 * 1_500, Release::Even);
        assert_eq!(possible(&hour, Power::from_watts(1_500)), Ok(()));
        let error = possible(&hour, Power::from_watts(1_600)).map_err(|e| e.to_string());
        let expected = "the budget of 1.500 kWh is impossible: the cluster at rest draws 1600.0 W, which is 1.600 kWh \
                        over the period of 1h; give at least that";
        assert_eq!(error, Err(expected.into()));
    }

    proptest! {
        /// The release never exceeds the budget, and misses less than 1 mW of it at any time.
        #[test]
        fn the_sum_is_the_budget_rounded_down(
            mj in 0_i64..100_000, span in 1_i64..5_000, floor in 0_i64..30_000,
            prices in proptest::collection::btree_map(-100_i64..6_000, -100_i64..100, 1..8),
            far in prop_oneof![Just(1_i64), Just(i64::MAX / 200_000)],
        ) {
            let steps: Vec<_> = prices.into_iter().map(|(ms, price)| (ms, price * far)).collect();
            let budget = budget(0, span, mj, Release::ByPrice);
            let steps = release(&budget, Power::from_mw(floor), Some(&curve(&steps, None)));
            let sum = released(&steps, budget.from, budget.until);
            let whole = i128::from(mj) * 1_000;
            prop_assert!(sum <= whole && whole - sum <= i128::from(span), "{sum} of {whole}");
            let even = whole / i128::from(span);
            prop_assert!(steps.iter().all(|(_, power)| i128::from(power.mw()) >= i128::from(floor).min(even)));
        }
    }
}
