//! Bytes as lower-case hexadecimal digits.

use std::fmt;

/// Writes two digits for each byte.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Reads exactly `N` bytes; `None` for any other text.
pub(crate) fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digits = text.as_bytes();
    // A sign would be part of a number.
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_bytes_of_the_right_number_are_read() {
        assert_eq!(read("00ff"), Some([0, 255]));
        for bad in ["", "00", "00f", "00ff00", "+0ff", "0 ff", "00gg", "é1"] {
            assert_eq!(read::<2>(bad), None, "{bad}");
        }
    }
}
