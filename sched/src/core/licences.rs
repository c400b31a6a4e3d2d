//! The use of licences.

use super::Core;

/// The use of a kind of licence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LicenceUse<'a> {
    pub name: &'a str,
    pub total: u32,
    /// Licences of jobs that run or may start.
    pub held: u32,
    /// Number of those jobs.
    pub holders: u32,
    /// Number of jobs that wait for some.
    pub waiting: u32,
}

impl Core {
    /// Returns the use of all configured licences in the order of their names.
    pub fn licences(&self) -> impl Iterator<Item = LicenceUse<'_>> {
        let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        self.settings().licences.iter().map(move |(name, total)| {
            let line = self.cluster.index.licences.get(name);
            LicenceUse {
                name,
                total,
                held: line.map_or(0, |line| u32::try_from(line.held).unwrap_or(u32::MAX)),
                holders: line.map_or(0, |line| count(line.holders.len())),
                waiting: line.map_or(0, |line| count(line.waiting.len())),
            }
        })
    }
}
