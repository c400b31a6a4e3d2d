//! Meters of the master, each of which measures several nodes or the whole cluster. Reads them outside of the
//! loop and passes their readings to it. `split` divides the readings; the controller uses the results.

mod split;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use limo_model::Span;
use limo_power::{Access, Meter, MeterChoice, Reading, Site};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, MissedTickBehavior};

use crate::controller::Input;
pub use split::split;

/// Time without an answer after which a meter has failed, because its last reading is stale.
const PATIENCE: Duration = Duration::from_secs(10);

/// One meter in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Configured text, such as `shelly:http://plug1`.
    pub source: String,
    pub choice: MeterChoice,
    pub serves: Serves,
    /// Time between two samples: 20 ms to 1 min.
    pub interval: Span,
    /// File with its user, password and certificates.
    pub access: Option<PathBuf>,
}

/// The nodes that a meter measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    All,
    /// Names of nodes, at least one.
    Nodes(Vec<String>),
}

impl Serves {
    pub fn serves(&self, node: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nodes(nodes) => nodes.iter().any(|name| name == node),
        }
    }
}

/// An open meter, by its index in the configuration.
pub struct Device {
    index: usize,
    meter: Box<dyn Meter>,
    interval: Duration,
}

/// Opens the meters without reading them.
///
/// # Errors
/// If a file with a password cannot be used.
pub fn open(meters: &[Shared]) -> Result<Vec<Device>> {
    let device = |(index, meter): (usize, &Shared)| {
        let access = match &meter.access {
            Some(path) => Access::read(path).with_context(|| format!("cannot use the meter `{}`", meter.source))?,
            None => Access::default(),
        };
        let interval = Duration::from_millis(u64::try_from(meter.interval.ms()).unwrap_or(0));
        let site = Site { access, interval, ..Site::new(Path::new("/sys")) };
        Ok(Device { index, meter: meter.choice.meter(&site), interval })
    };
    meters.iter().enumerate().map(device).collect()
}

/// Reads a meter until the receiver is dropped. A slow meter gets the next query only after its answer.
pub async fn watch(device: Device, inputs: Sender<Input>) {
    let Device { index, mut meter, interval } = device;
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let mut read = tokio::task::spawn_blocking(move || {
            let reading = meter.read(begin.elapsed());
            (meter, reading)
        });
        let answer = tokio::select! {
            answer = &mut read => answer,
            () = tokio::time::sleep(PATIENCE) => {
                let late = format!("it has not answered for {} s", PATIENCE.as_secs());
                if inputs.send(Input::Metered(index, Err(late))).await.is_err() {
                    return;
                }
                read.await
            }
        };
        // A read that panicked has dropped the meter.
        let Ok((back, reading)) = answer else { return };
        meter = back;
        let shown = match reading {
            Ok(Reading::Draw(draw) | Reading::Mean { draw, .. }) => Ok(draw),
            Ok(Reading::NotYet) => continue,
            Err(error) => Err(error.to_string()),
        };
        if inputs.send(Input::Metered(index, shown)).await.is_err() {
            return;
        }
    }
}
