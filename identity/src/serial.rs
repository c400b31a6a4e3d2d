//! The serial number of a certificate.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::hex;

/// A random serial of 128 bits; 32 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub [u8; 16]);

/// Error of a text that is not a serial.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a serial: write 32 hexadecimal digits, as `lconf cert list` prints them")]
pub struct SerialError(String);

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl FromStr for Serial {
    type Err = SerialError;
    fn from_str(text: &str) -> Result<Self, SerialError> {
        hex::read(text).map(Self).ok_or_else(|| SerialError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_read_as_they_are_printed() {
        let text = "0001020304050607080900abcdef00ff";
        assert_eq!(text.parse::<Serial>().map(|serial| serial.to_string()), Ok(text.to_owned()));
        for bad in ["", "00", "+001020304050607080900abcdef00ff", "g001020304050607080900abcdef00ff"] {
            assert_eq!(bad.parse::<Serial>(), Err(SerialError(bad.to_owned())));
        }
    }
}
