//! The report from a running daemon. It shows the meter's last reading without a new one. It does not write controls
//! that the daemon keeps. No cap changes while it writes the others.

use std::path::PathBuf;
use std::sync::PoisonError;

use limo_power::{MeterChoice, Site};
use limo_proto::PROBE_LIMIT;

use limo_node::line;

use super::{caps, machine, meters, owners};
use crate::caps::Shared;

/// A daemon's access to its machine.
#[derive(Clone)]
pub struct RunningDaemon {
    pub site: Site,
    /// Directory of device files.
    pub dev: PathBuf,
    pub with_gpus: bool,
    /// Meter in use.
    pub meter: Option<MeterChoice>,
    /// Keeper of caps; `None` if nothing may be capped.
    pub caps: Option<Shared>,
}

impl RunningDaemon {
    /// Makes the report. May take seconds: some devices are slow. `shown` is the last reading of the meter in use, or
    /// the reason why there is none.
    pub fn report(&self, shown: Option<String>) -> String {
        let mut text = machine() + &meters((&self.site.sysfs, &self.dev), self.meter.as_ref());
        match shown {
            Some(shown) => text += &line("meter", &format!("in use: {shown}")),
            None => text += &line("meter", "none in use: the master estimates (say which with --meter)"),
        }
        text += &owners((&self.site.sysfs, &self.dev));
        let Some(keeper) = &self.caps else {
            text += &line("cap", "nothing is capped: see the log of lslave");
            return bounded(text + &caps::report(&self.site, self.with_gpus, &[]));
        };
        // After a panic, the keeper still knows what to restore. The lock is held to the end: other controls are
        // written with their present value, and this must not overtake a cap.
        let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = keeper.units();
        text += &caps::kept(&kept);
        bounded(text + &caps::report(&self.site, self.with_gpus, &kept))
    }
}

/// Truncates a report to the limit of a message.
pub fn bounded(mut text: String) -> String {
    const MORE: &str = "(there is more: see `lslave --probe` on the node)\n";
    if text.len() > PROBE_LIMIT {
        text.truncate(text.floor_char_boundary(PROBE_LIMIT - MORE.len() - 1));
        text = format!("{text}\n{MORE}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_bounded() {
        assert_eq!(bounded("a\n".to_owned()), "a\n");
        let long = bounded("\u{e4}".repeat(PROBE_LIMIT));
        assert!(long.len() <= PROBE_LIMIT && long.ends_with("on the node)\n"), "{}", long.len());
    }
}
