//! Digest of a content: FNV-1a of 64 bits. Detects changes, but not attacks. Equal on all machines.

use std::fmt;

/// The digest of the bytes so far. Displayed as sixteen hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Returns the digest of no byte.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Continues with further bytes.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// Returns the digest as a number.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the authors of FNV publish.
    #[test]
    fn published_values() {
        assert_eq!(Digest::new().to_string(), "cbf29ce484222325");
        assert_eq!(Digest::new().with(b"a").to_string(), "af63dc4c8601ec8c");
        assert_eq!(Digest::new().with(b"foo").with(b"bar").to_string(), "85944171f73967e8");
    }
}
