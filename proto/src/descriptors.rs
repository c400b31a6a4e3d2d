//! The limit on descriptors of this process, and so on its connections.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limits on the number of a process's open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limit in force; a process may raise it to the hard limit.
    pub soft: u64,
    /// The highest soft limit; only root may raise it.
    pub hard: u64,
}

/// Raises the soft limit of this process to the hard one. Returns the earlier limit, which its child processes should
/// get.
///
/// # Errors
/// If the kernel refuses a call.
pub fn raise_descriptor_limit() -> io::Result<DescriptorLimit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(DescriptorLimit { soft, hard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("readable");
        setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard / 2), hard).expect("lower is always allowed");
        let before = raise_descriptor_limit().expect("allowed");
        assert_eq!(before, DescriptorLimit { soft: soft.min(hard / 2), hard });
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).expect("readable"), (hard, hard));
    }
}
