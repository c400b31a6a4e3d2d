//! Formats a status on one line: the draw within its band, the mode, the price.

use limo_model::{Band, Power, Price};
use limo_proto::Status;

use crate::table::marked;
use limo_json::Clock;

/// Width of the gauge, in characters.
const CELLS: i64 = 20;

/// Formats a gauge, such as `40.0 W [##########..........] 60.0 W, inside`.
pub fn gauge(draw: Power, band: Band, emulated: bool) -> String {
    let (low, high) = (band.low(), band.high());
    let place = if draw < low {
        format!("below by {}", marked(low - draw, emulated))
    } else if draw > high {
        format!("above by {}", marked(draw - high, emulated))
    } else {
        "inside".into()
    };
    if high.is_unlimited() {
        return if low.is_zero() { "no limits".into() } else { format!("from {low} on, no upper limit, {place}") };
    }
    let width = (high - low).mw().max(1);
    let filled = (draw - low).at_least_zero().scaled(CELLS, width).mw().min(CELLS);
    let cells: String = (0..CELLS).map(|cell| if cell < filled { '#' } else { '.' }).collect();
    format!("{low} [{cells}] {high}, {place}")
}

/// Formats a band: `40.0 W to 60.0 W`.
pub fn band_in_words(band: Band) -> String {
    match (band.low().is_zero(), band.high().is_unlimited()) {
        (true, true) => "no limits".into(),
        (true, false) => format!("at most {}", band.high()),
        (false, true) => format!("at least {}", band.low()),
        (false, false) => format!("{} to {}", band.low(), band.high()),
    }
}

/// Formats the mode: `auto, now high`, or only the mode if an operator chose it.
pub fn mode_in_words(status: &Status) -> String {
    let (setting, mode) = (status.mode_setting.to_string(), status.mode.to_string());
    if setting == mode { mode } else { format!("{setting}, now {mode}") }
}

/// Formats the current price with the time of its next change, or of its end if there is none.
pub fn price_in_words(status: &Status, clock: &Clock) -> String {
    let in_words = |price: Option<Price>| price.map_or_else(|| "unknown".into(), |price| price.to_string());
    let mut text = in_words(status.price);
    if let Some((at, price)) = status.next_price {
        text += &format!("; from {} {}", clock.show(at), in_words(price));
    }
    if let Some(at) = status.prices_ended {
        text += &format!("; the prices ended at {}", clock.show(at));
    }
    text
}

/// Formats the time of the next change of the limits, or of their end if they do not change; follows the present
/// limits.
pub fn limits_to_come(status: &Status, clock: &Clock) -> String {
    let mut text = String::new();
    if let Some((at, band)) = status.next_band {
        text += &format!("; from {} {}", clock.show(at), band_in_words(band));
    }
    if let Some(at) = status.limits_ended {
        text += &format!("; the limits that were set ended at {}", clock.show(at));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(draw: i64, low: i64, high: Option<i64>, expected: &str) {
        let high = high.map_or(Power::MAX, Power::from_watts);
        let band = Band::new(Power::from_watts(low), high).expect("a band");
        assert_eq!(gauge(Power::from_watts(draw), band, false), expected);
    }

    #[test]
    fn gauges_show_the_draw_within_its_band() {
        check(50, 40, Some(60), "40.0 W [##########..........] 60.0 W, inside");
        check(40, 40, Some(60), "40.0 W [....................] 60.0 W, inside");
        check(60, 40, Some(60), "40.0 W [####################] 60.0 W, inside");
        check(75, 40, Some(60), "40.0 W [####################] 60.0 W, above by 15.0 W");
        check(35, 40, Some(60), "40.0 W [....................] 60.0 W, below by 5.0 W");
        check(50, 50, Some(50), "50.0 W [....................] 50.0 W, inside");
        check(50, 0, None, "no limits");
        check(30, 40, None, "from 40.0 W on, no upper limit, below by 10.0 W");
    }
}
