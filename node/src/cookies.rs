//! Cookies of jobs: names that cannot be guessed, from a secret seed and a counter.

use sha2::{Digest, Sha256};

/// Source of unique cookies.
pub struct Cookies {
    seed: [u8; 32],
    count: u64,
}

impl Cookies {
    /// Makes the generator. `seed` is random, and secret to this daemon.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, count: 0 }
    }

    /// Returns the next cookie: 128 bits in hexadecimal.
    pub fn next(&mut self) -> String {
        self.count += 1;
        let digest = Sha256::new().chain_update(self.seed).chain_update(self.count.to_le_bytes()).finalize();
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_differ_by_seed_and_count() {
        let (mut one, mut other) = (Cookies::new([1; 32]), Cookies::new([2; 32]));
        let cookies = [one.next(), one.next(), other.next(), other.next()];
        assert!(cookies.iter().all(|cookie| cookie.len() == 32), "{cookies:?}");
        let different: std::collections::BTreeSet<&String> = cookies.iter().collect();
        assert_eq!(different.len(), 4, "{cookies:?}");
    }
}
