//! Parses text such as `1.5kW` into a fixed-point integer. Exact decimal arithmetic, without floating point or
//! knowledge of units.

use thiserror::Error;

use crate::currency::{Currency, CurrencyError};
use crate::decimal::{Decimal, DecimalError};

/// Error in the text of a quantity. It names the value and the units that are understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum UnitError {
    #[error("`{value}` has no number: write for example `{example}`")]
    NoNumber { value: String, example: &'static str },
    #[error("`{value}` has no unit: write for example `{example}` (units: {units})")]
    NoUnit { value: String, example: &'static str, units: String },
    #[error("`{value}` has the unknown unit `{unit}` (units: {units})")]
    UnknownUnit { value: String, unit: String, units: String },
    #[error("`{value}` is not hours, minutes and seconds, both below 60: write for example `1:30:00` or `90:00`")]
    NotClock { value: String },
    #[error("`{value}` is too large or too small to be represented")]
    OutOfRange { value: String },
    #[error("`{value}` must not be negative")]
    Negative { value: String },
    #[error("`{value}`: {source}")]
    Currency { value: String, source: CurrencyError },
}

/// A spelling of a quantity: the suffix, and its value in base units.
pub(crate) type Suffix = (&'static str, i64);

pub(crate) fn unit_list(units: &[Suffix]) -> String {
    units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Splits `text` into its number and its unit, e.g. `-1.5 kW` into `-1.5` and `kW`.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Parses `text` as a decimal number followed by one of `units`, in base units, rounded half away from zero.
///
/// # Errors
/// [`UnitError`] if the number or the unit is missing or unknown, or the value does not fit an `i64`.
pub(crate) fn parse(text: &str, units: &[Suffix], example: &'static str) -> Result<i64, UnitError> {
    let text = text.trim();
    let (number, unit) = split(text);
    read(text, (number, unit), units, example)
}

/// Parses an amount like [`parse`]. Its currency may be another one than in `units`, which are in EUR; it becomes the
/// currency of this process.
///
/// # Errors
/// The same as for [`parse`]; also if this process has another currency.
pub(crate) fn parse_amount(text: &str, units: &[Suffix], example: &'static str) -> Result<i64, UnitError> {
    let text = text.trim();
    let (number, unit) = split(text);
    let currency = unit.get(..3).and_then(Currency::of_code);
    let Some(currency) = currency else { return read(text, (number, unit), units, example) };
    let unit = unit.replacen(currency.code(), Currency::EUR.code(), 1);
    let value = read(text, (number, &unit), units, example)?;
    currency.agree().map_err(|source| UnitError::Currency { value: text.to_owned(), source })?;
    Ok(value)
}

fn read(text: &str, (number, unit): (&str, &str), units: &[Suffix], example: &'static str) -> Result<i64, UnitError> {
    let value = || text.to_owned();
    if !number.contains(|c: char| c.is_ascii_digit()) {
        return Err(UnitError::NoNumber { value: value(), example });
    }
    if unit.is_empty() {
        return Err(UnitError::NoUnit { value: value(), example, units: unit_list(units) });
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(UnitError::UnknownUnit { value: value(), unit: unit.to_owned(), units: unit_list(units) });
    };
    let number = match Decimal::read(number.as_bytes()) {
        Err(DecimalError::NoNumber) => return Err(UnitError::NoNumber { value: value(), example }),
        Err(DecimalError::OutOfRange) => None,
        Ok(number) => number.times(*factor),
    };
    number.ok_or_else(|| UnitError::OutOfRange { value: value() })
}

/// Returns `numerator / denominator`, rounded half away from zero. `denominator` must be positive.
pub(crate) fn divide_rounded(numerator: i128, denominator: i128) -> i128 {
    // Divisions of 64 bits are several times faster, and nearly all operands fit.
    if let (Ok(numerator), Ok(denominator)) = (i64::try_from(numerator), i64::try_from(denominator)) {
        let half = denominator / 2;
        let sum = if numerator >= 0 { numerator.checked_add(half) } else { numerator.checked_sub(half) };
        if let Some(sum) = sum {
            return i128::from(sum / denominator);
        }
    }
    let half = denominator / 2;
    if numerator >= 0 { (numerator + half) / denominator } else { (numerator - half) / denominator }
}

/// Clamps the result of one rounded physical operation to the range, instead of wrapping.
pub(crate) fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATTS: &[Suffix] = &[("W", 1_000), ("kW", 1_000_000)];

    fn check(text: &str, expected: Result<i64, &str>) {
        let got = parse(text, WATTS, "90 W").map_err(|e| e.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn decimal_quantities() {
        check("1.5kW", Ok(1_500_000));
        check(" -0.5 W ", Ok(-500));
        check("0.0005 W", Ok(1));
        check("0.0004 W", Ok(0));
        check("9223372036854775.807 W", Ok(i64::MAX));
        check("+.5W", Ok(500));
        check("0.00050000000000000000000000000000000000000000000001 W", Ok(1));
    }

    #[test]
    fn refusals_name_the_value_and_the_units() {
        check("90", Err("`90` has no unit: write for example `90 W` (units: W, kW)"));
        check("kW", Err("`kW` has no number: write for example `90 W`"));
        check("1.2.3 W", Err("`1.2.3 W` has no number: write for example `90 W`"));
        check("3 horses", Err("`3 horses` has the unknown unit `horses` (units: W, kW)"));
        check("99999999999999999 kW", Err("`99999999999999999 kW` is too large or too small to be represented"));
        check("--5 W", Err("`--5 W` has no number: write for example `90 W`"));
        check("", Err("`` has no number: write for example `90 W`"));
    }
}
