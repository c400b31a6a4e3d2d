//! Distributes numbered work over threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Does `work` for 0 to `count - 1` in that order, at most `workers` at once. Returns the results in order.
pub fn spread<T: Send>(count: usize, workers: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    locked(&results).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Locks the mutex even after a panic, which leaves nothing half-changed.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for workers in [0, 1, 3, 50] {
            assert_eq!(spread(20, workers, |index| index * index), (0..20).map(|n| n * n).collect::<Vec<_>>());
        }
        assert_eq!(spread(0, 4, |index| index), Vec::<usize>::new());
    }
}
