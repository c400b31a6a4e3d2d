//! Meters that hang on the master, because each serves several nodes or the whole cluster: reads them, beside the loop, and
//! brings it what they show. How that is divided is `split`'s business; what follows from it is the controller's.

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

/// A meter that has not answered for this long fails: its last reading is stale by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// One meter, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// As it is written: `shelly:http://plug1`.
    pub source: String,
    pub choice: MeterChoice,
    pub serves: Serves,
    /// Between two looks: 20 ms to 1 min.
    pub interval: Span,
    /// With user, password and certificates for it.
    pub access: Option<PathBuf>,
}

/// Whom a meter measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    All,
    /// At least one.
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

/// A meter that can be read, by its place in the configuration.
pub struct Device {
    index: usize,
    meter: Box<dyn Meter>,
    interval: Duration,
}

/// Makes the meters ready; asks none of them yet.
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

/// Reads a meter for as long as somebody listens. One that is late is not asked again until it has answered.
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
        // A read that panicked took the meter with it.
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
