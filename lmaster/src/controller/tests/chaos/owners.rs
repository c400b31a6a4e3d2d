//! The owner of the first node of a world, who comes and leaves at any moment.

use limo_model::{GroupTable, Groups};
use limo_node::Input as Happened;

use super::*;

/// Events that must happen in worlds with owners, each with its least count: a third of the count when this was written.
const EVENTS: [(&str, u32); 4] = [
    ("an owner who comes", 90),
    ("an owner who comes without a master", 30),
    ("a job suspended for the owner", 4),
    ("an eviction by the node", 3),
];

/// Returns the group of the first node.
pub fn desk() -> Groups {
    let text =
        "[desk]\nnodes = [\"n0\"]\nowners = { jobs = \"suspend\", start_after = \"300ms\", evict_after = \"1s\" }";
    let tables: BTreeMap<String, GroupTable> = toml::from_str(text).expect("tables");
    Groups::of_tables(tables).expect("groups")
}

impl World {
    /// Lets the owner come or leave.
    pub fn come_or_leave(&mut self) {
        let is_there = !self.hosts[0].owner.is_there;
        if is_there && self.hosts[0].processes.is_empty() && self.dice.roll(4) > 0 {
            // An owner who meets no job shows little.
            return;
        }
        if is_there {
            self.seen.saw("an owner who comes");
        }
        if is_there && self.hosts[0].link.is_none() {
            self.seen.saw("an owner who comes without a master");
        }
        self.happens(0, Happened::Owner { is_there });
        for _ in &self.hosts[0].owner.suspended {
            self.seen.saw("a job suspended for the owner");
        }
    }

    /// Lets the owner leave for good.
    pub fn nobody_comes(&mut self) {
        self.happens(0, Happened::Owner { is_there: false });
    }
}

#[test]
fn wherever_owners_come_and_leave_all_jobs_come_to_their_ends() {
    worlds(300, WorldKind { busy: true, owners: true, ..WorldKind::default() }, 500, &EVENTS);
}
