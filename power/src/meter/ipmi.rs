//! Draw from the machine's management controller (BMC) by IPMI DCMI, through `ipmitool raw`: the command Get Power
//! Reading.
//!
//! `ipmitool dcmi power reading` prints the same in words, which differ between versions; the bytes do not. A reply is
//! `dc`, four numbers of two bytes (now, lowest, highest, mean; the lower byte first), time stamp and period of four
//! bytes each, and a state. One bit of the state says if power is measured at all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use limo_model::Power;
use thiserror::Error;

use super::error::MeterError;
use super::run::{self, LIMIT, Ran};
use super::{Meter, Reading, plausible};

/// Get Power Reading, for the statistics of the system.
const REQUEST: [&str; 7] = ["raw", "0x2c", "0x02", "0xdc", "0x01", "0x00", "0x00"];

/// The first byte of every reply of DCMI.
pub(crate) const GROUP: u8 = 0xdc;

/// Length from the group to the state.
const REPLY_LENGTH: usize = 18;

/// Bit of the state: power is measured.
const ACTIVE: u8 = 1 << 6;

/// Reason why a controller does not report the draw.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum IpmiError {
    #[error("cannot find `{program}`: install ipmitool")]
    NoProgram { program: String },
    #[error(
        "`{command}` finds no controller: load its modules with `modprobe ipmi_si ipmi_devintf`, or name one on the \
         network, for example `ipmi:-I lanplus -H bmc1 -U admin -f /etc/limo/bmc`; it printed {printed}"
    )]
    NoDevice { command: String, printed: String },
    #[error("the controller refuses `{command}` with the completion code {code:#04x}: {meaning}")]
    Refused { command: String, code: u8, meaning: &'static str },
    #[error("`{command}` printed {printed} instead of bytes such as `dc 39 00`")]
    Nonsense { command: String, printed: String },
    #[error("the controller answers `{command}` with {found} bytes instead of {REPLY_LENGTH}: {printed}")]
    Short { command: String, found: usize, printed: String },
    #[error("the controller answers `{command}` for the group {found:#04x} instead of {GROUP:#04x}")]
    Group { command: String, found: u8 },
    #[error("the controller does not measure power: activate power measurement in its settings")]
    Inactive,
}

/// Draw by a management controller.
#[derive(Debug)]
pub struct Ipmi {
    program: PathBuf,
    arguments: Vec<String>,
    limit: Duration,
}

impl Ipmi {
    /// Makes a meter. `arguments` come before `raw`: none for the machine's own controller, or those that select one on
    /// the network.
    pub fn new(arguments: Vec<String>) -> Self {
        Self { program: PathBuf::from("ipmitool"), arguments, limit: LIMIT }
    }

    /// Uses another program than the `ipmitool` in `PATH`.
    pub fn with_program(self, program: &Path) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    /// Sets another time limit than 5 s.
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    fn shown(&self) -> String {
        let words = self.arguments.iter().map(String::as_str).chain(REQUEST);
        format!("{} {}", self.program.display(), words.collect::<Vec<_>>().join(" "))
    }

    fn run(&self) -> Result<Ran, MeterError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(REQUEST);
        match run::succeeded(command, &self.shown(), self.limit) {
            Err(MeterError::Run { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Err(IpmiError::NoProgram { program: self.program.display().to_string() }.into())
            }
            Err(MeterError::Failed { command, status, printed }) => Err(refusal(command, status, printed)),
            other => other,
        }
    }
}

impl Meter for Ipmi {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let ran = self.run()?;
        let command = self.shown();
        let bytes =
            bytes(&ran.stdout).ok_or_else(|| IpmiError::Nonsense { command: command.clone(), printed: ran.shown() })?;
        let draw = draw(&bytes, &command)?;
        plausible(draw, || format!("the controller, asked with `{command}`,"))
    }
}

/// Explains an error of `ipmitool`.
fn refusal(command: String, status: String, printed: String) -> MeterError {
    if has_no_device(&printed) {
        return IpmiError::NoDevice { command, printed }.into();
    }
    match completion_code(&printed) {
        Some(code) => IpmiError::Refused { command, code, meaning: meaning(code) }.into(),
        None => MeterError::Failed { command, status, printed },
    }
}

/// Returns true if `ipmitool`, which printed this, cannot reach a controller.
pub(crate) fn has_no_device(printed: &str) -> bool {
    printed.contains("Could not open device")
}

/// Returns the completion code of a refusal, if `ipmitool` printed one.
pub(crate) fn completion_code(printed: &str) -> Option<u8> {
    let (_, rest) = printed.split_once("rsp=0x")?;
    u8::from_str_radix(rest.split(')').next()?.trim(), 16).ok()
}

/// Explains a completion code (IPMI 2.0, table 5-2), with a remedy.
fn meaning(code: u8) -> &'static str {
    match code {
        0xc0 => "it is busy; raise `--meter-interval`",
        0xc1 => "it does not know the command, so it has no DCMI; try `redfish`",
        0xc3 => "it took too long",
        0xc7 | 0xc8 | 0xcc => "it does not know this form of the command; try `redfish`",
        0xcb => "it has no sensor for power",
        0xd4 => "the user may not ask that; give it the right OPERATOR",
        0xd5 => "not in its present state",
        _ => "see table 5-2 of IPMI 2.0",
    }
}

/// Parses ` dc 39 00` as numbers, at least one.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let words = text.split_whitespace();
    let parse = |word: &str| u8::from_str_radix(word, 16).ok().filter(|_| word.len() == 2);
    words.map(parse).collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty())
}

pub(crate) fn draw(bytes: &[u8], command: &str) -> Result<Power, IpmiError> {
    let command = command.to_owned();
    match *bytes {
        [found, ..] if found != GROUP => Err(IpmiError::Group { command, found }),
        [_, low, high, .., state] if bytes.len() == REPLY_LENGTH => {
            if state & ACTIVE == 0 {
                return Err(IpmiError::Inactive);
            }
            Ok(Power::from_watts(i64::from(u16::from_le_bytes([low, high]))))
        }
        _ => {
            let printed: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Err(IpmiError::Short { command, found: bytes.len(), printed: format!("`{}`", printed.join(" ")) })
        }
    }
}
