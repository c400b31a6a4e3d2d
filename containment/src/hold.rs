//! The process that keeps a delegated control group.

use std::fs;
use std::path::{Path, PathBuf};

use crate::device::{self, set};
use crate::error::{ContainError, failed};
use crate::mounts::{Controller, Mounts};
use crate::subtree::enable;

/// Name of the group below the delegated one for the process itself: a group with controllers for those below it has no
/// processes of its own.
const HOLDER: &str = "hold";

/// Returns true if a process holds this control group with [`hold`], or version 2 is missing and the group exists.
pub fn is_held(mounts: &Mounts, place: &str) -> bool {
    let below = place.trim_start_matches('/');
    match &mounts.unified {
        Some(mount) => mount.join(below).join(HOLDER).is_dir(),
        None => mounts.v1.values().any(|mount| mount.join(below).is_dir()),
    }
}

/// Moves this process out of the way of the groups that others make below its own one, and enables the controllers for
/// them. Returns the directory. Does nothing and returns `None` without version 2: version 1 does not need this.
///
/// # Errors
/// If the group is not delegated to this process.
pub fn hold(mounts: &Mounts) -> Result<Option<PathBuf>, ContainError> {
    let Some(mount) = &mounts.unified else { return Ok(None) };
    let text = device::read(Path::new("/proc/self/cgroup"))?.unwrap_or_default();
    let Some(own) = text.lines().find_map(|line| line.strip_prefix("0::/")) else { return Ok(None) };
    let own = mount.join(own.strip_suffix(HOLDER).map_or(own, |above| above.trim_end_matches('/')));
    let leaf = own.join(HOLDER);
    fs::create_dir_all(&leaf).map_err(failed("make", &leaf))?;
    set(&leaf.join("cgroup.procs"), "0")?;
    let mut refused = None;
    enable(&own, &Controller::ALL, &mut refused)?;
    refused.map_or(Ok(Some(own)), Err)
}
