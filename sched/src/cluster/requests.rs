//! Requests of jobs, each stored once. Jobs of one script share a request, because it takes most of a waiting job's
//! memory. The store does not know jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use limo_model::Request;

/// Number of requests up to which unused ones are not removed.
const FEW: usize = 64;

/// Requests that jobs may share. Their number is at most twice that after the last clean-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests {
    known: BTreeSet<Arc<Request>>,
    /// Number of requests in use at the last clean-up.
    kept: usize,
}

impl Requests {
    /// Returns a shared request that equals `request`.
    pub fn share(&mut self, request: &Request) -> Arc<Request> {
        if let Some(known) = self.known.get(request) {
            return Arc::clone(known);
        }
        if self.known.len() >= FEW.max(self.kept.saturating_mul(2)) {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.kept = self.known.len();
        }
        let request = Arc::new(request.clone());
        self.known.insert(Arc::clone(&request));
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_requests_are_shared_and_unused_ones_removed() {
        let request = |number: usize| Request::one_core(format!("app-{number}"));
        let mut all = Requests::default();
        let first = all.share(&request(0));
        assert!(Arc::ptr_eq(&first, &all.share(&request(0))));
        let held: Vec<_> = (1..100).map(|number| all.share(&request(number))).collect();
        assert!(held.iter().enumerate().all(|(at, held)| Arc::ptr_eq(held, &all.share(&request(at + 1)))));
        drop(held);
        for number in 100..1_000 {
            drop(all.share(&request(number)));
            assert!(all.known.len() <= 2 * 100 + 1, "{} are kept", all.known.len());
        }
        assert!(Arc::ptr_eq(&first, &all.share(&request(0))) && all.known.len() <= FEW + 1);
    }
}
