//! Sets of CPUs, in the kernel's notation.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::error::ContainError;

/// Largest number of a CPU; kernels are built for at most 8192.
const LAST: u32 = 65_535;

/// CPUs of this machine, by the kernel's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cores(BTreeSet<u32>);

impl Cores {
    /// Parses a list such as `0-3,8`, as in cpuset(7).
    ///
    /// # Errors
    /// If it is none; names the file.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ContainError> {
        let mut cores = BTreeSet::new();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last && last <= LAST => cores.extend(first..=last),
                _ => {
                    let value = range.chars().take(64).collect();
                    return Err(ContainError::Cores { path: path.to_owned(), value, limit: LAST });
                }
            }
        }
        Ok(Self(cores))
    }

    /// Returns how many they are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds others.
    pub fn add(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    /// Returns the first `count` that are not `used`.
    ///
    /// # Errors
    /// If fewer are free.
    pub fn first_free(&self, count: usize, used: &Self) -> Result<Self, ContainError> {
        let free: BTreeSet<u32> = self.0.difference(&used.0).copied().collect();
        if free.len() < count {
            return Err(ContainError::TooFewCores { count, free: free.len() });
        }
        Ok(Self(free.into_iter().take(count).collect()))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(text: &str) -> Cores {
        Cores::parse(Path::new("/cg/cpuset.cpus"), text).expect("a list")
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(cores("0-3,8\n").count(), 5);
        assert_eq!(cores("\n"), Cores::default());
        for (given, written) in [("3,1,2,0", "0-3"), ("8,0-1,9", "0-1,8-9"), ("7", "7"), ("", "")] {
            assert_eq!(cores(given).to_string(), written);
        }
        for wrong in ["x", "3-1", "0-", "-1", "65536", "0-9999999999"] {
            let error = Cores::parse(Path::new("/cg/cpuset.cpus"), wrong).expect_err(wrong).to_string();
            let expected =
                format!("/cg/cpuset.cpus has `{wrong}`: numbers of CPUs up to 65535 are needed, for example `0-3,8`");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn the_first_free_ones_are_taken() {
        let mut used = cores("0,2");
        assert_eq!(cores("0-5").first_free(2, &used).expect("enough"), cores("1,3"));
        used.add(&cores("1,3-4"));
        let error = cores("0-5").first_free(2, &used).expect_err("too few").to_string();
        assert_eq!(error, "the job needs 2 cores of its own, and 1 is free");
    }
}
