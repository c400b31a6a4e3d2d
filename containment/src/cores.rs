//! Sets of CPUs, in the kernel's notation.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::device;
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

    /// Returns their numbers, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// Returns a bit for each, as `sched_setaffinity(2)` takes them. CPUs that no kernel has are left out.
    pub fn mask(&self) -> Vec<usize> {
        let mut mask = Vec::new();
        for core in self.0.iter().filter(|core| **core <= LAST) {
            let (word, bit) = ((core / usize::BITS) as usize, core % usize::BITS);
            if mask.len() <= word {
                mask.resize(word + 1, 0);
            }
            mask[word] |= 1 << bit;
        }
        mask
    }

    /// Returns those that are not `used`.
    pub fn without(&self, used: &Self) -> Self {
        Self(self.0.difference(&used.0).copied().collect())
    }

    /// Returns the CPUs on which a process may run, none if it does not exist; 0 is this process.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn of_process(pid: i32) -> Result<Self, ContainError> {
        let path = if pid == 0 { "/proc/self/status".into() } else { format!("/proc/{pid}/status") };
        let path = Path::new(&path);
        let text = device::read(path)?.unwrap_or_default();
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Self::parse(path, list.unwrap_or_default())
    }
}

impl FromIterator<u32> for Cores {
    fn from_iter<I: IntoIterator<Item = u32>>(cores: I) -> Self {
        Self(cores.into_iter().collect())
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
    fn a_mask_has_a_bit_for_each_core() {
        assert_eq!(cores("").mask(), Vec::<usize>::new());
        assert_eq!(cores("0,2-3").mask(), [0b1101]);
        assert_eq!(cores("1,64").mask().len(), 128 / usize::BITS as usize);
        assert_eq!([u32::MAX].into_iter().collect::<Cores>().mask(), Vec::<usize>::new());
    }

    #[test]
    fn the_cores_of_this_process_are_those_that_the_kernel_counts() {
        let own = Cores::of_process(0).expect("it runs");
        let kernel = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("it runs");
        let kernel: Cores = (0..1024).filter(|cpu| kernel.is_set(*cpu as usize).expect("in range")).collect();
        assert_eq!(own, kernel);
        assert_eq!(own.without(&own), Cores::default());
    }
}
