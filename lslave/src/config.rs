//! Settings of the daemon: flags, then `LIMO_*`, then the TOML file, then defaults. Reads only that file.

mod caps;
mod containment;
mod file;
mod host;
mod idle;
mod master;
mod owner;
mod reboot;
mod scripts;
mod users;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use limo_model::{Power, Span, check_name};
use limo_node::{Rhythm, duration};
use limo_power::{Access, CapChoice, MeterChoice, Site};
use limo_proto::{Endpoint, Trusted, default_socket, default_state_dir};

pub use caps::{CapArguments, GpuSource};
use caps::{DEFAULT_CAP_LEASE, merged};
use containment::ContainmentArguments;
pub use containment::{CgroupChoice, ContainmentSettings};
use file::ConfigFile;
pub use host::host_name;
use idle::SleepSettings;
use master::endpoint;
use owner::{OwnerArguments, OwnerSettings};
use reboot::RebootSettings;
pub use scripts::{ScriptProgram, ScriptSettings};
use users::UserArguments;
pub use users::UserSettings;

use crate::join::LslaveCommand;
use crate::log::LogFormat;

/// Often enough for a curve of the cluster, but little compared with a job's own traffic.
const DEFAULT_READING_INTERVAL: Span = Span::from_secs(1);
/// Longest interval between samples. Energy counters wrap around after some minutes, so samples further apart mean
/// nothing.
const LONGEST_INTERVAL: Span = Span::from_secs(60);
/// Shortest interval: power is a mean over at least one cycle of the mains.
const SHORTEST_INTERVAL: Span = Span::from_ms(20);
/// Default interval between samples, unless the reading interval is shorter.
const DEFAULT_METER_INTERVAL: Span = Span::from_secs(1);
const DEFAULT_HEARTBEAT: Span = Span::from_secs(5);
const HEARTBEATS: (Span, Span) = (Span::from_ms(100), Span::from_secs(60));
/// Help about the signals of the daemon.
const SIGNALS: &str = "\
Signals:
  SIGTERM  ends lslave; its jobs continue, and the next lslave continues with them
  SIGINT   ends the jobs of this node, then lslave
  SIGHUP   reads the settings again";

pub const DEFAULT_SYSFS: &str = "/sys";
pub const DEFAULT_DEV: &str = "/dev";

#[derive(Debug, Clone, Parser)]
#[command(name = "lslave", version, about = "Runs jobs on this node for a Limo master", after_help = SIGNALS)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<LslaveCommand>,
    /// Settings in TOML, with the names of these options and `_` for `-` [default: /etc/limo/lslave.toml, if it
    /// exists]
    #[arg(long, env = "LIMO_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory for state that must survive the daemon; each daemon needs its own [default: /var/lib/limo/lslave for
    /// root, else ~/.local/state/limo/lslave]
    #[arg(long, env = "LIMO_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The master: on this machine, or tls://HOST:PORT [default: unix:/run/limo/master.sock for root, else
    /// unix:$XDG_RUNTIME_DIR/limo/master.sock]
    #[arg(long, env = "LIMO_MASTER", value_name = "unix:PATH|HOST:PORT")]
    pub master: Option<String>,
    /// User that runs the master, if it is neither root nor the daemon's user; the daemon obeys no other user
    #[arg(long, env = "LIMO_MASTER_USER", value_name = "USER")]
    pub master_user: Option<String>,
    /// Name of the node in the cluster [default: the host name up to its first dot]
    #[arg(long, env = "LIMO_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Emulate a machine of this hardware file
    #[arg(long, env = "LIMO_HARDWARE_FILE", value_name = "FILE")]
    pub hardware: Option<PathBuf>,
    /// Machine of the hardware file [default: the one with the node's name, or the only one]
    #[arg(long, env = "LIMO_MACHINE", value_name = "NAME")]
    pub machine: Option<String>,
    /// Cores of the CPU, instead of the number found or in the hardware file
    #[arg(long, env = "LIMO_NODE_CPUS", value_name = "N")]
    pub cpus: Option<NonZeroU32>,
    /// Draw of this machine without jobs; not for emulated hardware [default: 0 W]
    #[arg(long, env = "LIMO_IDLE", value_name = "POWER")]
    pub idle: Option<Power>,
    /// Draw above idle with the CPU fully used; not for emulated hardware [default: 10 W a core]
    #[arg(long, env = "LIMO_NAMEPLATE", value_name = "POWER")]
    pub nameplate: Option<Power>,
    /// Meter of this machine: powercap, hwmon:CHIP[/CHANNEL], ipmi[:ARGUMENTS], redfish:URL, shelly:URL[#SWITCH],
    /// tasmota:URL[#CHANNEL], mcp39f511:DEVICE, mcp39f511n:DEVICE[/CHANNEL], nvml, nvidia-smi, command:COMMAND or a sum
    /// such as powercap+nvml; not for emulated hardware [default: none, the draw is estimated]
    #[arg(long, env = "LIMO_METER", value_name = "METER")]
    pub meter: Option<MeterChoice>,
    /// File with user, password and certificates for a network meter, in TOML; only its owner may have access
    #[arg(long, env = "LIMO_METER_ACCESS", value_name = "FILE")]
    pub meter_access: Option<PathBuf>,
    /// Interval between samples of the meter, at least 20ms [default: 1s, or the reading interval if that is shorter]
    #[arg(long, env = "LIMO_METER_INTERVAL", value_name = "SPAN")]
    pub meter_interval: Option<Span>,
    /// Mount point of sysfs [default: /sys]
    #[arg(long, env = "LIMO_SYSFS", value_name = "DIR")]
    pub sysfs: Option<PathBuf>,
    /// Directory of device files, for --owner and --probe [default: /dev]
    #[arg(long, env = "LIMO_DEV", value_name = "DIR")]
    pub dev: Option<PathBuf>,
    /// Interval between readings for the master, each the mean of the samples since the last one, at least 20ms
    /// [default: 1s]
    #[arg(long, env = "LIMO_READING_INTERVAL", value_name = "SPAN")]
    pub reading_interval: Option<Span>,
    /// Interval between signs of life; after three intervals without one from the master the node reconnects; 100ms to
    /// 1min [default: 5s]
    #[arg(long, env = "LIMO_HEARTBEAT", value_name = "SPAN")]
    pub heartbeat: Option<Span>,
    #[command(flatten)]
    pub containment: ContainmentArguments,
    #[command(flatten)]
    pub users: UserArguments,
    #[command(flatten)]
    pub caps: CapArguments,
    #[command(flatten)]
    pub owner: OwnerArguments,
    /// Log level: error, warn, info, debug, trace, or by module [default: info]
    #[arg(long, env = "LIMO_LOG", value_name = "LEVEL")]
    pub log: Option<String>,
    /// Log format [default: human]
    #[arg(long, env = "LIMO_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Check the settings and the hardware file, and exit
    #[arg(long)]
    pub check_config: bool,
    /// Print the hardware of this machine and its usable meters and caps, and exit; needs no settings and no master
    #[arg(long, conflicts_with = "check_config")]
    pub probe: bool,
}

/// Settings of a running daemon.
#[derive(Debug, Clone)]
pub struct Settings {
    pub state_dir: PathBuf,
    pub master: Endpoint,
    /// Users who may run the master.
    pub trusted: Trusted,
    pub name: String,
    pub hardware: Option<PathBuf>,
    pub machine: Option<String>,
    pub cpus: Option<NonZeroU32>,
    pub idle: Option<Power>,
    /// Settings of sleep; `None` if the machine never sleeps.
    pub sleep: Option<SleepSettings>,
    pub nameplate: Option<Power>,
    pub meter: Option<MeterChoice>,
    pub meter_access: Option<PathBuf>,
    /// Interval between samples of the meter: 20 ms to 1 min.
    pub meter_interval: Span,
    pub sysfs: PathBuf,
    pub dev: PathBuf,
    /// Interval between readings for the master: at least 20 ms.
    pub reading_interval: Span,
    /// Interval between signs of life: 100 ms to 1 min.
    pub heartbeat: Span,
    pub containment: ContainmentSettings,
    pub users: UserSettings,
    pub scripts: ScriptSettings,
    pub reboot: RebootSettings,
    /// Caps by unit.
    pub caps: BTreeMap<String, CapChoice>,
    /// Time for which caps hold without a master; positive.
    pub cap_lease: Span,
    /// Owner of the machine; `None` if it has none.
    pub owner: Option<OwnerSettings>,
    pub gpus: GpuSource,
    /// The library of NVIDIA's driver.
    pub nvml: PathBuf,
    /// NVIDIA's program, used if the library is missing.
    pub nvidia_smi: PathBuf,
    pub log: String,
    pub log_format: Option<LogFormat>,
}

impl Settings {
    /// Loads the settings.
    ///
    /// # Errors
    /// If the file cannot be read, or a setting is invalid; names the setting and its value.
    pub fn load(arguments: &Arguments) -> anyhow::Result<Self> {
        let given = arguments.clone();
        let file = ConfigFile::load(given.config.as_deref())?;
        let name = match given.name.or(file.name) {
            Some(name) => name,
            None => host_name()?,
        };
        check_name("node name", &name)?;
        let reading_interval = given.reading_interval.or(file.reading_interval).unwrap_or(DEFAULT_READING_INTERVAL);
        let meter_interval = given.meter_interval.or(file.meter_interval);
        let sysfs = given.sysfs.or(file.sysfs).unwrap_or_else(|| DEFAULT_SYSFS.into());
        let dev = given.dev.or(file.dev).unwrap_or_else(|| DEFAULT_DEV.into());
        let hardware = given.hardware.or(file.hardware);
        let homeless = |option: &str| format!("this user has no home directory: name one by {option}");
        let state_dir = given.state_dir.or(file.state_dir).or_else(|| default_state_dir("lslave"));
        let master = match given.master.or(file.master) {
            Some(master) => endpoint(&master)?,
            None => Endpoint::unix(&default_socket().with_context(|| homeless("--master"))?)?,
        };
        let settings = Self {
            state_dir: state_dir.with_context(|| homeless("--state-dir"))?,
            users: file.users.with(&given.users, &master)?,
            master,
            trusted: Trusted::with_service_user(given.master_user.or(file.master_user).as_deref())?,
            name,
            reboot: file.reboot.unwrap_or_default().settings(hardware.is_some())?,
            hardware,
            machine: given.machine.or(file.machine),
            cpus: given.cpus.or(file.cpus),
            idle: given.idle.or(file.idle.draw()),
            sleep: file.idle.sleep()?,
            nameplate: given.nameplate.or(file.nameplate),
            meter: given.meter.or(file.meter),
            meter_access: given.meter_access.or(file.meter_access),
            meter_interval: meter_interval.unwrap_or(DEFAULT_METER_INTERVAL.min(reading_interval)),
            owner: given.owner.over(file.owner, file.owner_away_after).settings(dev.clone(), sysfs.clone())?,
            sysfs,
            dev,
            reading_interval,
            heartbeat: given.heartbeat.or(file.heartbeat).unwrap_or(DEFAULT_HEARTBEAT),
            containment: file.containment.with(given.containment),
            scripts: ScriptSettings::checked(file.prolog, file.epilog)?,
            caps: merged(file.caps, given.caps.caps)?,
            cap_lease: given.caps.cap_lease.or(file.cap_lease).unwrap_or(DEFAULT_CAP_LEASE),
            gpus: given.caps.gpus.or(file.gpus).unwrap_or(GpuSource::Auto),
            nvml: given.caps.nvml.or(file.nvml).unwrap_or_else(|| limo_power::NVML_LIBRARY.into()),
            nvidia_smi: given.caps.nvidia_smi.or(file.nvidia_smi).unwrap_or_else(|| limo_power::NVIDIA_SMI.into()),
            log: given.log.or(file.log).unwrap_or_else(|| "info".to_owned()),
            log_format: given.log_format.or(file.log_format),
        };
        settings.check()?;
        Ok(settings)
    }

    /// Returns the access data for meters and caps.
    ///
    /// # Errors
    /// If the file with the password cannot be used.
    pub fn site(&self) -> anyhow::Result<Site> {
        let access = match &self.meter_access {
            Some(path) => Access::read(path)?,
            None => Access::default(),
        };
        Ok(Site {
            access,
            interval: duration(self.meter_interval),
            nvml: self.nvml.clone(),
            nvidia_smi: self.nvidia_smi.clone(),
            ..Site::new(&self.sysfs)
        })
    }

    /// Returns the intervals of the meter.
    pub fn rhythm(&self) -> Rhythm {
        Rhythm { looks: duration(self.meter_interval), readings: duration(self.reading_interval) }
    }

    /// Returns the interval between signs of life.
    pub fn heartbeat(&self) -> Duration {
        duration(self.heartbeat)
    }

    fn check(&self) -> anyhow::Result<()> {
        let (least, most) = HEARTBEATS;
        if self.heartbeat < least || self.heartbeat > most {
            bail!(
                "the heartbeat is {}: it must be {least} to {most}, for example `{DEFAULT_HEARTBEAT}`",
                self.heartbeat
            );
        }
        for (what, interval) in [("reading", self.reading_interval), ("meter", self.meter_interval)] {
            if interval < SHORTEST_INTERVAL {
                bail!("the {what} interval is {interval}: it must be at least {SHORTEST_INTERVAL}, for example `1s`");
            }
        }
        if self.cap_lease <= Span::ZERO {
            bail!("the lease of caps is {}: it must be positive, for example `1min`", self.cap_lease);
        }
        if let (Some(unit), Some(_)) = (self.caps.keys().next(), &self.hardware) {
            bail!("unit `{unit}` has a cap, but emulated hardware has its own: remove the cap or `hardware`");
        }
        if self.meter.is_some() && self.hardware.is_some() {
            bail!("a meter is set, but emulated hardware has its own: remove `meter` or `hardware`");
        }
        if self.meter_interval > LONGEST_INTERVAL {
            bail!(
                "the meter interval is {}: a meter must be read at least every {LONGEST_INTERVAL}",
                self.meter_interval
            );
        }
        if self.meter.is_some() && self.reading_interval > LONGEST_INTERVAL {
            bail!(
                "the reading interval is {}: the master needs a reading at least every {LONGEST_INTERVAL}",
                self.reading_interval
            );
        }
        for (what, power) in [("idle", self.idle), ("nameplate", self.nameplate)] {
            let Some(power) = power else { continue };
            if power < Power::ZERO {
                bail!("the {what} draw is {power}: it must not be negative");
            }
            if self.hardware.is_some() {
                bail!("the {what} draw is set, but the hardware file has it for emulated hardware: remove one of them");
            }
        }
        if let (Some(machine), None) = (&self.machine, &self.hardware) {
            bail!("the machine `{machine}` needs a hardware file: add `--hardware FILE`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
