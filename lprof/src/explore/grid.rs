//! A list of caps in random order, with runs without a cap before and after it: a machine that warms up or gets other
//! work meanwhile then affects no cap more than another, and the last run shows that it did.

use std::collections::BTreeSet;

use limo_power::Noise;

use crate::machine::Setting;

/// Most caps of a grid.
pub const MOST_CAPS: usize = 100;

/// Most pairs of clocks of a grid.
pub const MOST_PAIRS: usize = 1000;

/// Returns the order of measurements: the original values, the settings in an order that depends on the seed, and the
/// original values again. A setting that is listed twice is measured once.
pub fn order(settings: &[Setting], seed: u64) -> Vec<Setting> {
    let distinct: BTreeSet<Setting> = settings.iter().copied().collect();
    let mut settings: Vec<Setting> = distinct.into_iter().collect();
    let mut noise = Noise::new(seed);
    // Fisher and Yates; the modulo of a number of at most 1000 has no bias that matters.
    for left in (1..settings.len()).rev() {
        let chosen = (noise.next_u64() % (left as u64 + 1)) as usize;
        settings.swap(left, chosen);
    }
    [Setting::Original].into_iter().chain(settings).chain([Setting::Original]).collect()
}

#[cfg(test)]
mod tests {
    use limo_model::Power;

    use super::*;

    #[test]
    fn all_caps_are_between_two_runs_without_one() {
        let caps = [8, 12, 16, 22, 30, 40, 60, 12].map(|watts| Setting::Cap(Power::from_watts(watts)));
        let orders: BTreeSet<Vec<Setting>> = (0..20).map(|seed| order(&caps, seed)).collect();
        assert!(orders.len() > 10, "{} orders of 20 seeds", orders.len());
        for order in orders {
            let (first, last) = (order[0], order[order.len() - 1]);
            assert_eq!((first, last, order.len()), (Setting::Original, Setting::Original, 9));
            let mut sorted = order[1..8].to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, caps[..7]);
        }
        assert_eq!(order(&caps, 7), order(&caps, 7));
    }
}
