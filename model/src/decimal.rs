//! Exact conversion of decimal numbers to text and back: an integer and its number of decimal places. No floating
//! point.

use crate::number::divide_rounded;

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

/// Returns the number in units of `10^-places`. `None` if it is not a plain decimal number, has more places, or does not fit.
pub fn parse(text: &str, places: u32) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let plain = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > places as usize {
        return None;
    }
    let value: i128 = format!("{whole}{fraction:0<width$}", width = places as usize).parse().ok()?;
    Some(if negative { -value } else { value })
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
