//! The prices of the four days that limo-2018 projects its hour into (Figure 4.15), from a file where there is one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use limo_model::{Curve, Price, Span, Time};

use super::workload;
use crate::workspace;

/// The hours into which limo-2018 projects its hour: 26 to 29 October 2017.
pub const HOURS: i64 = 96;
const FIRST_DAY: &str = "2017-10-26";

/// Hours that are read beyond those, for jobs that end after the hour.
const HOURS_AFTER: usize = 24;

/// Below the traces, which `LIMO_TRACES` names and which otherwise are looked for beside the workspace.
const FILE: &str = "prices/de-day-ahead-2015-2017.csv";

/// Hourly prices from the first of the four days on.
#[derive(Debug, Clone)]
pub struct Prices {
    /// For the reader.
    pub source: String,
    /// [`HOURS`] and [`HOURS_AFTER`].
    hours: Vec<Price>,
}

impl Prices {
    /// From the traces where they are, else a curve of the same shape.
    ///
    /// # Errors
    /// Where the file is there and cannot be read, naming line and column.
    pub fn find() -> Result<Self> {
        let traces = std::env::var_os("LIMO_TRACES").map(PathBuf::from);
        let is_asked_for = traces.is_some();
        let path = match traces {
            Some(traces) => traces.join(FILE),
            None => workspace::root()?.join("../shared/traces").join(FILE),
        };
        if !is_asked_for && !path.exists() {
            return Ok(Self::synthetic());
        }
        Self::read(&path)
    }

    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let hours = parse(&text).with_context(|| format!("{} has no usable prices", path.display()))?;
        Ok(Self { source: "German day-ahead prices of 26 to 29 October 2017".into(), hours })
    }

    /// Four days that become windy, as in October 2017: dear mornings and evenings, then two days below zero.
    pub fn synthetic() -> Self {
        /// EUR/MWh by the hour of a working day.
        const DAY: [i64; 24] =
            [30, 29, 28, 28, 29, 33, 43, 53, 54, 49, 44, 41, 37, 33, 33, 37, 45, 49, 51, 50, 42, 36, 33, 31];
        /// How much the wind of each day takes off.
        const WIND: [i64; 5] = [0, 10, 50, 105, 15];
        let hours = WIND.iter().flat_map(|wind| DAY.map(|price| Price::from_milli_per_mwh((price - wind) * 1_000)));
        Self {
            source: "a bundled synthetic curve with negative hours (no price file was found)".into(),
            hours: hours.collect(),
        }
    }

    /// What is known while the hour runs: the four days, pressed into it.
    ///
    /// # Errors
    /// None for prices that were read.
    pub fn known(&self) -> Result<Curve<Price>> {
        Ok(Curve::new(self.steps().take(HOURS as usize).collect(), Some(workload::END))?)
    }

    /// What counts afterwards: the same, and the day after for what ran longer than the hour.
    ///
    /// # Errors
    /// None for prices that were read.
    pub fn charged(&self) -> Result<Curve<Price>> {
        Ok(Curve::new(self.steps().collect(), None)?)
    }

    fn steps(&self) -> impl Iterator<Item = (Time, Price)> {
        let step = (workload::END - workload::BEGIN).scaled(1, HOURS);
        self.hours.iter().enumerate().map(move |(index, price)| (workload::BEGIN + scaled(step, index), *price))
    }
}

fn scaled(step: Span, index: usize) -> Span {
    step.scaled(i64::try_from(index).unwrap_or(i64::MAX), 1)
}

/// Reads the columns `date` (first, `2017-10-26 00:00:00`) and `Price` (EUR/MWh); other columns are left alone.
fn parse(text: &str) -> Result<Vec<Price>> {
    let mut lines = text.lines().enumerate();
    let (_, header) = lines.next().context("the file is empty")?;
    let column = header.split(',').position(|title| title == "Price").context("line 1: no column `Price`")?;
    ensure!(header.starts_with("date,"), "line 1: the first column is not `date`");
    let count = HOURS as usize + HOURS_AFTER;
    let rows = lines.skip_while(|(_, line)| !line.starts_with(FIRST_DAY)).take(count);
    let hours = rows
        .map(|(index, line)| {
            let cell = line.split(',').nth(column).unwrap_or_default();
            let price = format!("{cell} EUR/MWh").parse();
            price.with_context(|| format!("line {}, column {}: `{cell}` is no price", index + 1, column + 1))
        })
        .collect::<Result<Vec<Price>>>()?;
    ensure!(hours.len() == count, "{} hours from {FIRST_DAY} on: {count} are needed", hours.len());
    Ok(hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rows: usize) -> String {
        let row = |hour: usize| format!("2017-10-{:02} {:02}:00:00,{}.5,1,2\n", 25 + hour / 24, hour % 24, hour);
        format!("date,Price,Load,Wind\n{}", (0..rows).map(row).collect::<String>())
    }

    #[test]
    fn four_days_fill_the_hour_and_the_next_day_follows() {
        let prices = Prices { source: String::new(), hours: parse(&file(24 + 120)).expect("prices") };
        let known = prices.known().expect("a curve");
        assert_eq!((known.steps().len(), known.until()), (96, Some(workload::END)));
        // Hour 24 of the file is the first of 26 October; a price holds for 37.5 s of the hour.
        assert_eq!(known.at(workload::BEGIN).copied(), "24.5 EUR/MWh".parse().ok());
        assert_eq!(known.at(Time::from_unix_ms(37_500)).copied(), "25.5 EUR/MWh".parse().ok());
        assert_eq!(prices.charged().expect("a curve").at(workload::END).copied(), "120.5 EUR/MWh".parse().ok());
    }

    #[test]
    fn refusals() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).expect_err("refused");
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        };
        check("", "the file is empty");
        check("date,Cost\n", "line 1: no column `Price`");
        check(&file(30), "6 hours from 2017-10-26 on: 120 are needed");
        check(&file(144).replace("26.5", "cheap"), "line 28, column 2: `cheap` is no price");
    }

    #[test]
    fn the_bundled_curve_has_negative_hours() {
        let prices = Prices::synthetic();
        assert_eq!(prices.hours.len(), 120);
        assert!(prices.hours[72..96].iter().filter(|price| **price < Price::ZERO).count() == 24);
        assert!(prices.hours[..24].iter().all(|price| *price > Price::ZERO));
    }
}
