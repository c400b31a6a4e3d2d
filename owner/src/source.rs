//! The trait of sources, and the places that they look at.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::OwnerError;

/// Tells from one place if the owner of the machine is there.
pub trait Source: Send {
    /// Waits for news and returns true if the owner is there. The first call returns without waiting for a change; later
    /// ones return when the answer may have changed.
    ///
    /// # Errors
    /// If the place cannot be read. The caller pauses before it calls again.
    fn next(&mut self) -> Result<bool, OwnerError>;
}

/// A source with the name that the operator wrote.
pub type NamedSource = (String, Box<dyn Source>);

/// Files and devices of a machine, which tests replace.
#[derive(Debug, Clone)]
pub struct Place {
    /// Directory of device files.
    pub dev: PathBuf,
    /// Mount point of procfs.
    pub proc: PathBuf,
    /// Mount point of sysfs.
    pub sysfs: PathBuf,
    /// File with the users who are logged in.
    pub utmp: PathBuf,
    /// Address of the system bus; `None` for that of the environment or the usual one.
    pub bus: Option<String>,
    /// Time without a sign of input after which the owner is away.
    pub away_after: Duration,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            dev: "/dev".into(),
            proc: "/proc".into(),
            sysfs: "/sys".into(),
            utmp: "/run/utmp".into(),
            bus: None,
            away_after: Duration::from_secs(60),
        }
    }
}

impl Place {
    /// Returns the directory of input devices.
    pub(crate) fn input(&self) -> PathBuf {
        self.dev.join("input")
    }
}
