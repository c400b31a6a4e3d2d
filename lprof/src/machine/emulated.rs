//! Emulated hardware: the model of `limo-power`, an exact energy counter for it, and the pipe that tells a command when
//! its work is done.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use limo_model::{Energy, Power, Span, Time, UnitSpec};
use limo_power::{CapRefused, Emulated, Hardware, Meter, MeterError, Plan, Reading, Share};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::unistd::pipe2;

/// Variable with the number of the descriptor that ends when the work of a command is done.
const WORK_FD: &str = "LIMO_EMULATED_WORK_FD";

/// The only run of the model.
const RUN: u64 = 1;

/// Model of a machine, with the energy that it has drawn.
#[derive(Debug)]
pub struct EmulatedHardware {
    model: Emulated,
    /// Index of the measured unit.
    unit: usize,
    /// Cores that a run uses.
    cores: u32,
    counted: Time,
    /// Drawn since the start, in microjoules.
    drawn_uj: i128,
}

/// Command that is prepared for emulated hardware.
#[derive(Debug)]
pub struct EmulatedStart {
    plan: Plan,
    /// End that the command inherits, and the end that is closed when the work is done; `None` if the application is
    /// not in the file.
    pipe: Option<(OwnedFd, OwnedFd)>,
}

/// Command that runs on emulated hardware.
#[derive(Debug)]
pub struct EmulatedRunning {
    /// Closed when the work is done; `None` if the application is not in the file.
    work: Option<OwnedFd>,
}

fn at(now: Span) -> Time {
    Time::from_unix_ms(now.ms())
}

fn span(time: Duration) -> Span {
    Span::from_ms(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

impl EmulatedHardware {
    /// Reads a hardware file. Without a name it must have one machine, and the first unit is measured.
    ///
    /// # Errors
    /// If the file cannot be used, or has no such machine or unit.
    pub fn read(path: &Path, machine: Option<&str>, unit: Option<&str>) -> anyhow::Result<Self> {
        let hardware = Hardware::read(path)?;
        let machine = match machine {
            Some(name) => hardware.machine(name),
            None => hardware.machine_for_node(""),
        };
        let machine = machine.context("name a machine of the hardware file by --machine")?.clone();
        let units = &machine.spec.units;
        let unit = match unit {
            None => 0,
            Some(name) => units.iter().position(|unit| unit.name == name).with_context(|| {
                let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
                format!("the machine has no unit `{name}`: it has {}", names.join(", "))
            })?,
        };
        let cores = units.get(unit).context("the machine has no unit")?.cores;
        let model = Emulated::new(machine);
        Ok(Self { model, unit, cores, counted: Time::from_unix_ms(0), drawn_uj: 0 })
    }

    /// Returns the units of the machine.
    pub fn units(&self) -> &[UnitSpec] {
        &self.model.machine().spec.units
    }

    /// Returns the index of the measured unit.
    pub fn selected(&self) -> usize {
        self.unit
    }

    /// Measures the unit with this index, on a number of its cores.
    pub(super) fn select(&mut self, unit: usize, cores: u32) {
        (self.unit, self.cores) = (unit, cores);
    }

    /// Lets runs use this many cores, at most those of the unit.
    pub(super) fn use_cores(&mut self, cores: u32) {
        self.cores = cores;
    }

    /// Counts the energy up to `now`.
    fn advance(&mut self, now: Span) {
        let since = at(now) - self.counted;
        if since > Span::ZERO {
            // Milliwatts times milliseconds are microjoules.
            self.drawn_uj += i128::from(self.model.draw().mw()) * i128::from(since.ms());
            self.counted = at(now);
        }
    }

    /// Caps the unit.
    pub(super) fn set_cap(&mut self, cap: Option<Power>, now: Span) -> Result<(), CapRefused> {
        self.advance(now);
        let mut caps = vec![None; self.model.machine().units.len()];
        caps[self.unit] = cap;
        self.model.set_caps(&caps, at(now)).into_iter().next().map_or(Ok(()), |(_, refused)| Err(refused))
    }

    /// Prepares a command for this application: it inherits the descriptor, unless the application is not in the file.
    ///
    /// # Errors
    /// If the unit has no such share, or the system has no pipe.
    pub fn prepare(
        &mut self,
        (application, size): (&str, &str),
        command: &mut Command,
    ) -> anyhow::Result<EmulatedStart> {
        let share = Share { unit: self.unit, cores: self.cores, cap: None };
        let plan = self.model.plan(application, size, &[share])?;
        if plan.work.is_none() {
            return Ok(EmulatedStart { plan, pipe: None });
        }
        let (read, write) = pipe2(OFlag::O_CLOEXEC).context("cannot make a pipe")?;
        // No other command is started meanwhile, so only this one inherits it.
        fcntl(&read, FcntlArg::F_SETFD(FdFlag::empty())).context("cannot pass on a pipe")?;
        command.env(WORK_FD, read.as_raw_fd().to_string());
        Ok(EmulatedStart { plan, pipe: Some((read, write)) })
    }

    /// Begins the run of a command that has just started.
    pub fn begin(&mut self, start: EmulatedStart, now: Duration) -> EmulatedRunning {
        self.advance(span(now));
        self.model.start(RUN, start.plan, at(span(now)));
        // The command has its own copy of the end that it reads.
        EmulatedRunning { work: start.pipe.map(|(_, write)| write) }
    }

    /// Returns when the work of the command is done, on the clock of `now`; `None` if there is none left.
    pub fn done_at(&self, now: Duration) -> Option<Duration> {
        let (end, _) = self.model.next_end(at(span(now)))?;
        Some(Duration::from_millis(u64::try_from(end.unix_ms()).unwrap_or_default()))
    }

    /// Tells the command that its work is done, if it is.
    pub fn tell(&mut self, running: &mut EmulatedRunning, now: Duration) {
        self.advance(span(now));
        if !self.model.take_done(at(span(now))).is_empty() {
            running.work = None;
        }
    }

    /// Ends the run of the command.
    pub fn end(&mut self, now: Duration) {
        self.advance(span(now));
        self.model.end(RUN, at(span(now)));
    }
}

/// Energy counter of the model.
struct ModelMeter {
    hardware: Arc<Mutex<EmulatedHardware>>,
    /// Time and counter of the last reading.
    last: Option<(Time, i128)>,
}

/// Makes the meter of emulated hardware.
pub(super) fn meter(hardware: Arc<Mutex<EmulatedHardware>>) -> Box<dyn Meter> {
    Box::new(ModelMeter { hardware, last: None })
}

impl Meter for ModelMeter {
    fn read(&mut self, now: Duration) -> Result<Reading, MeterError> {
        // A panic elsewhere does not affect the model.
        let mut hardware = self.hardware.lock().unwrap_or_else(PoisonError::into_inner);
        hardware.advance(span(now));
        // Another thread may have counted further.
        let (now, drawn_uj) = (hardware.counted, hardware.drawn_uj);
        let (since, before_uj) = *self.last.get_or_insert((now, drawn_uj));
        let over = now - since;
        if over <= Span::ZERO {
            return Ok(Reading::NotYet);
        }
        let mj = (drawn_uj - before_uj) / 1000;
        // The rest of a millijoule is for the next reading.
        self.last = Some((now, before_uj + mj * 1000));
        let energy = Energy::from_mj(i64::try_from(mj).unwrap_or(i64::MAX));
        // The noise of a reading is that of the model.
        let (draw, shown) = (hardware.model.draw(), hardware.model.reading(now));
        let mean = energy.over(over);
        let draw = if draw > Power::ZERO { mean.scaled(shown.mw(), draw.mw()) } else { mean };
        Ok(Reading::Mean { draw, over: Duration::from_millis(over.ms().unsigned_abs()) })
    }
}
