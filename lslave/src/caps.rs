//! The caps of this node's hardware, from the settings to a keeper, and back to what was there when the daemon ends.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use limo_model::NodeSpec;
use limo_power::{CapFailure, Keeper, Site};
use tracing::{error, info, warn};

use crate::config::Settings;

/// How long putting back may take when the daemon ends: a management controller has 5 s for each answer. What is not put
/// back then is by the next daemon.
const PATIENCE: Duration = Duration::from_secs(15);

/// What was there before, in the state directory.
const FILE: &str = "caps.json";

/// In use by one thread at a time, beside the loop.
pub type Shared = Arc<Mutex<Keeper>>;

/// Puts back what an earlier daemon left, and writes into `spec` which caps its units obey. `None` where what was there
/// before is not known: then nothing may be capped.
pub fn open(settings: &Settings, site: &Site, spec: &mut NodeSpec) -> Option<Shared> {
    for unit in settings.caps.keys().filter(|unit| spec.unit(unit).is_none()) {
        let units: Vec<&str> = spec.units.iter().map(|unit| unit.name.as_str()).collect();
        warn!("there is no unit `{unit}` to be capped: this node has {}", units.join(", "));
    }
    let known = settings.caps.iter().filter(|(unit, _)| spec.unit(unit).is_some());
    let units = known.map(|(unit, cap)| (unit.clone(), cap.clone())).collect();
    let (keeper, failures) = match Keeper::open(&settings.state_dir.join(FILE), site, units) {
        Ok(opened) => opened,
        Err(error) => {
            error!(%error, "no unit is capped");
            return None;
        }
    };
    failures.iter().for_each(|failure| warn!(%failure, "a cap is not to be had"));
    // What emulated hardware obeys is in its file.
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

/// Puts everything back, for good. A device that does not answer does not keep the daemon.
pub fn close(keeper: Shared) {
    let (told, done) = mpsc::channel();
    thread::spawn(move || {
        // What a panic left in it is still what is to be put back.
        let failures = keeper.lock().unwrap_or_else(PoisonError::into_inner).close();
        // Whoever does not wait any more has told so.
        let _ = told.send(failures);
    });
    match done.recv_timeout(PATIENCE) {
        Ok(failures) => tell(&failures),
        Err(_) => error!("caps are not put back after {} s: the next lslave does it", PATIENCE.as_secs()),
    }
}

/// Says what was not put back.
pub fn tell(failures: &[CapFailure]) {
    failures.iter().for_each(|failure| error!(%failure, "a cap is not put back"));
}
