//! Options that name the machine, its meter and its caps, and the times of a measurement.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use limo_model::{NameError, Span, check_name};
use limo_power::{Access, CapChoice, CapChoiceError, ChoiceError, MeterChoice, NVIDIA_SMI, NVML_LIBRARY, Site, cores};
use limo_proto::default_state_dir;
use thiserror::Error;

use crate::interrupt::Events;
use crate::machine::{EmulatedHardware, RealUnit, Testbed};
use crate::measure::recorder::{MonotonicClock, Recorder};
use crate::measure::run::{Laboratory, Timing};
use crate::measure::sheet::{KnownTimes, MeterSheet};
use crate::progress::Progress;

/// Intervals between samples.
const INTERVALS: (Span, Span) = (Span::from_ms(20), Span::from_secs(60));

/// Longest window, lag, idle time and run.
const LONGEST: Span = Span::from_secs(3600);

/// Least number of samples in an idle time: two of them lie within it, even if one comes late.
const IDLE_LOOKS: f64 = 4.0;

/// A unit, and the way to cap it: `cpu=rapl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitChoice {
    /// Name of the unit.
    pub name: String,
    /// Its cap; `None` without one.
    pub cap: Option<CapChoice>,
}

/// Reason why a unit was refused.
#[derive(Debug, Error)]
pub enum UnitChoiceError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Cap(#[from] CapChoiceError),
}

impl std::str::FromStr for UnitChoice {
    type Err = UnitChoiceError;

    fn from_str(text: &str) -> Result<Self, UnitChoiceError> {
        let (name, cap) = match text.split_once('=') {
            Some((name, cap)) => (name, Some(cap.parse()?)),
            None => (text, None),
        };
        check_name("unit name", name)?;
        Ok(Self { name: name.to_owned(), cap })
    }
}

/// A meter, and the words that choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedMeter {
    text: String,
    choice: MeterChoice,
}

impl std::str::FromStr for NamedMeter {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        Ok(Self { text: text.to_owned(), choice: text.parse()? })
    }
}

/// Options of the machine.
#[derive(Debug, Clone, Args)]
pub struct LaboratoryArguments {
    /// Meter of this machine, as for lslave: powercap, hwmon:CHIP[/CHANNEL], mcp39f511:DEVICE, command:COMMAND and so on
    #[arg(long, env = "LIMO_METER", value_name = "METER", required_unless_present = "hardware")]
    meter: Option<NamedMeter>,
    /// File with user, password and certificates for a network meter, in TOML; only its owner may have access
    #[arg(long, env = "LIMO_METER_ACCESS", value_name = "FILE")]
    meter_access: Option<PathBuf>,
    /// Unit that the command uses: cpu, gpu0 and so on, with its cap, as for lslave: cpu=rapl, gpu0=nvml:0; further ones
    /// are for variants [default: cpu without a cap; the first unit of emulated hardware]
    #[arg(long, value_name = "UNIT[=CAP]")]
    unit: Vec<UnitChoice>,
    /// Cores that the command uses [default: all of the unit]
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// Emulate a machine of this hardware file
    #[arg(long, env = "LIMO_HARDWARE_FILE", value_name = "FILE", conflicts_with = "meter")]
    hardware: Option<PathBuf>,
    /// Machine of the hardware file [default: the only one]
    #[arg(long, env = "LIMO_MACHINE", value_name = "NAME", requires = "hardware")]
    machine: Option<String>,
    /// State directory of this machine's lslave, which must not run [default: /var/lib/limo/lslave for root, else
    /// ~/.local/state/limo/lslave]
    #[arg(long, env = "LIMO_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Mount point of sysfs
    #[arg(long, env = "LIMO_SYSFS", value_name = "DIR", default_value = "/sys")]
    sysfs: PathBuf,
    /// The library of NVIDIA's driver [default: libnvidia-ml.so.1]
    #[arg(long, env = "LIMO_NVML", value_name = "FILE")]
    nvml: Option<PathBuf>,
    /// NVIDIA's program, used if the library is missing [default: nvidia-smi]
    #[arg(long, env = "LIMO_NVIDIA_SMI", value_name = "PROGRAM")]
    nvidia_smi: Option<PathBuf>,
    /// Interval between samples, 20ms to 1min [default: depends on the meter; see `lprof probe`]
    #[arg(long, value_name = "SPAN")]
    interval: Option<Span>,
    /// Time over which the meter averages [default: depends on the meter]
    #[arg(long, value_name = "SPAN")]
    window: Option<Span>,
    /// Age of a value when the meter shows it [default: depends on the meter]
    #[arg(long, value_name = "SPAN")]
    lag: Option<Span>,
    /// Idle time before and after each run
    #[arg(long, value_name = "SPAN", default_value = "5s")]
    idle: Span,
    /// Least duration of a run: a shorter command runs several times in a row
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    at_least: Span,
    /// Most cores that other processes may keep busy
    #[arg(long, value_name = "CORES", default_value_t = 0.1)]
    other_load: f64,
}

impl LaboratoryArguments {
    /// Opens the machine and its meter; catches signals from now on.
    ///
    /// # Errors
    /// If an option is out of its range, the machine is in use, or the meter or the cap cannot be used.
    pub fn open(&self) -> anyhow::Result<Laboratory> {
        self.open_sampled(None)
    }

    /// Returns true for emulated hardware.
    pub fn is_emulated(&self) -> bool {
        self.hardware.is_some()
    }

    /// Does the same as [`Self::open`]. The meter is told its usual interval, but sampled at this one.
    ///
    /// # Errors
    /// The same as for [`Self::open`].
    pub fn open_sampled(&self, interval: Option<Duration>) -> anyhow::Result<Laboratory> {
        let timing = self.timing()?;
        let progress = Progress::new();
        // Before the first cap, so that a signal cannot leave it behind.
        let events = Events::catch()?;
        let clock = MonotonicClock::start();
        let site = self.site(timing)?;
        let mut testbed = match &self.hardware {
            Some(path) => self.emulated(path)?,
            None => self.real(&site)?,
        };
        if let Some(cores) = self.cores {
            testbed.use_cores(cores)?;
        }
        testbed.warnings.drain(..).for_each(|warning| progress.say(&format!("warning: {warning}")));
        let meter = testbed.make_meter(self.meter.as_ref().map(|meter| (&meter.choice, &site)));
        let meter = meter.context("no meter: add for example `--meter powercap`")?;
        let interval = interval.unwrap_or(Duration::from_secs_f64(timing.sheet.interval_s));
        let recorder = Recorder::start(meter, interval, clock)?;
        recorder.watch(testbed.gpu_watch(&site));
        Ok(Laboratory { testbed, recorder, events, timing, site, progress })
    }

    fn emulated(&self, path: &std::path::Path) -> anyhow::Result<Testbed> {
        if let Some(unit) = self.unit.iter().find(|unit| unit.cap.is_some()) {
            bail!("emulated hardware has its own caps: write `--unit {}`", unit.name);
        }
        let unit = self.unit.first().map(|unit| unit.name.as_str());
        Ok(Testbed::emulated(EmulatedHardware::read(path, self.machine.as_deref(), unit)?))
    }

    fn real(&self, site: &Site) -> anyhow::Result<Testbed> {
        let homeless = "this user has no home directory: name a directory by --state-dir";
        let state_dir = self.state_dir.clone().or_else(|| default_state_dir("lslave")).context(homeless)?;
        let mut units: Vec<RealUnit> = Vec::new();
        for UnitChoice { name, cap } in self.unit.iter().cloned() {
            anyhow::ensure!(units.iter().all(|unit| unit.name != name), "the unit `{name}` is named twice");
            units.push(RealUnit { name, cap });
        }
        if units.is_empty() {
            units.push(RealUnit { name: "cpu".to_owned(), cap: None });
        }
        let meter = self.meter.as_ref().map_or_else(String::new, |meter| meter.text.clone());
        Testbed::real(&state_dir, site, units, meter)
    }

    /// Returns the access data for meters and caps.
    fn site(&self, timing: Timing) -> anyhow::Result<Site> {
        let access = match &self.meter_access {
            Some(path) => Access::read(path)?,
            None => Access::default(),
        };
        Ok(Site {
            access,
            interval: Duration::from_secs_f64(timing.sheet.interval_s),
            nvml: self.nvml.clone().unwrap_or_else(|| NVML_LIBRARY.into()),
            nvidia_smi: self.nvidia_smi.clone().unwrap_or_else(|| NVIDIA_SMI.into()),
            ..Site::new(&self.sysfs)
        })
    }

    fn timing(&self) -> anyhow::Result<Timing> {
        let (least, most) = INTERVALS;
        if let Some(interval) = self.interval.filter(|interval| *interval < least || *interval > most) {
            bail!("the interval is {interval}: it must be {least} to {most}");
        }
        let spans = [("window", self.window), ("lag", self.lag), ("idle time", Some(self.idle))];
        for (what, span) in spans.into_iter().chain([("shortest run", Some(self.at_least))]) {
            if let Some(span) = span.filter(|span| *span < Span::ZERO || *span > LONGEST) {
                bail!("the {what} is {span}: it must be 0s to {LONGEST}");
            }
        }
        let all = f64::from(cores());
        if !(0.0..=all).contains(&self.other_load) {
            bail!("the load of others is {}: it must be 0 to {all} cores", self.other_load);
        }
        let usual = self.meter.as_ref().map_or(MeterSheet::EMULATED, |meter| MeterSheet::usual(&meter.choice));
        let known = KnownTimes { interval: self.interval, window: self.window, lag: self.lag };
        let sheet = usual.with(known);
        let least_idle_s = IDLE_LOOKS * sheet.interval_s;
        if self.idle.secs() < least_idle_s {
            bail!("the idle time is {}: it must be at least {least_idle_s} s, which is four samples", self.idle);
        }
        Ok(Timing { sheet, idle_s: self.idle.secs(), at_least_s: self.at_least.secs(), other_cores: self.other_load })
    }
}
