//! `time,price_eur_per_mwh`, in any currency: each price holds until the next row's time; a last row without a price ends the curve.
//! Without such a row the last of several prices holds as long as the one before it.

use limo_model::{Currency, Curve, Price};

use super::error::CurveFileError;
use super::table::{Clock, Table, steps};

/// Reads a price curve. Prices may be negative and are rounded to a thousandth of the currency per MWh.
///
/// # Errors
/// [`CurveFileError`] for other columns, an invalid number, or times that do not ascend.
pub fn price(table: Table, clock: Clock) -> Result<Curve<Price>, CurveFileError> {
    let currency = match table.columns() {
        [time, title] if time == "time" => Currency::of_title(title),
        _ => None,
    };
    let currency = currency.ok_or_else(|| table.wrong_columns("time,price_eur_per_mwh".into()))?;
    currency.agree().map_err(|source| table.wrong_currency(source))?;
    steps(table, clock, |row| row.number(1, 3).map(Price::from_milli_per_mwh)).map(Curve::closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Time;
    use std::io::Cursor;

    fn read(text: &str) -> Result<Curve<Price>, String> {
        let clock = Clock::from_start(Some(Time::from_unix_ms(1_509_148_800_000)));
        let table = Table::new("p.csv", Cursor::new(text.to_owned().into_bytes())).map_err(|e| e.to_string())?;
        price(table, clock).map_err(|e| e.to_string())
    }

    fn check(rows: &str, expected: &str) {
        assert_eq!(read(&format!("time,price_eur_per_mwh\n{rows}")).expect_err("refused"), expected);
    }

    #[test]
    fn three_ways_to_write_a_time() {
        let text = "# day-ahead\ntime, price_eur_per_mwh\n2017-10-28T00:00:00Z,20\n3600,-83.04\n1d 2h,1e1\n2d,\n";
        let curve = read(text).expect("a curve");
        let steps: Vec<_> = curve.steps().iter().map(|(time, price)| (time.unix_ms(), price.milli_per_mwh())).collect();
        assert_eq!(steps, [(0, 20_000), (3_600_000, -83_040), (93_600_000, 10_000)]);
        assert_eq!(curve.until(), Some(Time::from_unix_ms(172_800_000)));
    }

    #[test]
    fn without_an_end_the_last_price_lasts_as_long_as_the_one_before() {
        let until = |rows: &str| read(&format!("time,price_eur_per_mwh\n{rows}")).expect("a curve").until();
        assert_eq!(until("0,20\n3600,30\n").map(Time::unix_ms), Some(7_200_000));
        assert_eq!(until("0,20\n"), None);
    }

    #[test]
    fn dates_on_either_clock() {
        let table = || {
            Table::new("p.csv", Cursor::new(b"time,price_eur_per_mwh\n1970-01-02T00:00:00Z,1".to_vec()))
                .expect("a table")
        };
        let first = |clock| price(table(), clock).map(|curve| curve.steps()[0].0.unix_ms()).map_err(|e| e.to_string());
        assert_eq!(first(Clock::unix(Time::from_unix_ms(5))), Ok(86_400_000));
        assert_eq!(first(Clock::from_start(Some(Time::from_unix_ms(400_000)))), Ok(86_000_000));
        let undated = first(Clock::from_start(None)).expect_err("refused");
        assert_eq!(
            undated,
            "p.csv:2:1: time is `1970-01-02T00:00:00Z`: the start of the workload has no date: write seconds from it, such as `3600`"
        );
    }

    #[test]
    fn refusals() {
        check("0,80\n0,90\n", "p.csv:3:1: time is `0`: that is not after the time before it: sort the rows by time");
        check("0,eighty\n", "p.csv:2:2: price_eur_per_mwh is `eighty`: that is not a number");
        check("0,\n", "p.csv:2:2: price_eur_per_mwh is ``: that is not a number");
        check("0,1,2\n", "p.csv:2: the row has 3 cells, but the header has 2");
        check(
            "noon,1\n",
            "p.csv:2:1: time is `noon`: that is not a time: write `2017-10-28T00:00:00Z`, `3600` (seconds) or `1d 2h`",
        );
        check(
            "2017-13-01T00:00:00Z,1\n",
            "p.csv:2:1: time is `2017-13-01T00:00:00Z`: that is not a date: write for example `2017-10-28T00:00:00Z`",
        );
        check(
            "0,1\n5,\n6,2\n",
            "p.csv:4:1: time is `6`: the row before it ends the curve, because it has no value: no row can follow",
        );
        check("", "p.csv: the file has no row with a value");
        assert_eq!(
            read("when,price\n").expect_err("refused"),
            "p.csv:1: the columns are `when,price`: write `time,price_eur_per_mwh`"
        );
        assert_eq!(read("").expect_err("refused"), "p.csv: the file has no row with a value");
    }
}
