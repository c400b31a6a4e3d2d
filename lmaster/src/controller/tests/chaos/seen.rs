//! Counts of events in the worlds, because faults that never meet their targets find nothing.

use std::collections::BTreeMap;

/// Events that must happen in busy worlds, each with its least count: a third of the count when this was written.
pub const BUSY: [(&str, u32); 47] = [
    ("a master that does not run", 300),
    ("kill of a node's daemon", 60),
    ("kill of a shepherd", 1),
    ("a job that goes on", 3),
    ("a time limit", 1),
    ("kill", 150),
    ("a commit of a replaced master", 70),
    ("failed commit", 150),
    ("noticed late", 10),
    ("never acknowledged", 20),
    ("acknowledgement missed", 150),
    ("refused by a node", 20),
    ("not started", 5),
    ("said without reason", 250),
    ("acknowledged, and nobody waits for it", 100),
    ("acknowledged, and shall not run any more", 20),
    ("a task acknowledged, and shall not run any more", 10),
    ("cancel of an array", 70),
    ("cancel of a task that is no job", 100),
    ("cancel of a waiting job", 120),
    ("cancel of a waiting task", 40),
    ("cancel of what was assigned", 20),
    ("cancel of an awaited job", 30),
    ("cancel of an awaited task", 30),
    ("cancel of what was released", 30),
    ("cancel of what runs", 20),
    ("cancel of a selection", 120),
    ("hold of an array", 30),
    ("hold of a job", 50),
    ("hold of a task", 20),
    ("hold of what ends", 20),
    ("release of an array", 5),
    ("release of a job", 10),
    ("release of a task", 1),
    ("requeue of what is awaited", 20),
    ("requeue of a running job", 5),
    ("requeue of a running task", 5),
    ("suspension by a person", 10),
    ("resumption by a person", 1),
    ("priority", 250),
    ("quota", 250),
    ("drain", 70),
    ("a clock that is set", 100),
    ("removal of a node", 150),
    ("undo", 120),
    ("reservation", 60),
    ("budget", 40),
];

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

    /// Checks that each event happened often enough.
    pub fn check(&self, least: &[(&str, u32)]) {
        let count = |what: &str| self.0.get(what).copied().unwrap_or_default();
        let rare: Vec<_> = least.iter().filter(|(what, least)| count(what) < *least).collect();
        assert!(rare.is_empty(), "the worlds are too quiet to mean anything: {rare:?} of {self:#?}");
    }
}
