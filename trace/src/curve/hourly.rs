//! Day-ahead prices as published in market data sets: one row for each hour of the Central European local clock, always
//! 24 rows a day.
//!
//! On the day of 23 hours such a file has a row for the skipped hour (a mean of its neighbours), which is ignored. On
//! the day of 25 hours the one row of the repeated hour (a mean of both) holds for both. Other columns are ignored.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::Offset;
use limo_model::{Currency, Curve, Price, Span, Time};

use super::error::CurveFileError;
use super::table::{Clock, Row, Table};

/// Reads `date,Price,...` with one row an hour, `2015-01-01 00:00:00` on the clock of Central Europe, EUR per MWh. The
/// curve ends an hour after its last row.
///
/// # Errors
/// [`CurveFileError`] for other columns, an invalid number, a time that is not a full hour, a missing or repeated hour,
/// and a workload whose start has no date.
pub fn hourly_price(mut table: Table, clock: Clock) -> Result<Curve<Price>, CurveFileError> {
    if table.columns().len() < 2
        || !table.columns()[0].eq_ignore_ascii_case("date")
        || !table.columns()[1].eq_ignore_ascii_case("price")
    {
        return Err(table.wrong_columns("date,Price,...".to_owned()));
    }
    Currency::EUR.agree().map_err(|source| table.wrong_currency(source))?;
    let mut steps: Vec<(Time, Price)> = Vec::new();
    let mut next: Option<DateTime> = None;
    let mut until = None;
    while let Some(row) = table.row()? {
        let hour = hour(&row, next)?;
        next = hour.checked_add(jiff::Span::new().hours(1)).ok();
        let price = row.number(1, 3).map(Price::from_milli_per_mwh)?;
        // The clock skips this hour.
        let Some(date) = unix(hour) else { continue };
        let place = |date| clock.place(date).map_err(|reason| row.error(0, reason));
        steps.push((place(date)?, price));
        let hours = if happens_twice(hour) { 2 } else { 1 };
        until = Some(place(date + Span::from_secs(hours * 3_600))?);
    }
    Curve::new(steps, until).map_err(|_| table.empty())
}

/// Returns the hour of a row, which must be `next` if that is known.
fn hour(row: &Row<'_>, next: Option<DateTime>) -> Result<DateTime, CurveFileError> {
    let hour: DateTime = row
        .cell(0)
        .parse()
        .map_err(|_| row.error(0, "that is not an hour: write for example `2015-01-01 00:00:00`"))?;
    if hour.minute() != 0 || hour.second() != 0 || hour.subsec_nanosecond() != 0 {
        return Err(row.error(0, "that is not a full hour"));
    }
    match next {
        Some(next) if hour < next => {
            Err(row.error(0, format!("that hour is not after the one before it: expected `{next}`")))
        }
        Some(next) if hour > next => Err(row.error(0, format!("there is a gap before that hour: expected `{next}`"))),
        _ => Ok(hour),
    }
}

/// Converts a local hour, the first one if it is repeated; `None` if it is skipped.
fn unix(hour: DateTime) -> Option<Time> {
    let local = hour.to_zoned(Offset::UTC.to_time_zone()).ok()?.timestamp().as_second();
    let (start, end) = summer(hour.date())?;
    let summer = start <= local && local < end;
    // This is from 02:00 to 03:00 on the day on which summer time starts.
    if summer && local < start + 3_600 {
        return None;
    }
    Some(Time::from_unix_ms((local - if summer { 7_200 } else { 3_600 }) * 1_000))
}

/// Returns true from 02:00 to 03:00 on the day on which summer time ends.
fn happens_twice(hour: DateTime) -> bool {
    let Some((_, end)) = summer(hour.date()) else { return false };
    let local = hour.to_zoned(Offset::UTC.to_time_zone()).map(|zoned| zoned.timestamp().as_second());
    local.is_ok_and(|local| end - 3_600 <= local && local < end)
}

/// Returns the local times at which summer time starts and ends in that year, before the change (02:00 and 03:00).
/// Both are in seconds as if the local clock were UTC. Rule of the European Union since 1996: the last Sundays of
/// March and October.
fn summer(day: Date) -> Option<(i64, i64)> {
    let change = |month, hour| {
        let last = Date::new(day.year(), month, 31).ok()?;
        let sunday =
            if last.weekday() == Weekday::Sunday { last } else { last.nth_weekday(-1, Weekday::Sunday).ok()? };
        Some(sunday.at(hour, 0, 0, 0).to_zoned(Offset::UTC.to_time_zone()).ok()?.timestamp().as_second())
    };
    Some((change(3, 2)?, change(10, 3)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(rows: &str) -> Result<Curve<Price>, String> {
        let text = format!("date,Price,Load\n{rows}");
        let table = Table::new("h.csv", Cursor::new(text.into_bytes())).map_err(|e| e.to_string())?;
        hourly_price(table, Clock::unix(Time::from_unix_ms(0))).map_err(|e| e.to_string())
    }

    fn check(day: &str, expected: &[(&str, i64)], until: &str) {
        let rows: String = (0..5).map(|hour| format!("{day} {hour:02}:00:00,{hour},0\n")).collect();
        let curve = read(&rows).expect("a curve");
        let shown = |time: Time| jiff::Timestamp::from_millisecond(time.unix_ms()).expect("in range").to_string();
        let steps: Vec<_> =
            curve.steps().iter().map(|(time, price)| (shown(*time), price.milli_per_mwh() / 1_000)).collect();
        let expected: Vec<_> = expected.iter().map(|(time, price)| ((*time).to_owned(), *price)).collect();
        assert_eq!(steps, expected);
        assert_eq!(curve.until().map(shown), Some(until.to_owned()));
    }

    #[test]
    fn winter_summer_and_the_days_between() {
        let winter = [
            ("2015-01-31T23:00:00Z", 0),
            ("2015-02-01T00:00:00Z", 1),
            ("2015-02-01T01:00:00Z", 2),
            ("2015-02-01T02:00:00Z", 3),
            ("2015-02-01T03:00:00Z", 4),
        ];
        check("2015-02-01", &winter, "2015-02-01T04:00:00Z");
        // The clock skips 02:00.
        let spring = [
            ("2017-03-25T23:00:00Z", 0),
            ("2017-03-26T00:00:00Z", 1),
            ("2017-03-26T01:00:00Z", 3),
            ("2017-03-26T02:00:00Z", 4),
        ];
        check("2017-03-26", &spring, "2017-03-26T03:00:00Z");
        // The hour from 02:00 occurs twice: at 00:00 and at 01:00 UTC.
        let autumn = [
            ("2017-10-28T22:00:00Z", 0),
            ("2017-10-28T23:00:00Z", 1),
            ("2017-10-29T00:00:00Z", 2),
            ("2017-10-29T02:00:00Z", 3),
            ("2017-10-29T03:00:00Z", 4),
        ];
        check("2017-10-29", &autumn, "2017-10-29T04:00:00Z");
    }

    #[test]
    fn an_hour_that_happens_twice_lasts_two_hours() {
        let ends = |hour: &str| read(&format!("{hour}:00:00,1,0\n")).expect("a curve").until().map(Time::unix_ms);
        let midnight = 1_509_228_000_000;
        assert_eq!(ends("2017-10-29 00"), Some(midnight + 3_600_000));
        assert_eq!(ends("2017-10-29 02"), Some(midnight + 4 * 3_600_000));
    }

    #[test]
    fn refusals() {
        let check = |rows: &str, expected: &str| assert_eq!(read(rows).expect_err("refused"), expected);
        check(
            "2015-01-01 00:00:00,1,0\n2015-01-01 02:00:00,1,0\n",
            "h.csv:3:1: date is `2015-01-01 02:00:00`: there is a gap before that hour: expected `2015-01-01T01:00:00`",
        );
        check(
            "2015-01-01 00:00:00,1,0\n2015-01-01 00:00:00,1,0\n",
            "h.csv:3:1: date is `2015-01-01 00:00:00`: that hour is not after the one before it: expected `2015-01-01T01:00:00`",
        );
        check("2015-01-01 00:30:00,1,0\n", "h.csv:2:1: date is `2015-01-01 00:30:00`: that is not a full hour");
        check("2015-01-01 00:00:00,n/a,0\n", "h.csv:2:2: Price is `n/a`: that is not a number");
        check("", "h.csv: the file has no row with a value");
    }
}
