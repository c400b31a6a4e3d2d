//! Ledger of jobs: one number a line, each appended in one write.

use std::collections::BTreeMap;

use crate::submitter::Submitter;

/// Returns the number of lines of each job.
pub struct Ledger(BTreeMap<u64, u32>);

impl Ledger {
    /// Reads a file in the submitter's directory.
    pub fn read(submitter: &Submitter, file: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in submitter.read(file).lines() {
            *counts.entry(line.parse().unwrap_or_else(|_| panic!("not a number: {line:?}"))).or_default() += 1;
        }
        Self(counts)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn has(&self, job: u64) -> bool {
        self.0.contains_key(&job)
    }

    pub fn twice(&self) -> Vec<u64> {
        self.0.iter().filter(|(_, count)| **count > 1).map(|(job, _)| *job).collect()
    }
}
