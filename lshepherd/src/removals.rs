//! Directories that wait for removal. Each user has one removal at a time, so that many files of one user do not
//! delay others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use limo_shepherd::Identity;

/// Most waiting directories of one user. A job leaves at most one.
const MOST: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub directory: Vec<u8>,
    pub uid: u32,
    /// Identity; `None` if this process already has the user.
    pub identity: Option<Identity>,
}

impl Removal {
    /// Formats the directory for messages.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.directory).escape_debug().collect()
    }
}

#[derive(Debug, Default)]
pub struct Removals {
    waiting: BTreeMap<u32, VecDeque<Removal>>,
    active: BTreeSet<u32>,
}

impl Removals {
    /// Longest time of a removal, in milliseconds.
    pub const PATIENCE: u64 = 600_000;

    /// Adds a removal. Returns the directory if too many removals of the user already wait.
    pub fn add(&mut self, removal: Removal) -> Option<String> {
        let queue = self.waiting.entry(removal.uid).or_default();
        if queue.len() >= MOST {
            return Some(removal.shown());
        }
        queue.push_back(removal);
        None
    }

    /// Returns a removal that may begin now; its user is busy until [`Removals::done`].
    pub fn next(&mut self) -> Option<Removal> {
        let uid = *self.waiting.keys().find(|uid| !self.active.contains(uid))?;
        let queue = self.waiting.get_mut(&uid)?;
        let removal = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&uid);
        }
        self.active.insert(uid);
        Some(removal)
    }

    pub fn done(&mut self, uid: u32) {
        self.active.remove(&uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_served_beside_each_other_and_bounded() {
        let one = |uid, name: &str| Removal { directory: name.into(), uid, identity: None };
        let mut removals = Removals::default();
        for (uid, name) in [(1, "a"), (1, "b"), (2, "c")] {
            assert_eq!(removals.add(one(uid, name)), None);
        }
        assert_eq!(removals.next(), Some(one(1, "a")));
        assert_eq!(removals.next(), Some(one(2, "c")));
        assert_eq!(removals.next(), None, "user 1 is busy");
        removals.done(1);
        assert_eq!(removals.next(), Some(one(1, "b")));
        assert!((0..=MOST).filter_map(|_| removals.add(one(3, "d"))).eq(["d".to_owned()]));
    }
}
