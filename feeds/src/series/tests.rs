//! Replacement, expiry and repetition of values.

use super::*;
use limo_model::Price;

const HOUR: i64 = 3_600_000;

fn hour(hours: i64) -> Time {
    Time::from_unix_ms(hours * HOUR)
}

fn slot(from: i64, until: i64, value: i64) -> Slot {
    Slot { from: hour(from), until: hour(until), value: Price::from_milli_per_mwh(value) }
}

fn series(fallback: Fallback<Price>) -> Series<Price> {
    Series::new(Span::from_ms(48 * HOUR), fallback)
}

fn rows(stretches: &[Stretch<Price>]) -> Vec<(i64, i64, i64)> {
    let hours = |time: Time| time.unix_ms() / HOUR;
    stretches.iter().map(|s| (hours(s.from), hours(s.until), s.value.milli_per_mwh())).collect()
}

#[test]
fn newer_slots_replace_overlapping_ones() {
    let mut series = series(Fallback::RunNow);
    series.merge(&[slot(0, 4, 1), slot(4, 8, 2), slot(10, 12, 3)], hour(0));
    series.merge(&[slot(1, 2, 7), slot(3, 5, 8)], hour(1));
    let all = |series: &Series<Price>| rows(&series.known(hour(1), hour(0), hour(100)));
    assert_eq!(all(&series), [(0, 1, 1), (1, 2, 7), (2, 3, 1), (3, 5, 8), (5, 8, 2), (10, 12, 3)]);
    series.merge(&[slot(0, 12, 9)], hour(1));
    assert_eq!(all(&series), [(0, 12, 9)]);
    series.merge(&[], hour(1));
    assert_eq!(all(&series), [(0, 12, 9)]);
    assert_eq!(rows(&series.known(hour(1), hour(3), hour(5))), [(3, 5, 9)]);
    // A slot is removed after more than eight days.
    series.merge(&[slot(300, 301, 1)], hour(300));
    assert_eq!(rows(&series.known(hour(300), hour(0), hour(400))), [(300, 301, 1)]);
}

#[test]
fn values_expire_after_their_time() {
    let mut series = series(Fallback::RunNow);
    series.merge(&[slot(0, 10, 1), slot(10, 100, 2)], hour(0));
    assert_eq!(series.known_until(hour(5)), Some(hour(100)));
    assert_eq!(series.next_change(hour(5)), Some(hour(10)));
    assert_eq!(series.next_change(hour(20)), Some(hour(48)));
    assert_eq!(series.known_until(hour(47)), Some(hour(100)));
    assert_eq!(series.known_until(hour(48)), None);
    // Past values stay.
    assert_eq!(rows(&series.known(hour(48), hour(0), hour(200))), [(0, 10, 1)]);
    series.merge(&[slot(40, 100, 2)], hour(60));
    assert_eq!(series.known_until(hour(61)), Some(hour(100)));
}

#[test]
fn known_until_ends_at_the_first_gap() {
    let mut series = series(Fallback::RunNow);
    assert_eq!(series.known_until(hour(0)), None);
    series.merge(&[slot(0, 2, 1), slot(2, 4, 1), slot(6, 8, 1)], hour(0));
    assert_eq!(series.known_until(hour(1)), Some(hour(4)));
    assert_eq!(series.known_until(hour(5)), None);
    assert_eq!(series.known_until(hour(4)), None);
}

#[test]
fn values_of_a_feed_are_bounded() {
    let mut series = series(Fallback::RunNow);
    let slots = |from: i64| (from..from + 30_000).map(|at| slot(at, at + 1, at)).collect::<Vec<_>>();
    series.merge(&slots(0), hour(0));
    series.merge(&slots(30_000), hour(0));
    assert_eq!(series.known_until(hour(0)), Some(hour(40_000)), "a near day counts before a far one");
}

#[test]
fn the_last_day_is_repeated_hour_by_hour() {
    let mut series = series(Fallback::LastDay);
    series.merge(&[slot(0, 12, 1), slot(12, 24, 2), slot(24, 30, 3)], hour(0));
    // From 30 to 36 the value repeats 1, from 36 to 48 it repeats 2, and from 48 to 54 it repeats 3.
    assert_eq!(rows(&series.fallback(hour(29), hour(30), hour(54))), [(30, 36, 1), (36, 48, 2), (48, 54, 3)]);
    // If the day before is not known, an earlier day counts.
    assert_eq!(rows(&series.fallback(hour(58), hour(56), hour(58))), [(56, 58, 1)]);
    // The second of the two days repeats the first.
    let mut short = self::series(Fallback::LastDay);
    short.merge(&[slot(0, 24, 5)], hour(0));
    assert_eq!(rows(&short.fallback(hour(24), hour(24), hour(49))).iter().map(|row| row.1 - row.0).sum::<i64>(), 25);
    assert!(self::series(Fallback::LastDay).fallback(hour(0), hour(0), hour(9)).is_empty());
}

#[test]
fn other_fallbacks() {
    assert!(series(Fallback::RunNow).fallback(hour(0), hour(0), hour(9)).is_empty());
    let fixed = series(Fallback::Fixed(Price::from_milli_per_mwh(80)));
    assert_eq!(rows(&fixed.fallback(hour(0), hour(0), hour(9))), [(0, 9, 80)]);
}

#[test]
fn stored_and_taken_up_again() {
    let mut first = series(Fallback::RunNow);
    first.merge(&[slot(0, 4, -1), Slot { until: Time::MAX, ..slot(4, 8, 2) }], hour(3));
    let mut second = series(Fallback::RunNow);
    second.take_up(first.stored().expect("JSON")).expect("the same");
    assert_eq!(first, second);
    assert!(second.take_up(serde_json::json!({"held": 1})).is_err());
    let odd = serde_json::json!([
        {"from": 0, "until": 10, "value": 1, "received": 0},
        {"from": 5, "until": 15, "value": 2, "received": 0},
        {"from": 20, "until": 20, "value": 3, "received": 0},
    ]);
    second.take_up(odd).expect("slots");
    assert_eq!(second.known_until(Time::from_unix_ms(1)), Some(Time::from_unix_ms(10)));
}
