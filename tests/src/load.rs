//! Submitters that run until a test stops them or fails.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// State that the submitters of one test share.
#[derive(Debug, Default)]
pub struct Load {
    over: AtomicBool,
    accepted: Mutex<BTreeSet<u64>>,
}

/// Ends the load when dropped, even by a panic. Otherwise the test would wait for its threads without end.
pub struct Ending<'a>(&'a Load);

impl Load {
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    /// Notes an accepted job.
    pub fn accept(&self, job: u64) {
        assert!(self.accepted.lock().expect("whole").insert(job), "the number {job} was given twice");
    }

    pub fn count(&self) -> usize {
        self.accepted.lock().expect("whole").len()
    }

    /// Returns the numbers of all accepted jobs.
    pub fn into_accepted(self) -> Vec<u64> {
        self.accepted.into_inner().expect("whole").into_iter().collect()
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}
