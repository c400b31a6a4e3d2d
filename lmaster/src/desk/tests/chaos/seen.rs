//! What happened in the worlds, and how often: faults that never meet what they are meant for find nothing.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Seen(BTreeMap<&'static str, u32>);

impl Seen {
    pub fn saw(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// Each of these at least so often.
    pub fn check(&self, least: &[(&str, u32)]) {
        let count = |what: &str| self.0.get(what).copied().unwrap_or_default();
        let rare: Vec<_> = least.iter().filter(|(what, least)| count(what) < *least).collect();
        assert!(rare.is_empty(), "the worlds are too quiet to mean anything: {rare:?} of {self:#?}");
    }
}
