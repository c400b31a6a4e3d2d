//! `time,low_w,high_w`: each band holds until the next row's time. An empty `low_w` means no lower limit, an empty
//! `high_w` no upper one; a last row with neither ends the curve.

use limo_model::{Band, Curve, Power};

use super::error::CurveFileError;
use super::table::{Clock, Row, Table, steps};

/// Reads the band of the cluster's draw over time.
///
/// # Errors
/// [`CurveFileError`] for other columns, an invalid number, a band that is crossed or negative, or times that do not
/// ascend.
pub fn band(table: Table, clock: Clock) -> Result<Curve<Band>, CurveFileError> {
    table.require(&["time", "low_w", "high_w"])?;
    steps(table, clock, |row| {
        let low = limit(row, 1, Power::ZERO)?;
        let high = limit(row, 2, Power::MAX)?;
        if row.is_end() {
            return Err(
                row.error(2, "a row without limits ends the curve and cannot be its first: write 0 for no lower limit")
            );
        }
        let column = if low < Power::ZERO { 1 } else { 2 };
        Band::new(low, high).map_err(|error| row.error(column, error.to_string()))
    })
}

fn limit(row: &Row<'_>, column: usize, missing: Power) -> Result<Power, CurveFileError> {
    if row.cell(column).is_empty() { Ok(missing) } else { row.number(column, 3).map(Power::from_mw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(rows: &str) -> Result<Curve<Band>, String> {
        let text = format!("time,low_w,high_w\n{rows}");
        let table = Table::new("b.csv", Cursor::new(text.into_bytes())).map_err(|e| e.to_string())?;
        band(table, Clock::from_start(None)).map_err(|e| e.to_string())
    }

    #[test]
    fn limits_may_be_missing() {
        let curve = read("0,,500.5\n1h,100,\n2h,0,0\n3h,,\n").expect("a curve");
        let steps: Vec<_> = curve.steps().iter().map(|(_, band)| (band.low().mw(), band.high().mw())).collect();
        assert_eq!(steps, [(0, 500_500), (100_000, i64::MAX), (0, 0)]);
        assert_eq!(curve.until().map(limo_model::Time::unix_ms), Some(10_800_000));
    }

    #[test]
    fn refusals() {
        let check = |rows: &str, expected: &str| assert_eq!(read(rows).expect_err("refused"), expected);
        check("0,500,100\n", "b.csv:2:3: high_w is `100`: the lower limit 500.0 W is above the upper limit 100.0 W");
        check("0,-5,100\n", "b.csv:2:2: low_w is `-5`: the lower limit -5.0 W is negative");
        check("0,1e30,\n", "b.csv:2:2: low_w is `1e30`: that is out of range");
        check(
            "0,,\n",
            "b.csv:2:3: high_w is ``: a row without limits ends the curve and cannot be its first: write 0 for no lower limit",
        );
    }
}
