//! Pseudonyms of users and other names: HMAC-SHA-256 with a secret salt. Without the salt nobody can find a name by
//! trying likely ones, as with a bare hash.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::error::PoolError;

/// Lengths of a salt in bytes.
const SALT: std::ops::RangeInclusive<usize> = 16..=4096;

/// Makes the same pseudonym of the same name.
#[derive(Clone)]
pub struct Pseudonyms {
    keyed: Hmac<Sha256>,
}

impl Pseudonyms {
    /// Reads the salt of a file.
    ///
    /// # Errors
    /// [`PoolError`] if the file cannot be read, or has too few or too many bytes.
    pub fn from_file(path: &Path) -> Result<Self, PoolError> {
        let file = path.display().to_string();
        let mut salt = Vec::new();
        let opened = File::open(path).map_err(|source| PoolError::Open { file: file.clone(), source })?;
        let read = opened.take(*SALT.end() as u64 + 1).read_to_end(&mut salt);
        read.map_err(|source| PoolError::Open { file: file.clone(), source })?;
        let wrong = || PoolError::Salt { file, found: salt.len() };
        if !SALT.contains(&salt.len()) {
            return Err(wrong());
        }
        Self::new(&salt).ok_or_else(wrong)
    }

    fn new(salt: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(salt).ok().map(|keyed| Self { keyed })
    }

    /// Returns the pseudonym of a name: 64 hexadecimal digits.
    pub fn of(&self, name: &[u8]) -> String {
        let digest = self.keyed.clone().chain_update(name).finalize().into_bytes();
        digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a `String` cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 2 of RFC 4231.
    #[test]
    fn published_value() {
        let pseudonyms = Pseudonyms::new(b"Jefe").expect("a key");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(pseudonyms.of(b"what do ya want for nothing?"), expected);
    }

    #[test]
    fn short_and_long_salts_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("salt");
        for length in [0, 15, 4097] {
            std::fs::write(&path, vec![7; length]).expect("written");
            let error = Pseudonyms::from_file(&path).err().expect("refused").to_string();
            assert!(error.ends_with("bytes, but needs 16 to 4096: make one with `head -c 32 /dev/urandom`"), "{error}");
        }
        std::fs::write(&path, [7; 16]).expect("written");
        assert!(Pseudonyms::from_file(&path).is_ok());
    }
}
