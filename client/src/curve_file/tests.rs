//! Curves from text, and each error that a file can cause.

use super::*;
use jiff::tz::TimeZone;

fn clock() -> Clock {
    Clock::new(Time::from_unix_ms(1_793_012_400_000), TimeZone::UTC)
}

fn file(text: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

/// Returns the error with `FILE` in place of the path.
fn refused<T: std::fmt::Debug>(
    read: impl Fn(&Path, &Clock) -> Result<Curve<T>, CurveFileError>,
    text: &[u8],
) -> String {
    let file = file(text);
    let error = read(file.path(), &clock()).expect_err("a wrong file").to_string();
    error.replace(&file.path().display().to_string(), "FILE")
}

fn prices(text: &str) -> (Vec<(String, i64)>, Option<String>) {
    let curve = read_prices(file(text).path(), &clock()).expect("prices");
    let steps = curve.steps().iter().map(|(time, price)| (clock().show_full(*time), price.milli_per_mwh()));
    (steps.collect(), curve.until().map(|until| clock().show_full(until)))
}

#[test]
fn prices_with_a_unit_last_as_long_as_the_one_before() {
    let (steps, until) = prices("time,price\n2026-10-26 00:00, 80 EUR/MWh\n2026-10-26T01:00:00Z,-1.5 ct/kWh\n");
    assert_eq!(steps, [("2026-10-26 00:00:00".into(), 80_000), ("2026-10-26 01:00:00".into(), -15_000)]);
    assert_eq!(until.as_deref(), Some("2026-10-26 02:00:00"));
}

#[test]
fn bare_prices_need_a_title_with_the_unit() {
    let text = "# of the exchange\ntime,price_eur_per_mwh\n2026-10-26 00:00,80.25\n\n2026-10-26 00:15,\n";
    let (steps, until) = prices(text);
    assert_eq!(steps, [("2026-10-26 00:00:00".into(), 80_250)]);
    assert_eq!(until.as_deref(), Some("2026-10-26 00:15:00"));
}

#[test]
fn limits_hold_for_ever_unless_they_end() {
    let file =
        file("time,low,high\n2026-10-26 00:00,39 W,60 W\n2026-10-26 12:00,none,0.5 kW\n2026-10-27 00:00,none,none\n");
    let curve = read_limits(file.path(), &clock()).expect("limits");
    let bands: Vec<_> = curve.steps().iter().map(|(_, band)| (band.low(), band.high())).collect();
    let watts = Power::from_watts;
    assert_eq!(bands, [(watts(39), watts(60)), (watts(0), watts(500)), (watts(0), Power::MAX)]);
    assert_eq!(curve.until(), None);
}

#[test]
fn wrong_prices_name_line_column_and_value() {
    let check = |text: &[u8], expected: &str| assert_eq!(refused(read_prices, text), expected);
    check(b"", "FILE: has no values");
    check(b"time,price\n", "FILE: has no values");
    check(b"date,Price\n", "FILE: line 1: the titles are `date,Price`, not `time,price` or `time,price_eur_per_mwh`");
    check(
        b"time,price\n2026-10-26 00:00,80 EUR/MWh\n2026-10-26 01:00,cheap\n",
        "FILE: line 3, column 2 (price): `cheap` has no number: write for example `80 EUR/MWh`",
    );
    check(
        b"time,price\n2026-10-26 00:00,80\n",
        "FILE: line 2, column 2 (price): `80` has no unit: write for example `80 EUR/MWh` (units: EUR/MWh, EUR/kWh, ct/kWh)",
    );
    check(
        b"time,price_eur_per_mwh\n2026-10-26 00:00,80 EUR/MWh\n",
        "FILE: line 2, column 2 (price_eur_per_mwh): `80 EUR/MWh` is not a number",
    );
    check(
        b"time,price\n26.10.2026 00:00,80 EUR/MWh\n",
        "FILE: line 2, column 1 (time): `26.10.2026 00:00` is not a time: write `18:00`, `2026-10-26 18:00`, \
         `2026-10-26T18:00:00Z` or `now+2h`",
    );
    check(
        b"time,price\n2026-10-26 01:00,80 EUR/MWh\n2026-10-26 01:00,70 EUR/MWh\n",
        "FILE: line 3, column 1 (time): `2026-10-26 01:00` is not after the time before it, 2026-10-26 01:00:00 \
         (where clocks change, write RFC 3339)",
    );
    check(b"time,price\n2026-10-26 01:00,80 EUR/MWh,x\n", "FILE: line 2: has 3 values instead of 2");
    check(b"time,price\n2026-10-26 01:00\n", "FILE: line 2: has 1 values instead of 2");
    check(b"time,price\n2026-10-26 01:00,8\xff\n", "FILE: line 2: is not UTF-8 text");
    check(
        b"time,price\n2026-10-26 01:00,8 EUR/MWh\n2026-10-26 02:00,\n2026-10-26 03:00,8 EUR/MWh\n",
        "FILE: line 4: follows the line that ends the curve",
    );
}

#[test]
fn wrong_limits_name_line_column_and_value() {
    let check = |text: &[u8], expected: &str| assert_eq!(refused(read_limits, text), expected);
    check(
        b"time,low,high\n2026-10-26 00:00,39 W,60\n",
        "FILE: line 2, column 3 (high): `60` has no unit: write for example `90 W` (units: W, kW, MW, mW)",
    );
    check(
        b"time,low,high\n2026-10-26 00:00,90 W,60 W\n",
        "FILE: line 2, column 2 (low): the lower limit 90.0 W is above the upper limit 60.0 W",
    );
    check(
        b"time,low,high\n2026-10-26 00:00,,60 W\n",
        "FILE: line 2, column 2 (low): `` has no number: write for example `90 W`",
    );
}

#[test]
fn a_missing_file_and_a_directory_are_named() {
    let error = read_prices(Path::new("/nonexistent/prices.csv"), &clock()).expect_err("no file").to_string();
    assert_eq!(error, "cannot read /nonexistent/prices.csv: No such file or directory (os error 2)");
    let error = read_prices(Path::new("/"), &clock()).expect_err("a directory").to_string();
    assert!(error.contains("Is a directory"), "{error}");
}

#[test]
fn budgets_with_gaps_and_an_end() {
    let text =
        "time,budget\n2026-10-26 00:00,40 MWh\n2026-10-27 00:00,none\n2026-10-28 00:00,500 kWh\n2026-10-29 00:00,\n";
    let budgets = read_budgets(file(text).path(), Release::ByPrice, &clock()).expect("budgets");
    let periods: Vec<_> = budgets
        .iter()
        .map(|budget| {
            (clock().show_full(budget.from), clock().show_full(budget.until), budget.energy.mj() / 3_600_000_000)
        })
        .collect();
    let day = |day: u8| format!("2026-10-{day} 00:00:00");
    assert_eq!(periods, [(day(26), day(27), 40_000), (day(28), day(29), 500)]);
    assert!(budgets.iter().all(|budget| budget.release == Release::ByPrice));
}

#[test]
fn wrong_budgets_name_line_column_and_value() {
    let check = |text: &str, expected: &str| {
        let file = file(text);
        let error = read_budgets(file.path(), Release::Even, &clock()).expect_err("a wrong file").to_string();
        assert_eq!(error.replace(&file.path().display().to_string(), "FILE"), expected);
    };
    let no_end = "FILE: has no end: add a last line with a time and no budget";
    check("time,budget\n2026-10-26 00:00,40 MWh\n", no_end);
    check("time,budget\n2026-10-26 00:00,-1 MWh\n", "FILE: line 2, column 2 (budget): `-1 MWh` must not be negative");
    let no_unit = "`40` has no unit: write for example `1.5 kWh` (units: J, kJ, Wh, kWh, MWh, mJ)";
    check("time,budget\n2026-10-26 00:00,40\n", &format!("FILE: line 2, column 2 (budget): {no_unit}"));
    check(
        "time,budget,release\n2026-10-26 00:00,40 MWh,slowly\n",
        "FILE: line 2, column 3 (release): `slowly` is not a way to release a budget (known: even, by-price)",
    );
}
