//! Curves with gaps, fallbacks and carbon.

use super::*;
use crate::config::Fallback;
use crate::slot::Slot;

const HOUR: i64 = 3_600_000;
/// Hours from 1970 to the last midnight before "now"; now is two hours later.
const DAY: i64 = 24 * 1000;
const NOW: i64 = DAY + 2;

fn hour(hours: i64) -> Time {
    Time::from_unix_ms(hours * HOUR)
}

fn slot<V: Quantity>(from: i64, until: i64, value: i64) -> Slot<V> {
    Slot { from: hour(DAY + from), until: hour(DAY + until), value: V::from_thousandths(value).expect("possible") }
}

fn series<V: Quantity>(slots: &[Slot<V>], fallback: Fallback<V>) -> Series<V> {
    let mut series = Series::new(Span::from_ms(48 * HOUR), fallback);
    series.merge(slots, hour(NOW));
    series
}

fn prices(slots: &[Slot], fallback: Fallback<Price>) -> Outlook {
    Outlook { prices: vec![series(slots, fallback)], carbon: None, weight_milli_per_t: 0 }
}

type Steps = (Vec<(i64, i64)>, Option<i64>);

/// Returns hours since midnight and thousandths; and the end.
fn curve_at(outlook: &Outlook, now: i64) -> Option<Steps> {
    let curve = outlook.curve(hour(now))?;
    let hours = |time: Time| time.unix_ms() / HOUR - DAY;
    let steps = curve.steps().iter().map(|(at, price)| (hours(*at), price.milli_per_mwh())).collect();
    Some((steps, curve.until().map(hours)))
}

fn check(outlook: &Outlook, steps: &[(i64, i64)], until: Option<i64>) {
    assert_eq!(curve_at(outlook, NOW), Some((steps.to_vec(), until)));
}

#[test]
fn without_a_fallback_the_curve_ends_with_the_known_values() {
    let known = prices(&[slot(-1, 1, 10), slot(1, 4, 20), slot(4, 5, -30)], Fallback::RunNow);
    check(&known, &[(-1, 10), (1, 20), (4, -30)], Some(5));
    assert_eq!(curve_at(&known, DAY + 5), None);
    assert_eq!(curve_at(&prices(&[], Fallback::RunNow), NOW), None);
    // Without an earlier value the present is unknown, and the curve begins in the future.
    assert_eq!(curve_at(&prices(&[slot(9, 10, 1)], Fallback::RunNow), NOW), None);
}

#[test]
fn a_hole_ends_the_curve_and_one_that_is_over_does_not() {
    let holes = prices(&[slot(-2, 0, 10), slot(1, 4, 20), slot(6, 8, 30)], Fallback::RunNow);
    check(&holes, &[(-2, 10), (1, 20)], Some(4));
    assert_eq!(curve_at(&holes, DAY + 5), None);
    assert_eq!(curve_at(&holes, DAY + 6), Some((vec![(-2, 10), (1, 20), (6, 30)], Some(8))));
}

#[test]
fn fallbacks_fill_gaps_and_continue() {
    let fixed = Fallback::Fixed(Price::from_milli_per_mwh(80));
    check(&prices(&[slot(1, 4, 20), slot(6, 8, 30)], fixed), &[(1, 20), (4, 80), (6, 30), (8, 80)], None);
    check(&prices(&[], fixed), &[(2, 80)], None);
    // The fallback lasts a day from the next full hour; the day before was 5 until noon and 6 after it.
    let day = [slot(-24, -12, 5), slot(-12, 0, 6), slot(0, 4, 20)];
    check(&prices(&day, Fallback::LastDay), &[(-24, 5), (-12, 6), (0, 20), (4, 5), (12, 6), (24, 20)], Some(27));
    check(&prices(&[slot(0, 40, 20)], Fallback::LastDay), &[(0, 20)], Some(40));
}

#[test]
fn further_notice_has_no_end() {
    let open = Slot { until: Time::MAX, ..slot(0, 1, 9) };
    check(&prices(&[open], Fallback::LastDay), &[(0, 9)], None);
    check(&prices(&[open], Fallback::Fixed(Price::ZERO)), &[(0, 9)], None);
}

#[test]
fn the_first_feed_that_knows_counts() {
    let first = series(&[slot(1, 3, 10), slot(5, 6, 11)], Fallback::RunNow);
    let second = series(&[slot(0, 8, 20)], Fallback::Fixed(Price::ZERO));
    let both = Outlook { prices: vec![first, second], carbon: None, weight_milli_per_t: 0 };
    check(&both, &[(0, 20), (1, 10), (3, 20), (5, 11), (6, 20), (8, 0)], None);
}

#[test]
fn the_intensity_of_now_is_that_of_its_slot() {
    let at = |carbon: Option<Series<Intensity>>, now: i64| {
        let outlook = Outlook { carbon, ..prices(&[], Fallback::RunNow) };
        outlook.intensity(hour(now)).map(Intensity::mg_per_kwh)
    };
    let known = || Some(series(&[slot(0, 3, 300_000), slot(3, 5, 263_500)], Fallback::RunNow));
    assert_eq!([NOW, DAY + 3, DAY + 5].map(|now| at(known(), now)), [Some(300_000), Some(263_500), None]);
    let fixed = Fallback::Fixed(Intensity::from_mg_per_kwh(400_000));
    assert_eq!((at(None, NOW), at(Some(series(&[], fixed)), NOW)), (None, Some(400_000)));
}

#[test]
fn carbon_is_weighed_exactly() {
    // 300 g/kWh are 0.3 t/MWh; at 80 EUR/t that is 24 EUR/MWh. 263.5 g/kWh at 80.5 EUR/t are 21.21175 EUR/MWh.
    let carbon = series(&[slot(0, 3, 300_000), slot(3, 5, 263_500)], Fallback::RunNow);
    let weighed = |weight| Outlook {
        prices: vec![series(&[slot(0, 4, 50_000), slot(4, 9, -10_000)], Fallback::RunNow)],
        carbon: Some(carbon.clone()),
        weight_milli_per_t: weight,
    };
    check(&weighed(80_000), &[(0, 74_000), (3, 71_080), (4, 11_080)], Some(5));
    check(&weighed(80_500), &[(0, 74_150), (3, 71_212), (4, 11_212)], Some(5));
    // If no intensity is known for now, only the price counts.
    assert_eq!(curve_at(&weighed(80_000), DAY + 6), Some((vec![(0, 50_000), (4, -10_000)], Some(9))));
    let alone = Outlook { prices: Vec::new(), ..weighed(80_000) };
    check(&alone, &[(0, 24_000), (3, 21_080)], Some(5));
    let fixed = Fallback::Fixed(Intensity::from_mg_per_kwh(400_000));
    let guessed = Outlook { carbon: Some(series(&[slot(0, 3, 300_000)], fixed)), ..weighed(80_000) };
    check(&guessed, &[(0, 74_000), (3, 82_000), (4, 22_000)], Some(9));
}

#[test]
fn a_curve_says_when_it_changes() {
    let known = prices(&[slot(0, 4, 20)], Fallback::RunNow);
    assert_eq!(known.next_change(hour(NOW)), Some(hour(NOW + 1)));
    let half = Time::from_unix_ms(hour(NOW + 1).unix_ms() - HOUR / 2);
    assert_eq!(known.next_change(half), Some(hour(NOW + 1)));
}
