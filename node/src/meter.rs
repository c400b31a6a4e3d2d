//! Watts from the model of emulated hardware, which answers at once, or from a meter. A meter is read beside the
//! loop.
//!
//! Sampling and reporting have different rhythms: a reading is the mean of the samples since the last one. A failing
//! meter sends nothing: the master lets its last reading grow stale and estimates. The log reports the first failure
//! and the recovery. A late meter gets no second request before it has answered.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{JobId, Power};
use limo_power::{Attribution, Batch, Emulated, Machine, MeterError, Reading, Summary};
use limo_proto::{NodeToMaster, Sample};
use tracing::{debug, warn};

use super::Node;
use crate::exchange::Effect;

/// Longest wait for a meter. After that it has failed, because its last reading is stale.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Meter {
    source: Source,
    rhythm: Rhythm,
    /// Time of the next sample.
    next: Duration,
}

/// Intervals of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// Interval between samples of a meter; the model is sampled when a reading is due.
    pub looks: Duration,
    /// Interval between readings for the master.
    pub readings: Duration,
}

enum Source {
    Model(Emulated),
    Device(Measured),
}

/// Meter, with its samples since the last reading.
pub(super) struct Measured {
    /// Start of the sample in progress.
    asked: Option<Duration>,
    failing: bool,
    /// Last sample and its time, or the error.
    shown: Option<(Duration, Result<Power, String>)>,
    batch: Batch,
    /// Time of the next reading.
    report: Duration,
    /// Energy of the jobs.
    pub energy: Attribution,
    /// Finished jobs that wait for a last sample, with their deadlines.
    pub ending: BTreeMap<JobId, Duration>,
}

impl Meter {
    /// Makes the source of watts; `None` if the node has none.
    pub(super) fn new(
        machine: Option<Machine>,
        has_meter: bool,
        idle: Power,
        (now, rhythm): (Duration, Rhythm),
    ) -> Option<Self> {
        let (source, next) = match (machine, has_meter) {
            (Some(machine), _) => (Source::Model(Emulated::new(machine)), now + rhythm.readings),
            (None, true) => {
                let batch = Batch::new(rhythm.looks);
                // The first reading is sent as soon as possible.
                let (energy, ending) = (Attribution::new(idle), BTreeMap::new());
                let measured =
                    Measured { asked: None, failing: false, shown: None, batch, report: now, energy, ending };
                (Source::Device(measured), now)
            }
            (None, false) => return None,
        };
        Some(Self { source, rhythm, next })
    }

    /// Returns the time of the next sample. A meter is also read without a master: its errors are logged, and its
    /// counters must not wrap around.
    pub(super) fn due(&self, registered: bool) -> Option<Duration> {
        (registered || matches!(self.source, Source::Device { .. })).then_some(self.next)
    }

    pub(super) fn set_rhythm(&mut self, now: Duration, rhythm: Rhythm) {
        if let Source::Device(measured) = &mut self.source {
            measured.report = measured.report.min(now + rhythm.readings);
            measured.batch.set_interval(rhythm.looks);
        }
        self.rhythm = rhythm;
        self.next = now;
    }

    /// Schedules the next sample at a multiple of the interval, unless that time has passed.
    fn schedule_next(&mut self, now: Duration) {
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
    /// Takes the meter's answer to the request at `at`.
    fn take(&mut self, now: Duration, at: Duration, reading: Result<Reading, MeterError>) {
        self.asked = None;
        match reading {
            Ok(reading) => {
                self.shown = reading.draw().map(|draw| (now, Ok(draw))).or(self.shown.take());
                if let Some((draw, over)) = self.batch.look(at, reading) {
                    self.energy.look(at, draw, over);
                }
                if let Some(draw) = reading.draw()
                    && std::mem::take(&mut self.failing)
                {
                    warn!(%draw, "the meter works again");
                }
            }
            Err(error) => {
                self.shown = Some((now, Err(error.to_string())));
                self.batch.interrupt();
                if std::mem::replace(&mut self.failing, true) {
                    debug!(%error, "the meter still fails");
                } else {
                    warn!(%error, "the meter fails: nothing is measured until it works again");
                }
            }
        }
    }

    /// Requests a sample, unless one is in progress.
    pub fn ask(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match self.asked {
            None => {
                self.asked = Some(now);
                effects.push(Effect::ReadMeter);
            }
            Some(since) if now - since >= PATIENCE && !self.failing => {
                self.failing = true;
                let reason = format!("it has not answered for {} s", PATIENCE.as_secs());
                warn!("the meter fails: {reason}");
                self.shown = Some((now, Err(reason)));
            }
            Some(_) => {}
        }
    }
}

impl Node {
    /// Returns the model, on emulated hardware.
    pub(super) fn model(&mut self) -> Option<&mut Emulated> {
        match &mut self.meter.as_mut()?.source {
            Source::Model(model) => Some(model),
            Source::Device { .. } => None,
        }
    }

    /// Returns the model read-only, on emulated hardware.
    pub(super) fn as_model(&self) -> Option<&Emulated> {
        match &self.meter.as_ref()?.source {
            Source::Model(model) => Some(model),
            Source::Device { .. } => None,
        }
    }

    /// Returns the meter of a real machine.
    pub(super) fn measured(&mut self) -> Option<&mut Measured> {
        match &mut self.meter.as_mut()?.source {
            Source::Model(_) => None,
            Source::Device(measured) => Some(measured),
        }
    }

    /// Returns the meter read-only.
    pub(super) fn as_measured(&self) -> Option<&Measured> {
        match &self.meter.as_ref()?.source {
            Source::Model(_) => None,
            Source::Device(measured) => Some(measured),
        }
    }

    /// Describes the last sample of the meter; `None` without a meter.
    pub(super) fn meter_in_words(&self) -> Option<String> {
        let measured = self.as_measured()?;
        Some(match &measured.shown {
            Some((at, Ok(draw))) => format!("{draw}, {} ms ago", self.now.since.saturating_sub(*at).as_millis()),
            Some((_, Err(reason))) => format!("no reading: {reason}"),
            None => "no reading yet".to_owned(),
        })
    }

    /// Sends the current draw, on emulated hardware.
    pub(super) fn send_reading(&mut self) {
        let now = self.model_time();
        if let Some(model) = self.as_model()
            && !self.is_behind
        {
            let sample = Sample::once(model.reading(now));
            self.send(NodeToMaster::Reading(sample));
        }
    }

    /// Sends a reading or requests a sample, if due.
    pub(super) fn read_meter(&mut self) {
        let now = self.now.since;
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.next <= now) else { return };
        meter.schedule_next(now);
        match &mut meter.source {
            Source::Model(_) => self.send_reading(),
            Source::Device(measured) => measured.ask(now, &mut self.effects),
        }
    }

    /// Takes a sample; sends the mean since the last reading, if due.
    pub(super) fn metered(&mut self, at: Duration, reading: Result<Reading, MeterError>) {
        self.take_reading(at, reading);
        self.tell_endings();
        self.look_again();
    }

    fn take_reading(&mut self, at: Duration, reading: Result<Reading, MeterError>) {
        let (registered, behind, now) = (self.is_registered(), self.is_behind, self.now.since);
        let Some(Meter { source: Source::Device(measured), rhythm, .. }) = &mut self.meter else { return };
        measured.take(now, at, reading);
        // Half an interval early counts as in time. Otherwise a slightly early sample would wait for the next one.
        // While the master is slow, sampling continues.
        if behind || now + rhythm.looks / 2 < measured.report {
            return;
        }
        let Some(summary) = measured.batch.close() else { return };
        measured.report += rhythm.readings;
        if measured.report <= now {
            measured.report = now + rhythm.readings;
        }
        // Samples without a master are dropped: a new reading begins after registering.
        if registered {
            self.send(NodeToMaster::Reading(sample(summary)));
        }
    }
}

fn sample(summary: Summary) -> Sample {
    let Summary { draw, low, high, last, looks, .. } = summary;
    Sample { draw, low, high, last, looks }
}
