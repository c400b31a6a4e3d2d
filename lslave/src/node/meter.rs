//! Watts: the model of emulated hardware, which answers at once, or a meter, which is read beside the loop.
//!
//! A meter is looked at in one rhythm and reported in another: what is sent is the mean of the looks since the reading
//! before. A meter that fails sends nothing: the master lets its last reading grow stale and estimates. The log says when
//! it begins to fail and when it works again. A meter that is late is not asked again until it has answered.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{JobId, Power};
use limo_power::{Attribution, Batch, Emulated, Machine, MeterError, Reading, Summary};
use limo_proto::{NodeToMaster, Sample};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Input, Node};

/// A meter that has not answered for this long fails: its last reading is stale by then.
const PATIENCE: Duration = Duration::from_secs(10);

type Device = Box<dyn limo_power::Meter>;

pub(super) struct Meter {
    source: Source,
    rhythm: Rhythm,
    /// When it is to be looked at.
    next: Instant,
}

/// How often something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// Between two looks at a meter; the model is looked at where a reading is due.
    pub looks: Duration,
    /// Between two readings for the master.
    pub readings: Duration,
}

enum Source {
    Model(Emulated),
    Device(Measured),
}

/// A meter with what it has shown since the last reading that was sent.
pub(super) struct Measured {
    state: DeviceState,
    failing: bool,
    /// What it showed last, and when, or why it did not.
    shown: Option<(Instant, Result<Power, String>)>,
    batch: Batch,
    /// When the next reading is due.
    report: Instant,
    /// Of the jobs.
    pub energy: Attribution,
    /// Jobs of which nothing is left and the meter is still to tell, and how long that is waited for.
    pub ending: BTreeMap<JobId, Instant>,
}

enum DeviceState {
    Idle(Device),
    /// It is being read elsewhere, since then.
    Reading(Instant),
}

/// A meter that was read, and what it said.
pub struct Answer {
    device: Device,
    /// When it was asked, since the daemon began.
    at: Duration,
    reading: Result<Reading, MeterError>,
}

impl Meter {
    /// `None` where the node has neither.
    pub(super) fn new(
        machine: Option<Machine>,
        device: Option<Device>,
        idle: Power,
        (now, rhythm): (Instant, Rhythm),
    ) -> Option<Self> {
        let (source, next) = match (machine, device) {
            (Some(machine), _) => (Source::Model(Emulated::new(machine)), now + rhythm.readings),
            (None, Some(device)) => {
                let (state, batch) = (DeviceState::Idle(device), Batch::new(rhythm.looks));
                // The first reading is sent as soon as there is one.
                let (energy, ending) = (Attribution::new(idle), BTreeMap::new());
                let measured = Measured { state, failing: false, shown: None, batch, report: now, energy, ending };
                (Source::Device(measured), now)
            }
            (None, None) => return None,
        };
        Some(Self { source, rhythm, next })
    }

    /// When it is to be read. A meter is read without a master, too: its trouble is logged, and its counters stay in view.
    pub(super) fn due(&self, registered: bool) -> Option<Instant> {
        (registered || matches!(self.source, Source::Device { .. })).then_some(self.next)
    }

    pub(super) fn set_rhythm(&mut self, now: Instant, rhythm: Rhythm) {
        if let Source::Device(measured) = &mut self.source {
            measured.report = measured.report.min(now + rhythm.readings);
            measured.batch.set_interval(rhythm.looks);
        }
        self.rhythm = rhythm;
        self.next = now;
    }

    /// In step with the times before, unless that one is over.
    fn schedule_next(&mut self, now: Instant) {
        let interval = match self.source {
            Source::Model(_) => self.rhythm.readings,
            Source::Device(_) => self.rhythm.looks,
        };
        self.next += interval;
        if self.next <= now {
            self.next = now + interval;
        }
    }
}

impl Measured {
    /// Takes what the meter said; whether it works.
    fn take(&mut self, answer: Answer) {
        self.state = DeviceState::Idle(answer.device);
        match &answer.reading {
            Ok(reading) => self.shown = reading.draw().map(|draw| (Instant::now(), Ok(draw))).or(self.shown.take()),
            Err(error) => self.shown = Some((Instant::now(), Err(error.to_string()))),
        }
        match answer.reading {
            Ok(reading) => {
                if let Some((draw, over)) = self.batch.look(answer.at, reading) {
                    self.energy.look(answer.at, draw, over);
                }
                if let Some(draw) = reading.draw()
                    && std::mem::take(&mut self.failing)
                {
                    warn!(%draw, "the meter works again");
                }
            }
            Err(error) => {
                self.batch.interrupt();
                if std::mem::replace(&mut self.failing, true) {
                    debug!(%error, "the meter still fails");
                } else {
                    warn!(%error, "the meter fails: nothing is measured until it works again");
                }
            }
        }
    }

    /// Asks the meter elsewhere, unless it still has to answer.
    pub fn ask(&mut self, now: Instant, begin: Instant, inputs: mpsc::Sender<Input>) {
        match std::mem::replace(&mut self.state, DeviceState::Reading(now)) {
            DeviceState::Idle(mut device) => {
                tokio::task::spawn_blocking(move || {
                    let at = begin.elapsed();
                    let reading = device.read(at);
                    // A loop that is gone has ended with the daemon.
                    let _ = inputs.blocking_send(Input::Metered(Answer { device, at, reading }));
                });
            }
            DeviceState::Reading(since) => {
                self.state = DeviceState::Reading(since);
                if now - since >= PATIENCE && !self.failing {
                    self.failing = true;
                    let reason = format!("it has not answered for {} s", PATIENCE.as_secs());
                    warn!("the meter fails: {reason}");
                    self.shown = Some((now, Err(reason)));
                }
            }
        }
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

    /// The same, to look at.
    pub(super) fn as_model(&self) -> Option<&Emulated> {
        match &self.meter.as_ref()?.source {
            Source::Model(model) => Some(model),
            Source::Device { .. } => None,
        }
    }

    /// What measures the machine, on real hardware.
    pub(super) fn measured(&mut self) -> Option<&mut Measured> {
        match &mut self.meter.as_mut()?.source {
            Source::Model(_) => None,
            Source::Device(measured) => Some(measured),
        }
    }

    /// The same, to look at.
    pub(super) fn as_measured(&self) -> Option<&Measured> {
        match &self.meter.as_ref()?.source {
            Source::Model(_) => None,
            Source::Device(measured) => Some(measured),
        }
    }

    /// What the meter in use showed last, in words; `None` where there is none.
    pub(super) fn meter_in_words(&self) -> Option<String> {
        let measured = self.as_measured()?;
        Some(match &measured.shown {
            Some((at, Ok(draw))) => format!("{draw}, {} ms ago", at.elapsed().as_millis()),
            Some((_, Err(reason))) => format!("no reading: {reason}"),
            None => "it has not shown anything yet".to_owned(),
        })
    }

    /// On emulated hardware, what it draws now.
    pub(super) fn send_reading(&self) {
        if let Some(model) = self.as_model()
            && let Some(outgoing) = self.outgoing().filter(|outgoing| !outgoing.is_behind())
        {
            outgoing.send(NodeToMaster::Reading(Sample::once(model.reading(self.now()))));
        }
    }

    /// Where it is time, sends a reading or asks for one.
    pub(super) fn read_meter(&mut self, now: Instant) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.next <= now) else { return };
        meter.schedule_next(now);
        match &mut meter.source {
            Source::Model(_) => self.send_reading(),
            Source::Device(measured) => {
                let Some(inputs) = self.inputs.upgrade() else { return };
                measured.ask(now, self.begin, inputs);
            }
        }
    }

    /// The meter was read: where it is time, sends what it has shown since the reading before.
    pub(super) fn metered(&mut self, answer: Answer) {
        self.take_reading(answer);
        self.tell_endings();
        self.look_again();
    }

    fn take_reading(&mut self, answer: Answer) {
        let (registered, behind) = match self.outgoing() {
            Some(outgoing) => (true, outgoing.is_behind()),
            None => (false, false),
        };
        let Some(Meter { source: Source::Device(measured), rhythm, .. }) = &mut self.meter else { return };
        measured.take(answer);
        let now = Instant::now();
        // Half a look early is in time: otherwise a look that is early by a hair would wait for the next one. While the
        // way to the master is full, the looks go on.
        if behind || now + rhythm.looks / 2 < measured.report {
            return;
        }
        let Some(summary) = measured.batch.close() else { return };
        measured.report += rhythm.readings;
        if measured.report <= now {
            measured.report = now + rhythm.readings;
        }
        // What nobody can hear is over: after registering, a new reading begins.
        if registered {
            self.send(NodeToMaster::Reading(sample(summary)));
        }
    }
}

fn sample(summary: Summary) -> Sample {
    let Summary { draw, low, high, last, looks, .. } = summary;
    Sample { draw, low, high, last, looks }
}
