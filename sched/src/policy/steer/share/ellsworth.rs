//! `caps=ellsworth`: power is shared among units step by step (Ellsworth et al., SC 2015; the constants are those of the
//! authors' program of power-capping-2018).
//!
//! Idea: each unit has an allocation, its cap; a unit without a cap has the draw that its jobs need. In a step, a unit
//! that draws at least 5 W less than its allocation keeps its draw and 5 W. If none falls by that, and the allocations
//! take the whole limit, those above the equal share give back a tenth of what they have beyond it. The rest of the
//! limit goes to the other units in equal parts. A step follows once no cap has changed for `least_off`, 5 s by default
//! as in the program. Between two steps caps only fall, the highest first, when new jobs or a lower limit require it.
//! Unclear text: in the program idle nodes keep an allocation; here they have none, and leave the whole limit to the
//! others. A unit with exactly 5 W more than it draws gets a part of the rest there, and gives it back in the next
//! step. An allocation does not fall by less than 1 W or 2 % of it. A unit has a cap even if it needs less, as long as
//! the limit is not enough for all, so that the sum of the caps keeps it.

use limo_model::Power;

use super::{Weighted, least_change, level_targets};
use crate::view::View;

/// Power that a unit keeps beyond its draw.
const HEADROOM: Power = Power::from_watts(5);

/// Part of the power beyond its share that a unit keeps when it gives some back, in thousandths.
const KEPT: i64 = 900;

/// Power by which the allocations may be below the limit for each unit while they count as all of it.
const SLACK: Power = Power::from_watts(1);

/// Returns the draw that each unit may have, with at most `budget` in total.
pub(super) fn targets(view: &View<'_>, units: &[&Weighted], budget: Power) -> Vec<Power> {
    let allocated: Vec<Power> = units.iter().map(|unit| unit.allocation(view)).collect();
    let draws: Vec<Power> = units.iter().map(|unit| unit.of.draw).collect();
    let wanted = if is_due(view, units) { step(&draws, &allocated, budget) } else { allocated };
    level_targets(units, &wanted, budget)
}

/// Returns true if no cap of these units has changed for `least_off`.
fn is_due(view: &View<'_>, units: &[&Weighted]) -> bool {
    let changed = units.iter().filter_map(|unit| view.node(unit.of.unit.node)).map(|node| node.caps.changed).max();
    changed.is_none_or(|changed| view.now() - changed >= view.options().least_off)
}

/// Returns the allocations of units with these draws after a step.
fn step(draws: &[Power], allocated: &[Power], budget: Power) -> Vec<Power> {
    let count = |count: usize| i64::try_from(count.max(1)).unwrap_or(i64::MAX);
    let units = count(draws.len());
    let share = budget.scaled(1, units);
    let sum = |all: &[Power]| all.iter().copied().sum::<Power>();
    let fall = |had: Power, less: Power| if had - less < least_change(had) { had } else { less };
    let has_enough: Vec<bool> = draws.iter().zip(allocated).map(|(draw, had)| *draw <= *had - HEADROOM).collect();
    let sunk = |((draw, had), enough): ((&Power, &Power), &bool)| match enough {
        true => fall(*had, *draw + HEADROOM),
        false => *had,
    };
    let mut wanted: Vec<Power> = draws.iter().zip(allocated).zip(&has_enough).map(sunk).collect();
    if wanted == allocated && sum(allocated) + SLACK.scaled(units, 1) >= budget {
        for wanted in wanted.iter_mut().filter(|wanted| **wanted > share) {
            *wanted = fall(*wanted, share + (*wanted - share).scaled(KEPT, 1_000));
        }
    }
    let others = has_enough.iter().filter(|enough| !**enough).count();
    let more = (budget - sum(&wanted)).at_least_zero().scaled(1, count(others));
    wanted.iter_mut().zip(&has_enough).filter(|(_, enough)| !**enough).for_each(|(wanted, _)| *wanted += more);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a step under 200 W: draws and allocations in watts, and the allocations after it in milliwatts.
    fn check(draws: &[i64], allocated: &[i64], after: &[i64]) {
        let watts = |all: &[i64]| all.iter().map(|of| Power::from_watts(*of)).collect::<Vec<_>>();
        let found = step(&watts(draws), &watts(allocated), Power::from_watts(200));
        assert_eq!(found.iter().map(|of| of.mw()).collect::<Vec<_>>(), after, "{draws:?} {allocated:?}");
    }

    #[test]
    fn a_unit_that_draws_little_leaves_its_power_to_the_others() {
        // 25 W remain for the first one, and 25 W for the three others: 8.333 W each.
        check(&[20, 50, 50, 50], &[50, 50, 50, 50], &[25_000, 58_333, 58_333, 58_333]);
        // A unit that draws 5 W less than its allocation keeps it.
        check(&[45, 50, 50, 50], &[50, 50, 50, 50], &[50_000, 50_000, 50_000, 50_000]);
        // All leave power: nobody gets it.
        check(&[20, 30, 30, 30], &[50, 50, 50, 50], &[25_000, 35_000, 35_000, 35_000]);
    }

    #[test]
    fn units_above_the_share_give_back_a_tenth_of_it() {
        // The share is 50 W: 80 W fall by 3 W, which all get in equal parts.
        check(&[80, 40, 40, 40], &[80, 40, 40, 40], &[77_750, 40_750, 40_750, 40_750]);
        // The allocations are 10 W below the limit, more than 1 W for each unit: none gives back, all get 2.5 W.
        check(&[70, 40, 40, 40], &[70, 40, 40, 40], &[72_500, 42_500, 42_500, 42_500]);
        // A tenth of 5 W is less than 2 % of 55 W.
        check(&[55, 55, 45, 45], &[55, 55, 45, 45], &[55_000, 55_000, 45_000, 45_000]);
    }
}
