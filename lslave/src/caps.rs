//! Caps of this node's hardware: opens them from the settings, and restores the original values when the daemon and all
//! jobs have ended.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use limo_model::NodeSpec;
use limo_power::{CapFailure, Keeper, Site};
use tracing::{error, info, warn};

use crate::config::Settings;

/// Longest time to restore values when the daemon ends: a management controller may take 5 s for each answer. The
/// next daemon restores the remaining values.
const PATIENCE: Duration = Duration::from_secs(15);

/// File in the state directory with the original values.
const FILE: &str = "caps.json";

/// Keeper that one thread at a time uses, beside the loop.
pub type Shared = Arc<Mutex<Keeper>>;

/// Goes on under the caps of an earlier daemon, as far as the settings have the same, and writes the caps of its units into
/// `spec`. Returns `None` if the original values are unknown: then nothing may be capped.
pub fn open(settings: &Settings, site: &Site, spec: &mut NodeSpec) -> Option<Shared> {
    for unit in settings.caps.keys().filter(|unit| spec.unit(unit).is_none()) {
        let units: Vec<&str> = spec.units.iter().map(|unit| unit.name.as_str()).collect();
        warn!("cannot cap unit `{unit}`: this node has {}", units.join(", "));
    }
    let known = settings.caps.iter().filter(|(unit, _)| spec.unit(unit).is_some());
    let units = known.map(|(unit, cap)| (unit.clone(), cap.clone())).collect();
    let (keeper, failures) = match Keeper::resume(&settings.state_dir.join(FILE), site, units) {
        Ok(opened) => opened,
        Err(error) => {
            error!(%error, "no unit is capped");
            return None;
        }
    };
    failures.iter().for_each(|failure| warn!(%failure, "a cap cannot be used"));
    // The file of emulated hardware contains its caps.
    if settings.hardware.is_none() {
        for unit in &mut spec.units {
            unit.caps = keeper.range(&unit.name);
            if let Some((low, high)) = unit.caps {
                info!(unit = unit.name, %low, %high, "the unit can be capped");
            }
        }
    }
    Some(Arc::new(Mutex::new(keeper)))
}

/// Returns true if caps of an earlier daemon may still be set.
pub fn is_capping(keeper: &Shared) -> bool {
    keeper.lock().unwrap_or_else(PoisonError::into_inner).is_capping()
}

/// Restores everything, for good. A device without an answer does not hold up the daemon.
pub fn close(keeper: Shared) {
    let (told, done) = mpsc::channel();
    thread::spawn(move || {
        // After a panic, the keeper still knows what to restore.
        let failures = keeper.lock().unwrap_or_else(PoisonError::into_inner).close();
        // After the timeout, which was logged, the receiver no longer exists.
        let _ = told.send(failures);
    });
    match done.recv_timeout(PATIENCE) {
        Ok(failures) => tell(&failures),
        Err(_) => error!("caps were not restored within {} s: the next lslave restores them", PATIENCE.as_secs()),
    }
}

/// Logs the caps that were not restored.
pub fn tell(failures: &[CapFailure]) {
    failures.iter().for_each(|failure| error!(%failure, "cannot restore the value before a cap"));
}
