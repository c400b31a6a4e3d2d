//! Collects children that ended: `lshepherd`, and its jobs if it was killed.
//!
//! Collects only children of the calling thread, which starts `lshepherd`. The kernel gives orphans to the first
//! thread of the process, which is the same thread. Another thread starts the commands of meters, and collects them
//! itself.

use nix::libc;

/// Collects all children that have ended.
pub fn collect() {
    loop {
        // SAFETY: no memory is involved.
        let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WNOTHREAD) };
        if child <= 0 {
            return;
        }
    }
}
