//! Runs of one experiment with several seeds, on several cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

/// Runs an experiment with the seeds from 1 to `seeds`, `jobs` at a time (by default the number of cores). Returns the
/// results in the order of the seeds.
///
/// # Errors
/// The error of the first seed that fails.
pub fn of_seeds<T: Send>(seeds: u64, jobs: Option<u16>, run: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    let workers = jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let (next, found) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
                return;
            }
            let result = run(seed);
            // No thread panics while it holds the lock.
            found.lock().expect("a sound lock").push((seed, result));
        }
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    // No thread panics while it holds the lock.
    let mut found = found.into_inner().expect("a sound lock");
    found.sort_by_key(|(seed, _)| *seed);
    found.into_iter().map(|(_, result)| result).collect()
}
