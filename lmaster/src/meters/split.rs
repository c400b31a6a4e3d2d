//! Divides one meter's value over the nodes that it serves. Pure.

use limo_model::Power;

/// Returns parts of `total` in proportion to `beliefs`, in their order, which add up to it exactly. Parts are rounded
/// down to mW. The remainder goes, 1 mW each, to the parts that rounding reduced most; among equal ones the first
/// comes first. A negative belief counts as zero. If all beliefs are zero, all parts are equal. A negative `total`
/// counts as zero.
pub fn split(total: Power, beliefs: &[Power]) -> Vec<Power> {
    let total = i128::from(total.mw().max(0));
    let mut weights: Vec<i128> = beliefs.iter().map(|belief| i128::from(belief.mw().max(0))).collect();
    if weights.iter().all(|weight| *weight == 0) {
        weights.fill(1);
    }
    let sum: i128 = weights.iter().sum::<i128>().max(1);
    let mut parts: Vec<i128> = weights.iter().map(|weight| total * weight / sum).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(total * weights[*index] % sum));
    // Each part lacks less than 1 mW, so the remainder is smaller than the number of parts.
    let left = usize::try_from(total - parts.iter().sum::<i128>()).unwrap_or(0);
    for index in order.into_iter().take(left) {
        parts[index] += 1;
    }
    parts.into_iter().map(|part| Power::from_mw(i64::try_from(part).unwrap_or(i64::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(total: i64, beliefs: &[i64], expected: &[i64]) {
        let beliefs: Vec<Power> = beliefs.iter().map(|mw| Power::from_mw(*mw)).collect();
        let parts: Vec<i64> = split(Power::from_mw(total), &beliefs).into_iter().map(Power::mw).collect();
        assert_eq!(parts, expected);
    }

    #[test]
    fn in_proportion_and_exactly() {
        check(90_000, &[10_000, 20_000], &[30_000, 60_000]);
        check(100, &[1, 1, 1], &[34, 33, 33]);
        check(10, &[0, 0, 0], &[4, 3, 3]);
        check(10, &[-5, 5], &[0, 10]);
        check(0, &[1, 2], &[0, 0]);
        check(7, &[], &[]);
        // Rounding reduces two thirds more than one third.
        check(2, &[1, 2], &[1, 1]);
    }

    proptest! {
        #[test]
        fn parts_add_up_and_none_is_negative(
            total in 0_i64..=i64::MAX,
            beliefs in prop::collection::vec(any::<i64>(), 1..50),
        ) {
            let beliefs: Vec<Power> = beliefs.into_iter().map(Power::from_mw).collect();
            let parts = split(Power::from_mw(total), &beliefs);
            prop_assert_eq!(parts.len(), beliefs.len());
            prop_assert_eq!(parts.iter().map(|part| i128::from(part.mw())).sum::<i128>(), i128::from(total));
            prop_assert!(parts.iter().all(|part| *part >= Power::ZERO));
            let sum: i128 = beliefs.iter().map(|belief| i128::from(belief.mw().max(0))).sum();
            for (part, belief) in parts.iter().zip(&beliefs).filter(|_| sum > 0) {
                let exact = i128::from(total) * i128::from(belief.mw().max(0));
                prop_assert!((i128::from(part.mw()) * sum - exact).abs() < sum, "{part} for {belief}");
            }
        }
    }
}
