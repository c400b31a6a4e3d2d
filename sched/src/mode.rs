//! The operation mode: the top of the band while energy is cheap, the bottom while it is expensive (limo-2018, 3.1.3, 3.3.3).

use limo_model::{Curve, Mode, ModeSetting, Price, Time};

use crate::options::PriceRule;
use crate::state::Settings;

/// Puts the mode that an operator set into force at once.
pub(crate) fn follow_setting(settings: &mut Settings) {
    match settings.mode_setting {
        ModeSetting::High => settings.mode = Mode::High,
        ModeSetting::Low => settings.mode = Mode::Low,
        ModeSetting::Auto => {}
    }
}

/// Derives the mode from the price. Within the hysteresis around the turning point the mode is unchanged. Without a
/// known price energy counts as cheap.
pub(crate) fn follow_price(settings: &mut Settings, now: Time) {
    if settings.mode_setting != ModeSetting::Auto {
        return;
    }
    let price = settings.prices.as_ref().and_then(|prices| Some((prices, *prices.at(now)?)));
    let Some((prices, price)) = price else {
        settings.mode = Mode::High;
        return;
    };
    let Some(turn) = turning_price(prices, settings.options.price_rule) else { return };
    let hysteresis = settings.options.price_hysteresis;
    if price > turn + hysteresis {
        settings.mode = Mode::Low;
    } else if price < turn - hysteresis {
        settings.mode = Mode::High;
    }
}

/// Returns the price above which energy is expensive. A curve with one price has no useful quantile.
pub(crate) fn turning_price(prices: &Curve<Price>, rule: PriceRule) -> Option<Price> {
    match rule {
        PriceRule::Threshold(price) => Some(price),
        PriceRule::QuantilePermille(permille) => quantile(prices, permille),
    }
}

/// Returns the quantile of the known prices, weighted by time; between two prices, their middle. The last step counts
/// to the end of the curve; without an end, as long as the step before it.
fn quantile(prices: &Curve<Price>, permille: u32) -> Option<Price> {
    let steps = prices.steps();
    let [.., before, last] = steps else { return None };
    let end = prices.until().unwrap_or(last.0 + (last.0 - before.0));
    let mut weights: Vec<(Price, i64)> =
        prices.pieces(steps[0].0, end).map(|(start, end, price)| (*price, (end - start).ms())).collect();
    weights.sort_unstable();
    let total: i128 = weights.iter().map(|(_, weight)| i128::from(*weight)).sum();
    let wanted = total * i128::from(permille.min(1_000));
    let mut below: i128 = 0;
    for (index, (price, weight)) in weights.iter().enumerate() {
        below += i128::from(*weight);
        if below * 1_000 >= wanted {
            let next = weights.get(index + 1).filter(|_| below * 1_000 == wanted).map_or(*price, |(next, _)| *next);
            return Some(*price + (next - *price).scaled(1, 2));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs through hourly prices; returns the mode in each hour.
    fn check(hours: &[i64], rule: PriceRule, expected: &str) {
        let hour = |index: usize| Time::from_unix_ms(index as i64 * 3_600_000);
        let price = |eur: i64| Price::from_milli_per_mwh(eur * 1_000);
        let steps = hours.iter().enumerate().map(|(index, eur)| (hour(index), price(*eur))).collect();
        let mut settings =
            Settings { prices: Some(Curve::new(steps, None).expect("ascending")), ..Settings::default() };
        settings.options.price_rule = rule;
        settings.options.price_hysteresis = price(2);
        let mut modes = String::new();
        for index in 0..hours.len() {
            follow_price(&mut settings, hour(index));
            modes.push(if settings.mode == Mode::High { 'h' } else { 'l' });
        }
        assert_eq!(modes, expected, "{hours:?}");
    }

    #[test]
    fn a_threshold_turns_the_mode_with_hysteresis() {
        let threshold = PriceRule::Threshold(Price::from_milli_per_mwh(50_000));
        check(&[40, 51, 53, 49, 47, 51, 52], threshold, "hhllhhh");
    }

    #[test]
    fn the_turning_price_is_the_median_of_the_known_prices() {
        // Sorted: -80 -70 10 20 30 40. The mode turns between 10 and 20.
        check(&[40, 30, 20, 10, -70, -80], PriceRule::QuantilePermille(500), "lllhhh");
        // Sorted: 10 20 20 20 30: the quantile is 20, and at 20 the mode is unchanged.
        check(&[20, 30, 20, 10, 20], PriceRule::QuantilePermille(500), "hllhh");
        check(&[40], PriceRule::QuantilePermille(500), "h");
    }

    #[test]
    fn the_mode_of_the_operator_overrides_the_price() {
        let mut settings = Settings { mode_setting: ModeSetting::Low, ..Settings::default() };
        follow_setting(&mut settings);
        follow_price(&mut settings, Time::from_unix_ms(0));
        assert_eq!(settings.mode, Mode::Low);
    }
}
