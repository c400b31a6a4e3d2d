//! `from,until,energy_kwh` or `from,until,energy_j`: energy budgets for successive periods.

use limo_model::{Energy, Time};

use super::error::CurveFileError;
use super::table::{Clock, Row, Table};

/// Budget for one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Start of the period, and end of the previous one.
    pub from: Time,
    /// Start of the next period; after `from`.
    pub until: Time,
    /// Energy; not negative.
    pub energy: Energy,
}

/// Reads successive budgets.
///
/// # Errors
/// [`CurveFileError`] for other columns, an invalid number, a negative budget, a period that does not end after its
/// start, and periods that overlap or leave a gap.
pub fn budget(mut table: Table, clock: Clock) -> Result<Vec<Period>, CurveFileError> {
    let energy = match table.columns() {
        [from, until, unit] if from == "from" && until == "until" && unit == "energy_kwh" => kilowatt_hours,
        [from, until, unit] if from == "from" && until == "until" && unit == "energy_j" => joules,
        _ => return Err(table.wrong_columns("from,until,energy_kwh` or `from,until,energy_j".to_owned())),
    };
    let mut periods: Vec<Period> = Vec::new();
    while let Some(row) = table.row()? {
        let from = row.time(0, clock)?;
        if let Some(last) = periods.last().filter(|last| last.until != from) {
            let what = if from < last.until {
                "starts before the end of the one before it"
            } else {
                "leaves a gap after the one before it"
            };
            return Err(row.error(0, format!("this period {what}: start it at the end of that one")));
        }
        let until = row.later(1, clock, Some(from))?;
        let energy = energy(&row)?;
        if energy < Energy::ZERO {
            return Err(row.error(2, "a budget cannot be negative"));
        }
        periods.push(Period { from, until, energy });
    }
    if periods.is_empty() { Err(table.empty()) } else { Ok(periods) }
}

fn joules(row: &Row<'_>) -> Result<Energy, CurveFileError> {
    row.number(2, 3).map(Energy::from_mj)
}

/// Parses kWh. The number is parsed in 1e-9 kWh and multiplied by 18/5, since 1 kWh is 3.6e9 mJ.
fn kilowatt_hours(row: &Row<'_>) -> Result<Energy, CurveFileError> {
    let value = i128::from(row.number(2, 9)?) * 18;
    let rounded = (value + value.signum() * 2) / 5;
    i64::try_from(rounded).map(Energy::from_mj).map_err(|_| row.error(2, "that is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(text: &str) -> Result<Vec<(i64, i64, i64)>, String> {
        let table = Table::new("e.csv", Cursor::new(text.to_owned().into_bytes())).map_err(|e| e.to_string())?;
        let periods = budget(table, Clock::from_start(None)).map_err(|e| e.to_string())?;
        Ok(periods.into_iter().map(|p| (p.from.unix_ms(), p.until.unix_ms(), p.energy.mj())).collect())
    }

    #[test]
    fn periods_in_either_unit() {
        let kwh = read("from,until,energy_kwh\n0,1h,1.5\n1h,2h,0\n").expect("periods");
        assert_eq!(kwh, [(0, 3_600_000, 5_400_000_000), (3_600_000, 7_200_000, 0)]);
        assert_eq!(read("from,until,energy_j\n0,1h,1.5\n").expect("periods"), [(0, 3_600_000, 1_500)]);
    }

    #[test]
    fn refusals() {
        let check = |rows: &str, expected: &str| {
            assert_eq!(read(&format!("from,until,energy_kwh\n{rows}")).expect_err("refused"), expected);
        };
        check(
            "0,1h,1\n2h,3h,1\n",
            "e.csv:3:1: from is `2h`: this period leaves a gap after the one before it: start it at the end of that one",
        );
        check(
            "0,1h,1\n30min,3h,1\n",
            "e.csv:3:1: from is `30min`: this period starts before the end of the one before it: start it at the end of that one",
        );
        check("1h,1h,1\n", "e.csv:2:2: until is `1h`: that is not after the time before it: sort the rows by time");
        check("0,1h,-1\n", "e.csv:2:3: energy_kwh is `-1`: a budget cannot be negative");
        check("0,1h,9e9\n", "e.csv:2:3: energy_kwh is `9e9`: that is out of range");
        assert_eq!(
            read("from,until,energy\n").expect_err("refused"),
            "e.csv:1: the columns are `from,until,energy`: write `from,until,energy_kwh` or `from,until,energy_j`"
        );
    }
}
