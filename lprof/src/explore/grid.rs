//! A list of caps in random order, with runs without a cap before and after it: a machine that warms up or gets other
//! work meanwhile then affects no cap more than another, and the last run shows that it did.

use std::collections::BTreeSet;

use limo_model::Power;
use limo_power::Noise;

/// Most caps of a grid.
pub const MOST_CAPS: usize = 100;

/// Returns the order of measurements: without a cap, the caps in an order that depends on the seed, and without a cap
/// again. A cap that is listed twice is measured once.
pub fn order(caps: &[Power], seed: u64) -> Vec<Option<Power>> {
    let distinct: BTreeSet<Power> = caps.iter().copied().collect();
    let mut caps: Vec<Power> = distinct.into_iter().collect();
    let mut noise = Noise::new(seed);
    // Fisher and Yates; the modulo of a number of at most 100 has no bias that matters.
    for left in (1..caps.len()).rev() {
        let chosen = (noise.next_u64() % (left as u64 + 1)) as usize;
        caps.swap(left, chosen);
    }
    let caps = caps.into_iter().map(Some);
    [None].into_iter().chain(caps).chain([None]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_caps_are_between_two_runs_without_one() {
        let caps: Vec<Power> = [8, 12, 16, 22, 30, 40, 60, 12].map(Power::from_watts).to_vec();
        let orders: BTreeSet<Vec<Option<Power>>> = (0..20).map(|seed| order(&caps, seed)).collect();
        assert!(orders.len() > 10, "{} orders of 20 seeds", orders.len());
        for order in orders {
            let (first, last) = (order[0], order[order.len() - 1]);
            assert_eq!((first, last, order.len()), (None, None, 9));
            let mut sorted: Vec<Power> = order.into_iter().flatten().collect();
            sorted.sort_unstable();
            assert_eq!(sorted, caps[..7]);
        }
        assert_eq!(order(&caps, 7), order(&caps, 7));
    }
}
