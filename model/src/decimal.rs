//! Exact conversion of decimal numbers to text and back: an integer and its number of decimal places. No floating
//! point.

use thiserror::Error;

use crate::number::divide_rounded;

/// Reason why a text is not a decimal number here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecimalError {
    /// Other characters, or no digit.
    #[error("it is not a number")]
    NoNumber,
    /// More digits or a larger exponent than any value here has.
    #[error("it is out of range")]
    OutOfRange,
}

/// A decimal number as it is written: `digits * 10^(exponent - places)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    /// True if it begins with `-`.
    pub negative: bool,
    /// All digits as one number, 0 or more and below `10^30`.
    pub digits: i128,
    /// Number of digits after the point, at most 60.
    pub places: u32,
    /// The power of ten after `e`; `None` if there is none.
    pub exponent: Option<i32>,
    /// True if digits that are not 0 were left out after the thirtieth one.
    is_cut: bool,
}

/// Most digits that are read: more than an `i64` with any exponent can distinguish.
const DIGITS: u32 = 30;
/// Larger exponents are out of range or give zero for any digits.
const EXPONENT: i32 = 60;
const MOST_PLACES: u32 = 60;

impl Decimal {
    /// Reads `[-+]digits[.digits][e[-+]digits]`; one of the two groups of digits may be empty.
    ///
    /// # Errors
    /// [`DecimalError`] if the bytes are not such a number or have more digits than are read.
    pub fn read(text: &[u8]) -> Result<Self, DecimalError> {
        let (negative, text) = signed(text);
        let split = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = match split {
            None => (text, None),
            Some(at) => (&text[..at], Some(exponent(&text[at + 1..])?)),
        };
        let (mut digits, mut places, mut significant) = (0_i128, 0, 0);
        let (mut point, mut any, mut is_cut) = (false, false, false);
        for byte in mantissa {
            match byte {
                b'0'..=b'9' => {
                    any = true;
                    if significant == DIGITS {
                        // Further digits of a whole number are too many.
                        if point {
                            is_cut |= *byte != b'0';
                            continue;
                        }
                        return Err(DecimalError::OutOfRange);
                    }
                    digits = digits * 10 + i128::from(byte - b'0');
                    significant += u32::from(digits != 0);
                    places += u32::from(point);
                    if places > MOST_PLACES {
                        return Err(DecimalError::OutOfRange);
                    }
                }
                b'.' if !point => point = true,
                _ => return Err(DecimalError::NoNumber),
            }
        }
        if any { Ok(Self { negative, digits, places, exponent, is_cut }) } else { Err(DecimalError::NoNumber) }
    }

    /// Returns the number in units of `10^-places`, rounded half away from zero.
    ///
    /// # Errors
    /// [`DecimalError::OutOfRange`] if that does not fit an `i64`.
    pub fn rounded(self, places: i32) -> Result<i64, DecimalError> {
        // All three are at most 60, or places of a caller.
        let shift = self.exponent.unwrap_or(0) + places - self.places as i32;
        let power = 10_i128.checked_pow(shift.unsigned_abs());
        let magnitude = match (power, shift >= 0) {
            _ if self.digits == 0 => 0,
            (Some(power), true) => self.digits.checked_mul(power).ok_or(DecimalError::OutOfRange)?,
            (Some(power), false) => (self.digits + power / 2) / power,
            (None, true) => return Err(DecimalError::OutOfRange),
            // Below 10^30 / 10^39.
            (None, false) => 0,
        };
        i64::try_from(self.signed(magnitude)).map_err(|_| DecimalError::OutOfRange)
    }

    /// Returns the number in units of `10^-places`, at most 38. `None` if that is not a whole number, or does not fit.
    pub fn exact(self, places: u32) -> Option<i128> {
        let shift = self.exponent.unwrap_or(0) + i32::try_from(places).ok()? - self.places as i32;
        let power = 10_i128.checked_pow(shift.unsigned_abs());
        let magnitude = match power {
            _ if self.is_cut => return None,
            _ if self.digits == 0 => 0,
            Some(power) if shift >= 0 => self.digits.checked_mul(power)?,
            Some(power) if self.digits % power == 0 => self.digits / power,
            _ => return None,
        };
        Some(self.signed(magnitude))
    }

    /// Returns the number times a positive `factor`, rounded half away from zero; digits after the eighteenth decimal
    /// place are left out, because they change nothing with a factor up to 3.6e15. `None` if it has an exponent or the
    /// product does not fit.
    pub fn times(self, factor: i64) -> Option<i64> {
        if self.exponent.is_some() {
            return None;
        }
        let places = self.places.min(18);
        // Below 10^30 by 10^39 or more is 0.
        let digits = 10_i128.checked_pow(self.places - places).map_or(0, |power| self.digits / power);
        let (denominator, factor) = (10_i128.pow(places), i128::from(factor));
        let whole = i128::from(i64::try_from(digits / denominator).ok()?);
        let magnitude = whole * factor + divide_rounded(digits % denominator * factor, denominator);
        i64::try_from(self.signed(magnitude)).ok()
    }

    fn signed(self, magnitude: i128) -> i128 {
        if self.negative { -magnitude } else { magnitude }
    }
}

fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn exponent(text: &[u8]) -> Result<i32, DecimalError> {
    let (negative, digits) = signed(text);
    if digits.is_empty() {
        return Err(DecimalError::NoNumber);
    }
    let mut value = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return Err(DecimalError::NoNumber);
        }
        value = (value * 10 + i32::from(byte - b'0')).min(EXPONENT);
    }
    Ok(if negative { -value } else { value })
}

/// Returns `value / 10^places` as text without trailing zeros. `places` is at most 38.
pub fn text(value: i128, places: u32) -> String {
    let full = fixed(value, places);
    if places == 0 { full } else { full.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// Returns `value / 10^places` as text with exactly that many places, at most 38.
pub fn fixed(value: i128, places: u32) -> String {
    let (unit, magnitude) = (10_u128.pow(places), value.unsigned_abs());
    let sign = if value < 0 { "-" } else { "" };
    if places == 0 {
        return format!("{sign}{magnitude}");
    }
    format!("{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = places as usize)
}

/// Returns the number in units of `10^-places`. `None` if it is not digits with an optional point and `-`, has more
/// places, or does not fit.
pub fn parse(text: &str, places: u32) -> Option<i128> {
    let begins = text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit());
    let number = Decimal::read(text.as_bytes()).ok().filter(|number| begins && number.exponent.is_none())?;
    number.exact(places)
}

/// Returns a percentage such as `2.5%` or `2.5 %` in units of `10^-places` percent. `None` if it has no `%` or is not such
/// a number.
pub fn percent(text: &str, places: u32) -> Option<u64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    let is_plain = number.ends_with(|c: char| c.is_ascii_digit()) && !number.starts_with('-');
    parse(number, places).filter(|_| is_plain)?.try_into().ok()
}

/// Converts a number with `from` places into one with `to` places, rounded half away from zero.
pub fn rescale(value: i128, from: u32, to: u32) -> i128 {
    if to >= from { value * 10_i128.pow(to - from) } else { divide(value, 10_i128.pow(from - to)) }
}

/// Divides, rounded half away from zero. Returns 0 for a denominator that is not positive.
#[inline]
pub fn divide(numerator: i128, denominator: i128) -> i128 {
    if denominator <= 0 { 0 } else { divide_rounded(numerator, denominator) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (value, places, shown) in
            [(1_500, 3, "1.5"), (-1_000, 3, "-1"), (0, 6, "0"), (120, 0, "120"), (-5, 3, "-0.005")]
        {
            assert_eq!(text(value, places), shown);
            assert_eq!(parse(shown, places), Some(value));
        }
        assert_eq!(fixed(1_500, 3), "1.500");
        for broken in ["", "-", "1e3", "1.2345", ".5", "+1", "1 "] {
            assert_eq!(parse(broken, 3), None, "{broken}");
        }
    }

    #[test]
    fn percentages() {
        for (text, places, expected) in [
            ("2.5%", 1, Some(25)),
            (" 100 % ", 2, Some(10_000)),
            ("2.50%", 1, Some(25)),
            ("2.55%", 1, None),
            ("2", 1, None),
            ("-2%", 1, None),
            ("%", 1, None),
            ("1.%", 1, None),
            ("1e1%", 1, None),
        ] {
            assert_eq!(percent(text, places), expected, "{text:?}");
        }
    }

    #[test]
    fn exact_values_lose_no_digit() {
        let exact = |text: &str, places| Decimal::read(text.as_bytes()).expect("a number").exact(places);
        assert_eq!((exact("1.200", 1), exact("1.25", 1), exact("25e-2", 2)), (Some(12), None, Some(25)));
        assert_eq!(exact("0.1000000000000000000000000000000000000000001", 3), None);
        assert_eq!(exact("0.1000000000000000000000000000000000000000000", 3), Some(100));
    }

    fn check(text: &str, expected: Result<i64, DecimalError>) {
        assert_eq!(Decimal::read(text.as_bytes()).and_then(|number| number.rounded(3)), expected, "{text:?}");
    }

    #[test]
    fn numbers_as_traces_write_them() {
        check("7e+05", Ok(700_000_000));
        check("0.1", Ok(100));
        check("-1", Ok(-1_000));
        check("847.51", Ok(847_510));
        check("1.5E-3", Ok(2));
        check("1.4e-3", Ok(1));
        check("-0.0005", Ok(-1));
        check(".5", Ok(500));
        check("5.", Ok(5_000));
        check("9223372036854775.807", Ok(i64::MAX));
        check("0e9999999999", Ok(0));
        check("1e-9999999999", Ok(0));
        check("0.12345678901234567890123456789012345678901234567890", Ok(123));
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", "-", ".", "1.2.3", "12a", "e5", "1e", "1e+", "--1", "0x10", "nan", "inf", "1_000", "\u{b2}"] {
            check(text, Err(DecimalError::NoNumber));
        }
        for text in ["9223372036854775.808", "1e60", "1e9999999999", "1234567890123456789012345678901"] {
            check(text, Err(DecimalError::OutOfRange));
        }
    }

    #[test]
    fn rounding() {
        assert_eq!((rescale(1_235, 3, 2), rescale(-1_235, 3, 2), rescale(12, 0, 2)), (124, -124, 1_200));
        for (numerator, denominator, expected) in
            [(7, 2, 4), (-5, 2, -3), (4, 3, 1), (-4, 3, -1), (1, 0, 0), (1, -1, 0)]
        {
            assert_eq!(divide(numerator, denominator), expected, "{numerator} / {denominator}");
        }
        assert_eq!(divide(i128::MAX - 1, 2), i128::MAX / 2);
    }
}
