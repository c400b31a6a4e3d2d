//! Control groups of the jobs of a test cluster.

use std::fs;
use std::path::Path;
use std::time::Duration;

use limo_containment::{ContainError, Controller, Mounts, Place, Subtree};

/// The group that `lslave` makes as root.
const OWN: &str = "/limo";

/// Returns the groups of the node with this state directory.
///
/// # Errors
/// If this machine or user has none.
///
/// # Panics
/// If the node has never run.
pub fn of(state_dir: &Path) -> Result<Subtree, ContainError> {
    let instance = fs::read_to_string(state_dir.join("instance")).expect("a node that has run");
    Subtree::open(&Mounts::find()?, Place::Own(OWN), instance.trim(), &Controller::ALL)
}

/// Kills the remaining processes of jobs of a node that has ended, and removes its groups.
pub fn clear(state_dir: &Path) {
    let Ok(subtree) = of(state_dir) else { return };
    for group in subtree.names().unwrap_or_default().iter().filter_map(|name| subtree.find(name)) {
        let _ = group.kill(Duration::from_secs(5));
        let _ = group.close();
    }
    subtree.leave();
}
