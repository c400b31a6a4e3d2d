//! Limits of resources (`getrlimit(2)`) of this process and of its job.

use std::io;

use nix::libc;

/// Number of resources of Linux: `RLIM_NLIMITS`.
const RESOURCES: libc::__rlimit_resource_t = 16;

/// Limits by resource.
#[derive(Clone)]
pub struct Limits(pub Vec<(libc::__rlimit_resource_t, libc::rlimit64)>);

impl Limits {
    /// Returns the limit on open files of a job, whose other limits are those of this process.
    pub fn of_files(files: libc::rlimit64) -> Self {
        Self(vec![(libc::RLIMIT_NOFILE, files)])
    }

    /// Returns all limits of this process.
    pub fn current() -> Self {
        // All resources exist since Linux 2.6.25.
        Self((0..RESOURCES).filter_map(|resource| Some((resource, read(resource).ok()?))).collect())
    }

    /// Sets these limits for this process. Without the right to raise a hard limit (`CAP_SYS_RESOURCE`), raises the soft
    /// one as far as possible.
    pub fn apply(&self) {
        for (resource, limit) in &self.0 {
            if write(*resource, *limit).is_err()
                && let Ok(present) = read(*resource)
            {
                let most = present.rlim_max;
                let _ = write(*resource, libc::rlimit64 { rlim_cur: limit.rlim_cur.min(most), rlim_max: most });
            }
        }
    }
}

fn write(resource: libc::__rlimit_resource_t, limit: libc::rlimit64) -> io::Result<()> {
    // SAFETY: the limit is only read, and lives until the call returns.
    match unsafe { libc::setrlimit64(resource, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a limit of this process.
///
/// # Errors
/// If the resource does not exist.
pub fn read(resource: libc::__rlimit_resource_t) -> io::Result<libc::rlimit64> {
    let mut own = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `own` is valid for writing.
    match unsafe { libc::getrlimit64(resource, &raw mut own) } {
        0 => Ok(own),
        _ => Err(io::Error::last_os_error()),
    }
}
