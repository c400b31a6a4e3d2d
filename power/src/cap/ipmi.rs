//! Power limit of a whole machine, by its management controller (BMC): IPMI DCMI through `ipmitool raw`.
//!
//! - The commands are Get (3), Set (4) and Activate (5) Power Limit. A limit may be stored and not active.
//! - The controller does not report its range, so that it must be given. Limits are whole watts.
//! - If the machine draws more, it is only throttled: the controller could also switch it off.
//! - A limit outlives the machine's boot, so it is restored whenever the daemon is started again.

use std::path::{Path, PathBuf};

use limo_model::Power;
use thiserror::Error;

use super::program::{Program, ProgramError};
use super::{Cap, CapError, Originals, checked};
use crate::meter::ipmi::{GROUP, bytes, completion_code, has_no_device};
use crate::meter::{IpmiError, MeterError};

/// Length of a reply: group, two reserved bytes, action, limit (2), correction time (4), two reserved bytes, period
/// (2).
const REPLY_LENGTH: usize = 14;
/// Offset of the settings, which begin with the action. A request to set them has the same form.
const SETTINGS: usize = 3;

/// Values for a controller without a stored limit: its reaction time in milliseconds, and the seconds over which it
/// averages. Both equal the time for which the master uses a reading.
const CORRECTION_MS: u32 = 10_000;
const PERIOD_S: u16 = 5;

/// Completion code of Get Power Limit: no limit is active.
const NOT_ACTIVE: u8 = 0x80;

/// Captured value if no limit was active.
const INACTIVE: &str = "inactive";
/// Prefix of the captured settings of an active limit.
const ACTIVE: &str = "active ";

/// Reason why a controller does not limit the machine.
#[derive(Debug, Error)]
pub enum IpmiCapError {
    #[error("the controller refuses `{command}` with the completion code {code:#04x}: {meaning}")]
    Refused { command: String, code: u8, meaning: &'static str },
    #[error("{place} holds no active limit after {wanted} was set")]
    Inactive { place: String, wanted: Power },
}

/// Cap on one machine.
#[derive(Debug)]
pub struct IpmiCap {
    program: PathBuf,
    arguments: Vec<String>,
    range: Option<(Power, Power)>,
}

/// Bytes of the settings, from the action to the period.
type Settings = [u8; REPLY_LENGTH - SETTINGS];

impl IpmiCap {
    /// Makes a cap that uses `program`, normally `ipmitool`. `arguments` come before `raw`; for the machine's own
    /// controller they are empty.
    pub fn new(program: &Path, arguments: Vec<String>, range: Option<(Power, Power)>) -> Self {
        Self { program: program.to_owned(), arguments, range }
    }

    fn place(&self) -> String {
        if self.arguments.is_empty() { "ipmi".to_owned() } else { format!("ipmi {}", self.arguments.join(" ")) }
    }

    fn control(&self) -> String {
        format!("{}/power_limit", self.place())
    }

    /// Sends a command; returns the data of the reply.
    fn send(&self, command: u8, data: &[u8]) -> Result<Vec<u8>, CapError> {
        let asked: Vec<String> = [0x2c, command, GROUP].iter().chain(data).map(|byte| format!("{byte:#04x}")).collect();
        let words = self.arguments.iter().map(String::as_str).chain(["raw"]);
        let words: Vec<&str> = words.chain(asked.iter().map(String::as_str)).collect();
        let program = Program { path: &self.program, remedy: "install ipmitool" };
        let (ran, command) = program.run(&words).map_err(refusal)?;
        let expected = "bytes such as `dc 00 00`, of which the first is `dc`, were expected";
        match bytes(&ran.stdout) {
            Some(reply) if reply.first() == Some(&GROUP) => Ok(reply),
            _ => Err(ProgramError::Nonsense { command, printed: ran.shown(), expected }.into()),
        }
    }

    /// Returns the stored settings, or `None` if no limit is active.
    fn settings(&self) -> Result<Option<Settings>, CapError> {
        let reply = match self.send(3, &[0, 0]) {
            Err(CapError::Ipmi(IpmiCapError::Refused { code: NOT_ACTIVE, .. })) => return Ok(None),
            other => other?,
        };
        let settings = reply.get(SETTINGS..).and_then(|settings| settings.try_into().ok());
        settings.map(Some).ok_or_else(|| {
            let printed = format!("{} bytes", reply.len());
            let expected = "the 14 bytes of a power limit were expected";
            ProgramError::Nonsense { command: format!("{} raw 0x2c 0x03", self.place()), printed, expected }.into()
        })
    }

    /// Sets a limit, makes it active and reads it back.
    fn apply(&self, settings: Settings) -> Result<(), CapError> {
        let wanted = limit(&settings);
        let data: Vec<u8> = [0, 0, 0].into_iter().chain(settings).collect();
        self.send(4, &data)?;
        self.send(5, &[1, 0, 0])?;
        match self.settings()? {
            Some(held) if limit(&held) == wanted => Ok(()),
            Some(held) => Err(CapError::NotKept { place: self.place(), wanted, found: limit(&held) }),
            None => Err(IpmiCapError::Inactive { place: self.place(), wanted }.into()),
        }
    }
}

fn limit(settings: &Settings) -> Power {
    Power::from_watts(i64::from(u16::from_le_bytes([settings[1], settings[2]])))
}

/// Explains an error of `ipmitool` about a controller without the command.
fn refusal(error: CapError) -> CapError {
    let CapError::Program(ProgramError::Failed { command, status, printed }) = error else { return error };
    if has_no_device(&printed) {
        return MeterError::from(IpmiError::NoDevice { command, printed }).into();
    }
    match completion_code(&printed) {
        Some(code) => IpmiCapError::Refused { command, code, meaning: meaning(code) }.into(),
        None => ProgramError::Failed { command, status, printed }.into(),
    }
}

/// Explains a completion code (DCMI 1.5, section 6.6; IPMI 2.0, table 5-2), with a remedy.
fn meaning(code: u8) -> &'static str {
    match code {
        0x84 => "it does not obey such a limit; set another range",
        0x85 => "it cannot correct the draw in that time",
        0x89 => "it cannot average over that period",
        0xc1 => "it does not know the command, so it has no power limit; try `redfish`",
        0xd4 => "the user may not do that; give it the right OPERATOR or ADMINISTRATOR",
        0xd5 => "not in its present state",
        _ => "see DCMI 1.5, section 6.6, and table 5-2 of IPMI 2.0",
    }
}

impl Cap for IpmiCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let range = self.range.ok_or_else(|| CapError::NoRange { place: self.place() })?;
        // Checks that the controller has the commands.
        self.settings()?;
        checked(|| self.place(), range)
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let value = match self.settings()? {
            None => INACTIVE.to_owned(),
            Some(settings) => {
                let bytes: Vec<String> = settings.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{ACTIVE}{}", bytes.join(" "))
            }
        };
        Ok(Originals::from([(self.control(), value)]))
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        // Limits are whole watts, and never above the requested limit.
        let watts = u16::try_from(limit.mw() / 1000).unwrap_or(u16::MAX);
        let mut settings = self.settings()?.unwrap_or_else(|| {
            let mut fresh = Settings::default();
            fresh[3..7].copy_from_slice(&CORRECTION_MS.to_le_bytes());
            fresh[9..].copy_from_slice(&PERIOD_S.to_le_bytes());
            fresh
        });
        settings[0] = 0;
        settings[1..3].copy_from_slice(&watts.to_le_bytes());
        self.apply(settings)
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        let captured = || CapError::Captured { control: control.to_owned(), value: value.to_owned() };
        if control != self.control() {
            return Err(captured());
        }
        if value == INACTIVE {
            self.send(5, &[0, 0, 0])?;
            return match self.settings()? {
                None => Ok(()),
                Some(held) => Err(CapError::StillCapped { place: self.place(), found: limit(&held) }),
            };
        }
        let settings = value.strip_prefix(ACTIVE).and_then(bytes).and_then(|settings| settings.try_into().ok());
        self.apply(settings.ok_or_else(captured)?)
    }
}
