//! Formats numbers into one buffer of bytes. Uses integers only: no floating point, and no allocation per field.
//!
//! Independent of files and columns. `format!` would cost more than the whole budget of a row.

/// Buffer for rows. It has space behind its text, so that a field is stored by words of fixed size and truncated
/// afterwards.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Number of bytes written.
    at: usize,
}

/// Bytes of the longest number: a sign, 20 digits, a point and 6 decimals, and the word that stores the last 8
/// digits.
const LONGEST: usize = 40;

/// Digits of 0 to 999, the first in the lowest byte, and their number in the highest.
const WHOLE: [u32; 1_000] = table(false);

/// Decimals of 0 to 999: with leading zeros and without trailing ones; their number counts the decimal point.
const DECIMALS: [u32; 1_000] = table(true);

const fn table(decimals: bool) -> [u32; 1_000] {
    let mut table = [0; 1_000];
    let mut value = 0;
    while value < 1_000 {
        let digits = (value / 100) | (value / 10 % 10) << 8 | (value % 10) << 16 | 0x0030_3030;
        table[value as usize] = if decimals {
            let zeros = (value % 10 == 0) as u32 + (value % 100 == 0) as u32;
            digits | (if value == 0 { 0 } else { 4 - zeros }) << 24
        } else {
            let zeros = (value < 10) as u32 + (value < 100) as u32;
            digits >> (8 * zeros) | (3 - zeros) << 24
        };
        value += 1;
    }
    table
}

/// Returns the 8 digits of a value below 10^8, the first in the lowest byte: halves, then quarters, then digits. Each
/// step handles all lanes of the word at once.
fn digits(value: u32) -> u64 {
    let value = u64::from(value);
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    // 10,486 / 2^20 and 103 / 2^10 divide by 100 and by 10 exactly for all values of a lane.
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

/// Word of eight digits 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;

impl LineBuffer {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], at: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    /// Returns the text; invalid UTF-8 is replaced.
    pub fn into_text(mut self) -> String {
        self.bytes.truncate(self.at);
        String::from_utf8(self.bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    pub fn len(&self) -> usize {
        self.at
    }

    pub fn clear(&mut self) {
        self.at = 0;
    }

    /// Returns space for the next `bytes` bytes.
    #[inline]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.at + bytes;
        if self.bytes.len() < end {
            self.grow(end);
        }
        &mut self.bytes[self.at..end]
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(2 * end, 0);
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) {
        match self.bytes.get_mut(self.at) {
            Some(place) => *place = byte,
            None => self.room(1)[0] = byte,
        }
        self.at += 1;
    }

    #[inline]
    pub fn comma(&mut self) {
        self.byte(b',');
    }

    #[inline]
    pub fn unsigned(&mut self, value: u64) {
        self.at += whole(self.room(LONGEST), 0, value);
    }

    #[inline]
    pub fn signed(&mut self, value: i64) {
        let out = self.room(LONGEST);
        let at = sign(out, value);
        self.at += whole(out, at, value.unsigned_abs());
    }

    /// Writes `value` thousandths with up to three decimals, without trailing zeros.
    pub fn thousandths(&mut self, value: i64) {
        let out = self.room(LONGEST);
        let at = sign(out, value);
        let magnitude = value.unsigned_abs();
        let at = whole(out, at, magnitude / 1_000);
        let decimals = DECIMALS[(magnitude % 1_000) as usize];
        self.at += word(out, at, u64::from(decimals) << 8 | u64::from(b'.'), decimals >> 24);
    }

    /// Writes `value` millionths with up to six decimals, without trailing zeros.
    pub fn millionths(&mut self, value: i64) {
        let out = self.room(LONGEST);
        let at = sign(out, value);
        let magnitude = value.unsigned_abs();
        let at = whole(out, at, magnitude / 1_000_000);
        let rest = (magnitude % 1_000_000) as usize;
        let (first, second) = (DECIMALS[rest / 1_000], DECIMALS[rest % 1_000]);
        let kept = if second >> 24 > 0 { 3 + (second >> 24) } else { first >> 24 };
        let decimals = u64::from(first & 0xff_ffff) | u64::from(second) << 24;
        self.at += word(out, at, decimals << 8 | u64::from(b'.'), kept);
    }

    /// Appends a copy of `length` bytes from `from` on, both already written.
    pub fn again(&mut self, from: usize, length: usize) {
        self.room(length);
        self.bytes.copy_within(from..from + length, self.at);
        self.at += length;
    }

    /// Writes a text field, quoted if it has a comma, quote or line break (RFC 4180).
    pub fn text(&mut self, text: &str) {
        if !text.contains([',', '"', '\n', '\r']) {
            self.raw(text.as_bytes());
            return;
        }
        self.byte(b'"');
        self.raw(text.replace('"', "\"\"").as_bytes());
        self.byte(b'"');
    }
}

/// Writes the sign of a number; returns where its digits start.
#[inline]
fn sign(out: &mut [u8], value: i64) -> usize {
    out[0] = b'-';
    usize::from(value < 0)
}

/// Writes the digits of a number from `at` on; returns where they end.
#[inline]
fn whole(out: &mut [u8], at: usize, value: u64) -> usize {
    if value < 1_000 {
        let digits = WHOLE[value as usize];
        word(out, at, u64::from(digits), digits >> 24)
    } else if value < 100_000_000 {
        leading(out, at, value as u32)
    } else {
        long(out, at, value)
    }
}

/// Writes more than eight digits.
#[inline(never)]
fn long(out: &mut [u8], at: usize, value: u64) -> usize {
    let (rest, last) = (value / 100_000_000, (value % 100_000_000) as u32);
    let at = if rest < 100_000_000 {
        leading(out, at, rest as u32)
    } else {
        let at = leading(out, at, (rest / 100_000_000) as u32);
        word(out, at, digits((rest % 100_000_000) as u32) | ZEROS, 8)
    };
    word(out, at, digits(last) | ZEROS, 8)
}

/// Writes the first digits, at most eight.
#[inline]
fn leading(out: &mut [u8], at: usize, value: u32) -> usize {
    let digits = digits(value);
    let zeros = digits.trailing_zeros() / 8;
    word(out, at, (digits | ZEROS) >> (8 * zeros), 8 - zeros)
}

/// Stores eight bytes at `at`, the first `kept` of which count; returns where those end.
#[inline]
fn word(out: &mut [u8], at: usize, bytes: u64, kept: u32) -> usize {
    out[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
    at + kept as usize
}

/// Saturates to the range of `i64`.
pub fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut LineBuffer)) -> String {
        let mut line = LineBuffer::default();
        write(&mut line);
        String::from_utf8(line.bytes().to_vec()).expect("text")
    }

    #[test]
    fn decimals_are_cut_where_they_are_zero() {
        for (value, expected) in
            [(0, "0"), (1, "0.001"), (1_000, "1"), (1_500, "1.5"), (1_050, "1.05"), (-1, "-0.001"), (-2_000, "-2")]
        {
            assert_eq!(written(|line| line.thousandths(value)), expected);
        }
        for (value, expected) in [
            (1, "0.000001"),
            (1_500_000, "1.5"),
            (-12, "-0.000012"),
            (7_000_000, "7"),
            (50_000, "0.05"),
            (1_120, "0.00112"),
        ] {
            assert_eq!(written(|line| line.millionths(value)), expected);
        }
        assert_eq!(written(|line| line.thousandths(i64::MIN)), "-9223372036854775.808");
    }

    #[test]
    fn text_is_quoted_where_needed() {
        assert_eq!(written(|line| line.text("KTH-SP2.swf")), "KTH-SP2.swf");
        assert_eq!(written(|line| line.text("a,\"b\"")), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn numbers_of_every_length() {
        let mut power = 1_u64;
        for _ in 0..20 {
            for value in [power - 1, power, power.saturating_add(1), power.saturating_mul(9)] {
                assert_eq!(written(|line| line.unsigned(value)), value.to_string());
            }
            power = power.saturating_mul(10);
        }
        // Each lane of the word takes each of its values.
        for value in (0..10_000).flat_map(|value| [value, value * 10_000]) {
            assert_eq!(written(|line| line.unsigned(value)), value.to_string());
        }
    }

    proptest! {
        #[test]
        fn integers_are_those_of_the_library(value: i64, shift in 0_u32..64) {
            let value = value >> shift;
            prop_assert_eq!(written(|line| line.signed(value)), value.to_string());
        }

        #[test]
        fn decimals_are_those_of_the_library(value in -10_000_000_i64..10_000_000) {
            let float = |text: String| text.parse::<f64>().expect("a number");
            prop_assert_eq!(float(written(|line| line.thousandths(value))), value as f64 / 1e3);
            prop_assert_eq!(float(written(|line| line.millionths(value))), value as f64 / 1e6);
            let text = written(|line| line.thousandths(value));
            prop_assert!(!text.contains('.') || !text.ends_with('0'), "{}", text);
        }
    }
}
