//! The same report from a daemon that runs. It disturbs neither the meter, which is not asked a second time but shown as
//! it answered last, nor the caps: what is kept is read, and while anything else is looked at, nothing is capped.

use std::path::PathBuf;
use std::sync::PoisonError;

use limo_power::{MeterChoice, Site};
use limo_proto::PROBE_LIMIT;

use limo_node::line;

use super::{caps, machine, meters};
use crate::caps::Shared;

/// What a daemon knows of its machine.
#[derive(Clone)]
pub struct RunningDaemon {
    pub site: Site,
    /// Where device files are.
    pub dev: PathBuf,
    pub with_gpus: bool,
    /// The meter in use.
    pub meter: Option<MeterChoice>,
    /// What caps; `None` where nothing may be capped.
    pub caps: Option<Shared>,
}

impl RunningDaemon {
    /// The report. May take seconds: some devices are slow. `shown` is what the meter in use showed last, or why it
    /// shows nothing.
    pub fn report(&self, shown: Option<String>) -> String {
        let mut text = machine() + &meters((&self.site.sysfs, &self.dev), self.meter.as_ref());
        match shown {
            Some(shown) => text += &line("meter", &format!("in use: {shown}")),
            None => text += &line("meter", "none in use: the master estimates (say which with --meter)"),
        }
        let Some(keeper) = &self.caps else {
            text += &line("cap", "nothing is capped: the log of lslave says why");
            return bounded(text + &caps::report(&self.site, self.with_gpus, &[]));
        };
        // What a panic left in it is still what is to be put back. Held to the end: other controls are written with the
        // value that they have, and that must not overtake a cap.
        let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = keeper.units();
        text += &caps::kept(&kept);
        bounded(text + &caps::report(&self.site, self.with_gpus, &kept))
    }
}

/// As much as a report may have.
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
