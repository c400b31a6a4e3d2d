//! Values of a command line or a sweep, parsed from text and formatted as the same text. Exact, no floating point.

use std::fmt;
use std::str::FromStr;

use limo_model::decimal::{Decimal, percent};
use limo_model::{Energy, Power, Span, Time};
use serde::{Deserialize, Serialize};

/// Positive decimal number such as `1.2`, kept as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// Numerator; positive.
    pub numerator: i64,
    /// Denominator: a power of ten, 1 to 10^6.
    pub denominator: i64,
}

/// Most digits after the decimal point.
const PLACES: u32 = 6;

impl FromStr for Ratio {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{text}` is not a positive number with up to {PLACES} digits after the decimal point: write for example 1.2"
            )
        };
        let number = Decimal::read(text.as_bytes()).map_err(|_| refused())?;
        let is_plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && number.exponent.is_none();
        // At most twelve digits are allowed, so that no product overflows an `i64`.
        if !is_plain || text.replace('.', "").len() > 12 || number.places > PLACES {
            return Err(refused());
        }
        let numerator = i64::try_from(number.digits).map_err(|_| refused())?;
        let denominator = 10_i64.pow(number.places);
        if numerator == 0 { Err(refused()) } else { Ok(Self { numerator, denominator }) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.numerator / self.denominator)?;
        if self.denominator == 1 {
            return Ok(());
        }
        let places = self.denominator.to_string().len() - 1;
        write!(f, ".{:0places$}", self.numerator % self.denominator)
    }
}

/// Formats a quantity for people if that is exact, else in its smallest unit.
fn exact<T: fmt::Display + FromStr + PartialEq>(value: T, smallest: String) -> String {
    let shown = value.to_string();
    if shown.parse().is_ok_and(|read: T| read == value) { shown } else { smallest }
}

/// Formats a span exactly.
pub fn exact_span(span: Span) -> String {
    exact(span, format!("{}ms", span.ms()))
}

/// Formats a value, if there is one.
pub fn shown(value: Option<impl fmt::Display>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Energy of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Energy(Energy),
    /// Share of the energy that all processors would use in the period while they compute, by the scheduler's belief
    /// (energy-budget-2017, section V-C).
    Percent(Ratio),
}

impl Amount {
    /// Returns the energy for `span` on a cluster with a believed full draw of `full`. Rounded down.
    pub fn energy(self, full: Power, span: Span) -> Energy {
        match self {
            Self::Energy(energy) => energy,
            Self::Percent(ratio) => {
                // mW x ms are µJ. A million nodes for a century with all twelve digits are 10^38, which still fits.
                let factors = [i128::from(full.mw()), i128::from(span.ms()), i128::from(ratio.numerator)];
                let energy =
                    factors.into_iter().fold(1, i128::saturating_mul) / (i128::from(ratio.denominator) * 100_000);
                Energy::from_mj(i64::try_from(energy).unwrap_or(i64::MAX))
            }
        }
    }
}

impl FromStr for Amount {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(Self::Percent),
            None => text.parse().map(Self::Energy).map_err(|error: limo_model::UnitError| error.to_string()),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Energy(energy) => f.write_str(&exact(*energy, format!("{} mJ", energy.mj()))),
            Self::Percent(ratio) => write!(f, "{ratio}%"),
        }
    }
}

/// Share of all jobs, `30%`; 0 to 10,000 hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(pub u64);

impl FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{text}` is not a share of the jobs: write 0% to 100%, with up to two digits after the decimal point"
            )
        };
        percent(text, 2).filter(|hundredths| *hundredths <= 10_000).map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, hundredths) => write!(f, "{whole}.{hundredths:02}%"),
        }
    }
}

/// Part of the workload's time, `2d..5d`, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub from: Span,
    /// End; after `from`.
    pub until: Span,
}

impl FromStr for Extent {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, until) =
            text.split_once("..").ok_or_else(|| format!("`{text}` is not a window: write for example 2d..5d"))?;
        let span = |text: &str| text.trim().parse::<Span>().map_err(|error| error.to_string());
        let (from, until) = (span(from)?, span(until)?);
        if from < Span::ZERO || until <= from {
            return Err(format!("`{text}` does not end after its begin, or begins before the workload"));
        }
        Ok(Self { from, until })
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", exact_span(self.from), exact_span(self.until))
    }
}

/// Point in calendar time, `2017-10-26T00:00:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date(pub Time);

impl FromStr for Date {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let date: Result<jiff::Timestamp, _> = text.trim().parse();
        date.map(|date| Self(Time::from_unix_ms(date.as_millisecond())))
            .map_err(|_| format!("`{text}` is not a point in time: write for example 2017-10-26T00:00:00Z"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0.unix_ms()) {
            Ok(date) => date.fmt(f),
            Err(_) => write!(f, "{} ms", self.0.unix_ms()),
        }
    }
}

/// Setting `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Setting {
    pub key: String,
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` has no value: write KEY=VALUE, such as depth=512"))?;
        Ok(Self { key: key.trim().to_owned(), value: value.trim().to_owned() })
    }
}

impl TryFrom<String> for Setting {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> Self {
        setting.to_string()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that text is formatted as it was parsed.
    fn check<T: FromStr<Err = String> + fmt::Display>(text: &str, expected: Result<&str, &str>) {
        let shown = text.parse::<T>().map(|value| value.to_string());
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn ratios() {
        check::<Ratio>("1.2", Ok("1.2"));
        check::<Ratio>("0.050", Ok("0.050"));
        check::<Ratio>("80", Ok("80"));
        for text in ["", "0", "0.0", "-1", "1e3", "1.2.3", "0.1234567", "1234567890123", "."] {
            let refused = format!(
                "`{text}` is not a positive number with up to 6 digits after the decimal point: write for example 1.2"
            );
            check::<Ratio>(text, Err(&refused));
        }
    }

    #[test]
    fn shares() {
        check::<Share>("30%", Ok("30%"));
        check::<Share>("0.05 %", Ok("0.05%"));
        check::<Share>("100.00%", Ok("100%"));
        assert_eq!("2.5%".parse(), Ok(Share(250)));
        for text in ["30", "-1%", "100.01%", "1.234%", "%", ".5%", "half"] {
            let refused = format!(
                "`{text}` is not a share of the jobs: write 0% to 100%, with up to two digits after the decimal point"
            );
            check::<Share>(text, Err(&refused));
        }
    }

    #[test]
    fn amounts() {
        check::<Amount>("49.23%", Ok("49.23%"));
        check::<Amount>("40MWh", Ok("40000.000 kWh"));
        check::<Amount>("5 mJ", Ok("5 mJ"));
        check::<Amount>("40", Err("`40` has no unit: write for example `1.5 kWh` (units: J, kJ, Wh, kWh, MWh, mJ)"));
        // 80 % of 203.12 W for 1000 s are 162,496 J.
        let energy =
            |text: &str| text.parse::<Amount>().map(|it| it.energy(Power::from_mw(203_120), Span::from_secs(1_000)));
        assert_eq!(energy("80%"), Ok(Energy::from_joules(162_496)));
        assert_eq!(energy("0.5%"), Ok(Energy::from_mj(1_015_600)));
        assert_eq!(energy("3 J"), Ok(Energy::from_joules(3)));
    }

    #[test]
    fn extents_dates_and_settings() {
        check::<Extent>("2d..5d", Ok("2d..5d"));
        check::<Extent>("1d..90061s", Ok("1d..90061000ms"));
        check::<Extent>("2d", Err("`2d` is not a window: write for example 2d..5d"));
        check::<Extent>("5d..2d", Err("`5d..2d` does not end after its begin, or begins before the workload"));
        check::<Date>("2017-10-26T00:00:00Z", Ok("2017-10-26T00:00:00Z"));
        check::<Date>("1997-01-02T03:04:05+01:00", Ok("1997-01-02T02:04:05Z"));
        check::<Date>("today", Err("`today` is not a point in time: write for example 2017-10-26T00:00:00Z"));
        check::<Setting>("rest = idle:10min", Ok("rest=idle:10min"));
        check::<Setting>("rest", Err("`rest` has no value: write KEY=VALUE, such as depth=512"));
    }
}
