//! Sizes of memory in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::number::{Suffix, UnitError, parse};

/// A size of memory in bytes. `K`, `M`, `G`, `T` are binary, the same as in `--mem` of Slurm; `kB`, `MB`, `GB` are
/// decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(u64);

impl Memory {
    /// The size zero.
    pub const ZERO: Self = Self(0);
    const UNITS: &'static [Suffix] = &[
        ("B", 1),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
        ("T", 1 << 40),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
    ];

    /// Makes a size from bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Returns the sum, at most 2^64 - 1 bytes.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, at least zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl FromStr for Memory {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = parse(text, Self::UNITS, "512M")?;
        u64::try_from(bytes).map(Self).map_err(|_| UnitError::Negative { value: text.to_owned() })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size {
                // A size that is read is rounded to bytes, by half a byte at most: 5.3 GiB stay 5.3 GiB.
                let tenths = (5 + 10 * u128::from(self.0)) / u128::from(size);
                return if tenths % 10 == 0 {
                    write!(f, "{} {unit}", tenths / 10)
                } else {
                    write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let below = (1 << 30) - 1;
        for (text, bytes, shown) in [
            ("512M", 512 << 20, "512 MiB"),
            ("1.5G", 3 << 29, "1.5 GiB"),
            ("7B", 7, "7 B"),
            ("2 kB", 2000, "1.9 KiB"),
            ("5.3 GiB", 5_690_831_667, "5.3 GiB"),
            ("1073741823 B", below, "1023.9 MiB"),
        ] {
            let memory: Memory = text.parse().expect("a size");
            assert_eq!((memory.bytes(), memory.to_string().as_str()), (bytes, shown), "{text}");
        }
        let refused = "2000".parse::<Memory>().map_err(|e| e.to_string());
        assert!(refused.is_err_and(|text| text.starts_with("`2000` has no unit: write for example `512M`")));
        assert_eq!("-1M".parse::<Memory>(), Err(UnitError::Negative { value: "-1M".into() }));
    }
}
