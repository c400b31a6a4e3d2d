//! The prices of the four days to which limo-2018 projects its hour (Figure 4.15), from a file if there is one.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use limo_model::{Curve, Price, Span, Time};
use limo_requirements::{TRACES, traces};

use super::workload;

/// Number of hours to which limo-2018 projects its hour: 26 to 29 October 2017.
pub const HOURS: i64 = 96;
const FIRST_DAY: &str = "2017-10-26";

/// Number of hours of prices for the hour and the remaining part of its day.
const HOURS_NEEDED: usize = HOURS as usize * workload::HOURS_OF_DAY;

/// File of the prices, below the folder of traces.
const FILE: &str = "prices/de-day-ahead-2015-2017.csv";

/// All available prices, in hours.
#[derive(Debug, Clone)]
pub struct Market {
    /// Description for the reader.
    pub source: String,
    hours: Vec<Price>,
    /// Index of the first hour of the four days.
    first: usize,
}

/// Hourly prices of the day of the demo: [`HOURS`] for each hour of it.
#[derive(Debug, Clone)]
pub struct Prices {
    /// Description for the reader.
    pub source: String,
    hours: Vec<Price>,
}

impl Market {
    /// Reads the prices from the traces if they exist, else makes a curve of the same shape.
    ///
    /// # Errors
    /// If the file exists and cannot be read, with line and column.
    pub fn find() -> Result<Self> {
        let is_asked_for = std::env::var_os(TRACES).is_some();
        let path = traces().join(FILE);
        if !is_asked_for && !path.exists() {
            return Ok(Self::synthetic());
        }
        Self::read(&path)
    }

    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let (hours, first) = parse(&text).with_context(|| format!("{} has no usable prices", path.display()))?;
        Ok(Self { source: "German day-ahead prices of 26 to 29 October 2017".into(), hours, first })
    }

    /// Makes four days that become windy, as in October 2017: expensive mornings and evenings, then two days below
    /// zero.
    pub fn synthetic() -> Self {
        /// Prices of a working day by hour, in EUR/MWh.
        const DAY: [i64; 24] =
            [30, 29, 28, 28, 29, 33, 43, 53, 54, 49, 44, 41, 37, 33, 33, 37, 45, 49, 51, 50, 42, 36, 33, 31];
        /// Reduction of the price by wind on each day.
        const WIND: [i64; 5] = [0, 10, 50, 105, 15];
        let hours = WIND.iter().flat_map(|wind| DAY.map(|price| Price::from_milli_per_mwh((price - wind) * 1_000)));
        let hours: Vec<Price> = hours.collect();
        Self {
            source: "a bundled synthetic curve with negative hours (no price file was found)".into(),
            // The curve repeats, because random days begin anywhere in it.
            hours: hours.iter().copied().cycle().take(hours.len() + HOURS_NEEDED).collect(),
            first: 0,
        }
    }

    /// Returns the prices of the four days of limo-2018, and of the days after them.
    pub fn of_2018(&self) -> Prices {
        self.part(self.first, self.source.clone())
    }

    /// Returns the number of days with enough days after them.
    pub fn days(&self) -> usize {
        (self.hours.len() - HOURS_NEEDED) / 24 + 1
    }

    /// Returns the prices from the beginning of a day on.
    pub fn starting_on(&self, day: usize) -> Prices {
        self.part(24 * day, format!("{} days after the first price", day))
    }

    fn part(&self, first: usize, source: String) -> Prices {
        Prices { source, hours: self.hours[first..first + HOURS_NEEDED].to_vec() }
    }
}

impl Prices {
    /// Returns the prices that are known during the hour: those of the day.
    ///
    /// # Errors
    /// Never, for prices that were read.
    pub fn known(&self) -> Result<Curve<Price>> {
        Ok(Curve::new(self.steps().collect(), Some(workload::END_OF_DAY))?)
    }

    fn steps(&self) -> impl Iterator<Item = (Time, Price)> {
        let step = (workload::END - workload::BEGIN).scaled(1, HOURS);
        self.hours.iter().enumerate().map(move |(index, price)| (workload::BEGIN + scaled(step, index), *price))
    }
}

fn scaled(step: Span, index: usize) -> Span {
    step.scaled(i64::try_from(index).unwrap_or(i64::MAX), 1)
}

/// Parses the columns `date` (first, `2017-10-26 00:00:00`) and `Price` (EUR/MWh), and ignores others. Also returns
/// the index of the first of the four days.
fn parse(text: &str) -> Result<(Vec<Price>, usize)> {
    let mut lines = text.lines().enumerate();
    let (_, header) = lines.next().context("the file is empty")?;
    let column = header.split(',').position(|title| title == "Price").context("line 1: no column `Price`")?;
    ensure!(header.starts_with("date,"), "line 1: the first column is not `date`");
    let mut first = None;
    let mut hours = Vec::new();
    for (index, line) in lines {
        if first.is_none() && line.starts_with(FIRST_DAY) {
            first = Some(hours.len());
        }
        let cell = line.split(',').nth(column).unwrap_or_default();
        let price = format!("{cell} EUR/MWh").parse();
        let price =
            price.with_context(|| format!("line {}, column {}: `{cell}` is not a price", index + 1, column + 1))?;
        hours.push(price);
    }
    let count = first.map_or(0, |first| hours.len() - first);
    ensure!(count >= HOURS_NEEDED, "{count} hours from {FIRST_DAY} on: {HOURS_NEEDED} are needed");
    Ok((hours, first.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rows: usize) -> String {
        let row = |hour: usize| format!("2017-10-{:02} {:02}:00:00,{}.5,1,2\n", 25 + hour / 24, hour % 24, hour);
        format!("date,Price,Load,Wind\n{}", (0..rows).map(row).collect::<String>())
    }

    fn price(text: &str) -> Price {
        text.parse().expect("a price")
    }

    #[test]
    fn four_days_fill_the_hour_and_the_next_days_follow() {
        let (hours, first) = parse(&file(24 + 288)).expect("prices");
        let market = Market { source: String::new(), hours, first };
        let known = market.of_2018().known().expect("a curve");
        assert_eq!((known.steps().len(), known.until()), (288, Some(workload::END_OF_DAY)));
        // Hour 24 of the file is the first of 26 October. A price holds for 37.5 s of the hour.
        assert_eq!(known.at(workload::BEGIN).copied(), "24.5 EUR/MWh".parse().ok());
        assert_eq!(known.at(Time::from_unix_ms(37_500)).copied(), "25.5 EUR/MWh".parse().ok());
        assert_eq!(known.at(workload::END).copied(), "120.5 EUR/MWh".parse().ok());
        // Eleven more days follow the first two in the file.
        assert_eq!(market.days(), 2);
        assert_eq!(market.starting_on(0).hours[0], price("0.5 EUR/MWh"));
        assert_eq!(market.starting_on(1).hours, market.of_2018().hours);
    }

    #[test]
    fn refusals() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).expect_err("refused");
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        };
        check("", "the file is empty");
        check("date,Cost\n", "line 1: no column `Price`");
        check(&file(30), "6 hours from 2017-10-26 on: 288 are needed");
        check(&file(312).replace("26.5", "cheap"), "line 28, column 2: `cheap` is not a price");
    }

    #[test]
    fn the_bundled_curve_has_negative_hours() {
        let prices = Market::synthetic().of_2018();
        assert_eq!(prices.hours.len(), 288);
        assert!(prices.hours[72..96].iter().filter(|price| **price < Price::ZERO).count() == 24);
        assert!(prices.hours[..24].iter().all(|price| *price > Price::ZERO));
        assert_eq!(Market::synthetic().days(), 6);
    }
}
