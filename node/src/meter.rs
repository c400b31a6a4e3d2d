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
use tracing::{debug, warn};

use super::Node;
use crate::exchange::Effect;

/// A meter that has not answered for this long fails: its last reading is stale by then.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Meter {
    source: Source,
    rhythm: Rhythm,
    /// When it is to be looked at.
    next: Duration,
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
    /// Since when it is being read.
    asked: Option<Duration>,
    failing: bool,
    /// What it showed last, and when, or why it did not.
    shown: Option<(Duration, Result<Power, String>)>,
    batch: Batch,
    /// When the next reading is due.
    report: Duration,
    /// Of the jobs.
    pub energy: Attribution,
    /// Jobs of which nothing is left and the meter is still to tell, and how long that is waited for.
    pub ending: BTreeMap<JobId, Duration>,
}

impl Meter {
    /// `None` where the node has neither.
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
                // The first reading is sent as soon as there is one.
                let (energy, ending) = (Attribution::new(idle), BTreeMap::new());
                let measured =
                    Measured { asked: None, failing: false, shown: None, batch, report: now, energy, ending };
                (Source::Device(measured), now)
            }
            (None, false) => return None,
        };
        Some(Self { source, rhythm, next })
    }

    /// When it is to be read. A meter is read without a master, too: its trouble is logged, and its counters stay in view.
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

    /// In step with the times before, unless that one is over.
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
    /// Takes what the meter said when it was asked at `at`.
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

    /// Has the meter read, unless it still has to answer.
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
            Some((at, Ok(draw))) => format!("{draw}, {} ms ago", self.now.since.saturating_sub(*at).as_millis()),
            Some((_, Err(reason))) => format!("no reading: {reason}"),
            None => "it has not shown anything yet".to_owned(),
        })
    }

    /// On emulated hardware, what it draws now.
    pub(super) fn send_reading(&mut self) {
        let now = self.model_time();
        if let Some(model) = self.as_model()
            && !self.is_behind
        {
            let sample = Sample::once(model.reading(now));
            self.send(NodeToMaster::Reading(sample));
        }
    }

    /// Where it is time, sends a reading or asks for one.
    pub(super) fn read_meter(&mut self) {
        let now = self.now.since;
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.next <= now) else { return };
        meter.schedule_next(now);
        match &mut meter.source {
            Source::Model(_) => self.send_reading(),
            Source::Device(measured) => measured.ask(now, &mut self.effects),
        }
    }

    /// The meter was read: where it is time, sends what it has shown since the reading before.
    pub(super) fn metered(&mut self, at: Duration, reading: Result<Reading, MeterError>) {
        self.take_reading(at, reading);
        self.tell_endings();
        self.look_again();
    }

    fn take_reading(&mut self, at: Duration, reading: Result<Reading, MeterError>) {
        let (registered, behind, now) = (self.is_registered(), self.is_behind, self.now.since);
        let Some(Meter { source: Source::Device(measured), rhythm, .. }) = &mut self.meter else { return };
        measured.take(now, at, reading);
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
