//! Numbers as text, appended to one buffer of bytes. Integers only: no floating point, no allocation per field.
//!
//! Knows nothing of files and columns. `format!` would cost more than the whole budget of a row.

/// A buffer that rows are written into. Behind what is written it holds room, so that a field is stored by words of
/// fixed size and cut afterwards.
#[derive(Debug, Default)]
pub struct Line {
    bytes: Vec<u8>,
    /// Bytes that are written.
    at: usize,
}

/// The longest number: a sign, 20 digits, a point and 6 decimals, and the word that the last 8 digits are stored as.
const LONGEST: usize = 40;

/// The digits of 0 to 999, and how many of them are left when zeros at the end are cut.
const DECIMALS: [[u8; 4]; 1_000] = {
    let mut table = [[0; 4]; 1_000];
    let mut value = 0;
    while value < 1_000 {
        let digits = [value / 100, value / 10 % 10, value % 10];
        let kept = if digits[2] > 0 {
            3
        } else if digits[1] > 0 {
            2
        } else if digits[0] > 0 {
            1
        } else {
            0
        };
        table[value] = [b'0' + digits[0] as u8, b'0' + digits[1] as u8, b'0' + digits[2] as u8, kept];
        value += 1;
    }
    table
};

/// The 8 digits of a value below 10^8, the first in the lowest byte: halves, then quarters, then single digits, each
/// step for all lanes of the word at once.
fn digits(value: u32) -> u64 {
    let value = u64::from(value);
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    // 10,486 / 2^20 and 103 / 2^10 divide by 100 and by 10 exactly for all values of a lane.
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

/// The word's zeros as text.
const ZEROS: u64 = 0x3030_3030_3030_3030;

impl Line {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], at: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    pub fn len(&self) -> usize {
        self.at
    }

    pub fn clear(&mut self) {
        self.at = 0;
    }

    fn room(&mut self, bytes: usize) {
        if self.bytes.len() < self.at + bytes {
            self.bytes.resize(2 * (self.at + bytes), 0);
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.room(bytes.len());
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub fn byte(&mut self, byte: u8) {
        self.room(1);
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    pub fn comma(&mut self) {
        self.byte(b',');
    }

    pub fn unsigned(&mut self, value: u64) {
        self.room(LONGEST);
        self.whole(value);
    }

    pub fn signed(&mut self, value: i64) {
        self.room(LONGEST);
        self.sign(value);
        self.whole(value.unsigned_abs());
    }

    /// `value` thousandths: up to three decimals, trailing zeros cut.
    pub fn thousandths(&mut self, value: i64) {
        self.room(LONGEST);
        self.sign(value);
        let magnitude = value.unsigned_abs();
        self.whole(magnitude / 1_000);
        let [a, b, c, kept] = DECIMALS[(magnitude % 1_000) as usize];
        self.word([b'.', a, b, c, 0, 0, 0, 0], if kept > 0 { 1 + usize::from(kept) } else { 0 });
    }

    /// `value` millionths: up to six decimals, trailing zeros cut.
    pub fn millionths(&mut self, value: i64) {
        self.room(LONGEST);
        self.sign(value);
        let magnitude = value.unsigned_abs();
        self.whole(magnitude / 1_000_000);
        let rest = (magnitude % 1_000_000) as usize;
        let ([a, b, c, first], [d, e, f, second]) = (DECIMALS[rest / 1_000], DECIMALS[rest % 1_000]);
        let kept = match (first, second) {
            (0, 0) => 0,
            (first, 0) => 1 + usize::from(first),
            (_, second) => 4 + usize::from(second),
        };
        self.word([b'.', a, b, c, d, e, f, 0], kept);
    }

    /// The digits of a number; the room for them is there.
    fn whole(&mut self, value: u64) {
        match value {
            0..10 => self.word([b'0' + value as u8, 0, 0, 0, 0, 0, 0, 0], 1),
            10..100_000_000 => self.leading(value as u32),
            100_000_000..10_000_000_000_000_000 => {
                self.leading((value / 100_000_000) as u32);
                self.eight((value % 100_000_000) as u32);
            }
            _ => {
                self.leading((value / 10_000_000_000_000_000) as u32);
                self.eight((value / 100_000_000 % 100_000_000) as u32);
                self.eight((value % 100_000_000) as u32);
            }
        }
    }

    /// The first digits, at most eight.
    fn leading(&mut self, value: u32) {
        let digits = digits(value);
        let zeros = digits.trailing_zeros() / 8;
        self.word(((digits | ZEROS) >> (8 * zeros)).to_le_bytes(), 8 - zeros as usize);
    }

    /// All of eight digits that follow others.
    fn eight(&mut self, value: u32) {
        self.word((digits(value) | ZEROS).to_le_bytes(), 8);
    }

    /// Stores eight bytes, of which the first `kept` count.
    fn word(&mut self, bytes: [u8; 8], kept: usize) {
        self.bytes[self.at..self.at + 8].copy_from_slice(&bytes);
        self.at += kept;
    }

    /// Appends a copy of `length` bytes from `from` on, both already written.
    pub fn again(&mut self, from: usize, length: usize) {
        self.room(length);
        self.bytes.copy_within(from..from + length, self.at);
        self.at += length;
    }

    /// A field of text, in quotes where a comma, quote or line break asks for them (RFC 4180).
    pub fn text(&mut self, text: &str) {
        if !text.contains([',', '"', '\n', '\r']) {
            self.raw(text.as_bytes());
            return;
        }
        self.byte(b'"');
        self.raw(text.replace('"', "\"\"").as_bytes());
        self.byte(b'"');
    }

    fn sign(&mut self, value: i64) {
        if value < 0 {
            self.bytes[self.at] = b'-';
            self.at += 1;
        }
    }
}

/// `numerator / denominator` rounded half away from zero; zero for a denominator that is not positive.
pub fn divide(numerator: i128, denominator: i128) -> i128 {
    if denominator <= 0 {
        return 0;
    }
    let half = denominator / 2;
    if numerator < 0 { (numerator - half) / denominator } else { (numerator + half) / denominator }
}

/// Into the range of `i64`.
pub fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::default();
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
    fn divides_half_away_from_zero() {
        for (numerator, denominator, expected) in [(5, 2, 3), (-5, 2, -3), (4, 3, 1), (-4, 3, -1), (1, 0, 0)] {
            assert_eq!(divide(numerator, denominator), expected);
        }
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
        // Each lane of the word meets each of its values.
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
