//! Digest of a content: FNV-1a of 64 bits. Detects changed files, but not attacks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

#[derive(Debug, Clone, Copy)]
pub struct Digest(u64);

impl Digest {
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self
    }

    /// Digests a file's bytes.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let (mut file, mut piece, mut digest) = (File::open(path)?, vec![0; 1 << 16], Self::new());
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(digest),
                count => digest = digest.add(&piece[..count]),
            }
        }
    }

    /// Returns sixteen hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks values that the authors of FNV publish.
    #[test]
    fn published_values() {
        assert_eq!(Digest::new().add(b"").hex(), "cbf29ce484222325");
        assert_eq!(Digest::new().add(b"a").hex(), "af63dc4c8601ec8c");
        assert_eq!(Digest::new().add(b"foo").add(b"bar").hex(), "85944171f73967e8");
    }
}
