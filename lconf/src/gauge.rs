//! A draw inside its band, in one line of text.

use limo_client::marked;
use limo_model::{Band, Power};

/// Finer than a glance tells apart.
const CELLS: i64 = 20;

/// For example `40.0 W [##########..........] 60.0 W, inside`.
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

/// A band in words: `40.0 W to 60.0 W`.
pub fn band_in_words(band: Band) -> String {
    match (band.low().is_zero(), band.high().is_unlimited()) {
        (true, true) => "no limits".into(),
        (true, false) => format!("at most {}", band.high()),
        (false, true) => format!("at least {}", band.low()),
        (false, false) => format!("{} to {}", band.low(), band.high()),
    }
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
    fn draws_in_bands() {
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
