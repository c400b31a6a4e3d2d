//! Collects children that ended: `lshepherd`, and what it left behind if it was killed.
//!
//! Only those of the calling thread, which is the one that starts `lshepherd`. The kernel gives orphans to the first thread
//! of the process, which is the same. The command of a meter is started on another one, which must learn by itself how it
//! ended.

use nix::libc;

/// Collects all that have ended.
pub fn collect() {
    loop {
        // SAFETY: no memory is involved.
        let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WNOTHREAD) };
        if child <= 0 {
            return;
        }
    }
}
