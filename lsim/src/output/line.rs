//! Numbers as text, appended to one buffer of bytes. Integers only: no floating point, no allocation per field.
//!
//! Knows nothing of files and columns. `format!` would cost more than the whole budget of a row.

/// A buffer that rows are written into.
#[derive(Debug, Default)]
pub struct Line {
    bytes: Vec<u8>,
}

/// The two digits of every number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

impl Line {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub fn comma(&mut self) {
        self.bytes.push(b',');
    }

    pub fn unsigned(&mut self, mut value: u64) {
        if value < 10 {
            self.bytes.push(b'0' + value as u8);
            return;
        }
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        while value >= 100 {
            at -= 2;
            digits[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
            value /= 100;
        }
        if value >= 10 {
            at -= 2;
            digits[at..at + 2].copy_from_slice(&PAIRS[value as usize]);
        } else {
            at -= 1;
            digits[at] = b'0' + value as u8;
        }
        self.bytes.extend_from_slice(&digits[at..]);
    }

    pub fn signed(&mut self, value: i64) {
        if value < 0 {
            self.bytes.push(b'-');
        }
        self.unsigned(value.unsigned_abs());
    }

    /// `value` thousandths: up to three decimals, trailing zeros cut.
    pub fn thousandths(&mut self, value: i64) {
        self.sign(value);
        let magnitude = value.unsigned_abs();
        self.unsigned(magnitude / 1_000);
        self.fraction((magnitude % 1_000) as u32, 100);
    }

    /// `value` millionths: up to six decimals, trailing zeros cut.
    pub fn millionths(&mut self, value: i64) {
        self.sign(value);
        let magnitude = value.unsigned_abs();
        self.unsigned(magnitude / 1_000_000);
        self.fraction((magnitude % 1_000_000) as u32, 100_000);
    }

    /// Appends a copy of `length` bytes from `from` on, both already written.
    pub fn again(&mut self, from: usize, length: usize) {
        self.bytes.extend_from_within(from..from + length);
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
            self.bytes.push(b'-');
        }
    }

    /// The decimals of `rest`, of which `place` is the first digit's weight.
    fn fraction(&mut self, mut rest: u32, mut place: u32) {
        if rest == 0 {
            return;
        }
        self.bytes.push(b'.');
        while rest > 0 {
            self.bytes.push(b'0' + (rest / place) as u8);
            rest %= place;
            place /= 10;
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
        String::from_utf8(line.bytes).expect("text")
    }

    #[test]
    fn decimals_are_cut_where_they_are_zero() {
        for (value, expected) in
            [(0, "0"), (1, "0.001"), (1_000, "1"), (1_500, "1.5"), (1_050, "1.05"), (-1, "-0.001"), (-2_000, "-2")]
        {
            assert_eq!(written(|line| line.thousandths(value)), expected);
        }
        for (value, expected) in [(1, "0.000001"), (1_500_000, "1.5"), (-12, "-0.000012"), (7_000_000, "7")] {
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

    proptest! {
        #[test]
        fn integers_are_those_of_the_library(value: i64, small in -200_i64..200) {
            prop_assert_eq!(written(|line| line.signed(value)), value.to_string());
            prop_assert_eq!(written(|line| line.signed(small)), small.to_string());
        }
    }
}
