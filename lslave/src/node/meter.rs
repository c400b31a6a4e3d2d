//! Watts: the model of emulated hardware, which answers at once, or a meter, which is read beside the loop.
//!
//! A meter that fails sends nothing: the master lets its last reading grow stale and estimates. The log says when it
//! begins to fail and when it works again.

use std::time::Duration;

use limo_power::{Emulated, Machine, MeterError, Reading};
use limo_proto::{NodeToMaster, Sample};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Input, Node};

/// A meter that has not answered for this long fails: its last reading is stale by then.
const PATIENCE: Duration = Duration::from_secs(10);

type Device = Box<dyn limo_power::Meter>;

pub(super) struct Meter {
    source: Source,
    interval: Duration,
    next: Instant,
}

enum Source {
    Model(Emulated),
    Device { state: DeviceState, failing: bool },
}

enum DeviceState {
    Idle(Device),
    /// It is being read elsewhere, since then.
    Reading(Instant),
}

/// A meter that was read, and what it said.
pub struct Answer {
    device: Device,
    reading: Result<Reading, MeterError>,
}

impl Meter {
    /// `None` where the node has neither. `timing` is now, and the time between two readings.
    pub(super) fn new(machine: Option<Machine>, device: Option<Device>, timing: (Instant, Duration)) -> Option<Self> {
        let (now, interval) = timing;
        let source = match (machine, device) {
            (Some(machine), _) => Source::Model(Emulated::new(machine)),
            (None, Some(device)) => Source::Device { state: DeviceState::Idle(device), failing: false },
            (None, None) => return None,
        };
        // A counter of energy tells a draw only at the second look, so the first one is not waited for.
        let next = if matches!(source, Source::Model(_)) { now + interval } else { now };
        Some(Self { source, interval, next })
    }

    /// When it is to be read. A meter is read without a master, too: its trouble is logged, and its counters stay in view.
    pub(super) fn due(&self, registered: bool) -> Option<Instant> {
        (registered || matches!(self.source, Source::Device { .. })).then_some(self.next)
    }

    pub(super) fn set_interval(&mut self, now: Instant, interval: Duration) {
        self.interval = interval;
        self.next = now;
    }
}

impl Node {
    /// The model, on emulated hardware.
    pub(super) fn model(&mut self) -> Option<&mut Emulated> {
        match &mut self.meter.as_mut()?.source {
            Source::Model(model) => Some(model),
            Source::Device { .. } => None,
        }
    }

    /// Emulated hardware holds whatever cap it is given.
    pub(super) fn emulated_caps(&mut self, generation: u64, _caps: &[Option<limo_model::Power>]) {
        self.send(NodeToMaster::Capped { generation, failed: Vec::new() });
    }

    /// On emulated hardware, what it draws now.
    pub(super) fn send_reading(&self) {
        if let Some(Meter { source: Source::Model(model), .. }) = &self.meter {
            self.send_draw(model.reading(self.now()));
        }
    }

    fn send_draw(&self, draw: limo_model::Power) {
        if let Some(outgoing) = self.outgoing()
            && !outgoing.is_behind()
        {
            outgoing.send(NodeToMaster::Reading(Sample::once(draw)));
        }
    }

    /// Where it is time, sends a reading or asks for one.
    pub(super) fn read_meter(&mut self, now: Instant) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.next <= now) else { return };
        meter.next = now + meter.interval;
        let Source::Device { state, failing } = &mut meter.source else { return self.send_reading() };
        match std::mem::replace(state, DeviceState::Reading(now)) {
            DeviceState::Idle(mut device) => {
                let Some(inputs) = self.inputs.upgrade() else { return };
                let begin = self.begin;
                tokio::task::spawn_blocking(move || {
                    let reading = device.read(begin.elapsed());
                    // A loop that is gone has ended with the daemon.
                    let _ = inputs.blocking_send(Input::Metered(Answer { device, reading }));
                });
            }
            DeviceState::Reading(since) => {
                *state = DeviceState::Reading(since);
                if now - since >= PATIENCE && !*failing {
                    *failing = true;
                    warn!("the meter has not answered for {} s: nothing is measured", PATIENCE.as_secs());
                }
            }
        }
    }

    pub(super) fn metered(&mut self, answer: Answer) {
        let Some(Meter { source: Source::Device { state, failing }, .. }) = &mut self.meter else { return };
        *state = DeviceState::Idle(answer.device);
        match answer.reading {
            Ok(Reading::Draw(draw)) => {
                if std::mem::take(failing) {
                    warn!(%draw, "the meter works again");
                }
                self.send_draw(draw);
            }
            Ok(Reading::NotYet) => {}
            Err(error) if *failing => debug!(%error, "the meter still fails"),
            Err(error) => {
                *failing = true;
                warn!(%error, "the meter fails: nothing is measured until it works again");
            }
        }
    }
}
