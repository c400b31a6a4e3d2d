//! Parses decimal numbers into fixed-point integers without floating point.
//!
//! Accepts signs, fractions and exponents (`0.1`, `7e+05`).

use limo_model::decimal::text;

/// Number in units of `10^-places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub value: i64,
    /// True if the number was written with an exponent.
    pub exponent: bool,
}

/// Reason why bytes are not a number of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NoNumber,
    OutOfRange,
}

/// Most significant digits: more than an `i64` with any exponent can distinguish.
const DIGITS: u32 = 30;
/// Largest exponent. Larger ones are out of range or give zero for any digits.
const EXPONENT: i32 = 60;

/// Parses `[-+]digits[.digits][e[-+]digits]` in units of `10^-places`, rounded half away from zero.
///
/// # Errors
/// [`Fault`] if the bytes are not such a number or the value does not fit an `i64`.
pub(crate) fn parse(text: &[u8], places: i32) -> Result<Decimal, Fault> {
    let (negative, text) = signed(text);
    let split = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match split {
        None => (text, 0),
        Some(at) => (&text[..at], self::exponent(&text[at + 1..])?),
    };
    let (digits, fraction) = self::mantissa(mantissa)?;
    let magnitude = shifted(digits, exponent + places - fraction)?;
    let value = i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| Fault::OutOfRange)?;
    Ok(Decimal { value, exponent: split.is_some() })
}

fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn exponent(text: &[u8]) -> Result<i32, Fault> {
    let (negative, digits) = signed(text);
    if digits.is_empty() {
        return Err(Fault::NoNumber);
    }
    let mut value = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return Err(Fault::NoNumber);
        }
        value = (value * 10 + i32::from(byte - b'0')).min(EXPONENT);
    }
    Ok(if negative { -value } else { value })
}

/// Returns the digits as one number, and the number of decimals.
fn mantissa(text: &[u8]) -> Result<(i128, i32), Fault> {
    let (mut value, mut fraction, mut point, mut any) = (0_i128, 0, false, false);
    let mut significant = 0;
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                any = true;
                if significant == DIGITS {
                    // Further digits of a fraction change nothing, but a whole number has too many.
                    if point {
                        continue;
                    }
                    return Err(Fault::OutOfRange);
                }
                value = value * 10 + i128::from(byte - b'0');
                significant += u32::from(value != 0);
                fraction += i32::from(point);
                if fraction > EXPONENT {
                    return Err(Fault::OutOfRange);
                }
            }
            b'.' if !point => point = true,
            _ => return Err(Fault::NoNumber),
        }
    }
    if any { Ok((value, fraction)) } else { Err(Fault::NoNumber) }
}

/// Returns `digits * 10^shift`, rounded half up; `digits` is not negative and below `10^30`.
fn shifted(digits: i128, shift: i32) -> Result<i128, Fault> {
    if digits == 0 {
        return Ok(0);
    }
    let power = 10_i128.checked_pow(shift.unsigned_abs());
    match (power, shift >= 0) {
        (Some(power), true) => digits.checked_mul(power).ok_or(Fault::OutOfRange),
        (Some(power), false) => Ok((digits + power / 2) / power),
        (None, true) => Err(Fault::OutOfRange),
        // The result is below 10^30 / 10^39, so it rounds to zero.
        (None, false) => Ok(0),
    }
}

/// Formats `value` thousandths as the shortest decimal: `1500` is `1.5`.
pub(crate) struct Thousandths(pub i64);

impl std::fmt::Display for Thousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self.0.into(), 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<i64, Fault>) {
        assert_eq!(parse(text.as_bytes(), 3).map(|decimal| decimal.value), expected, "{text:?}");
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
    fn invalid_numbers_are_refused() {
        for text in ["", "-", ".", "1.2.3", "12a", "e5", "1e", "1e+", "--1", "0x10", "nan", "inf", "1_000", "\u{b2}"] {
            check(text, Err(Fault::NoNumber));
        }
        for text in ["9223372036854775.808", "1e60", "1e9999999999", "1234567890123456789012345678901"] {
            check(text, Err(Fault::OutOfRange));
        }
    }

    #[test]
    fn thousandths_are_shown_short() {
        for (value, shown) in [(1_500, "1.5"), (-100, "-0.1"), (7, "0.007"), (0, "0"), (-2_000, "-2")] {
            assert_eq!(Thousandths(value).to_string(), shown);
        }
    }
}
