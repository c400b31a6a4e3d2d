//! What an operator writes to choose a meter: `powercap`, `hwmon:CHIP`, `hwmon:CHIP/CHANNEL` or `command:COMMAND`.

use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

use super::Meter;
use super::command::Command;
use super::hwmon::{Channel, Hwmon, Sensor};
use super::powercap::Powercap;

/// Which meter a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeterChoice {
    Powercap,
    Hwmon(Sensor),
    /// For `sh -c`.
    Command(String),
}

/// Why a choice was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChoiceError {
    #[error("there is no meter `{0}`: write `powercap`, `hwmon:CHIP`, `hwmon:CHIP/CHANNEL` or `command:COMMAND`")]
    Unknown(String),
    #[error("the meter `{0}` names no chip: write for example `hwmon:power_meter`; `lslave --probe` lists them")]
    NoChip(String),
    #[error("the meter `{meter}` has the channel `{channel}`: write `powerN`, `powerN_average` or `powerN_input`")]
    Channel { meter: String, channel: String },
    #[error("the meter `{0}` has no command: write for example `command:/usr/local/bin/watts`")]
    NoCommand(String),
}

impl MeterChoice {
    /// How the master knows it.
    pub fn kind(&self) -> limo_model::Meter {
        match self {
            Self::Powercap => limo_model::Meter::Powercap,
            Self::Hwmon(_) => limo_model::Meter::Hwmon,
            Self::Command(_) => limo_model::Meter::Command,
        }
    }

    /// The meter itself. Opens nothing: what is not there is told when it is read. `sysfs` is where sysfs is mounted.
    pub fn meter(&self, sysfs: &Path) -> Box<dyn Meter> {
        match self {
            Self::Powercap => Box::new(Powercap::new(sysfs)),
            Self::Hwmon(sensor) => Box::new(Hwmon::new(sysfs, sensor.clone())),
            Self::Command(command) => Box::new(Command::new(command)),
        }
    }
}

impl FromStr for MeterChoice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let text = text.trim();
        match text.split_once(':') {
            None if text == "powercap" => Ok(Self::Powercap),
            Some(("hwmon", sensor)) => {
                let (chip, channel) = sensor.split_once('/').unwrap_or((sensor, "power1"));
                if chip.is_empty() {
                    return Err(ChoiceError::NoChip(text.to_owned()));
                }
                let wrong = || ChoiceError::Channel { meter: text.to_owned(), channel: channel.to_owned() };
                let channel = Channel::parse(channel).ok_or_else(wrong)?;
                Ok(Self::Hwmon(Sensor { chip: chip.to_owned(), channel }))
            }
            Some(("command", command)) if command.trim().is_empty() => Err(ChoiceError::NoCommand(text.to_owned())),
            Some(("command", command)) => Ok(Self::Command(command.trim().to_owned())),
            _ => Err(ChoiceError::Unknown(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<MeterChoice, &str>) {
        let found: Result<MeterChoice, String> = text.parse().map_err(|error: ChoiceError| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn choices() {
        let hwmon = |chip: &str, channel| Ok(MeterChoice::Hwmon(Sensor { chip: chip.into(), channel }));
        check("powercap", Ok(MeterChoice::Powercap));
        check("hwmon:power_meter", hwmon("power_meter", Channel::Number(1)));
        check("hwmon:amdgpu/power2", hwmon("amdgpu", Channel::Number(2)));
        check("hwmon:amdgpu/power1_input", hwmon("amdgpu", Channel::File("power1_input".into())));
        check("command: watts --of n1:8", Ok(MeterChoice::Command("watts --of n1:8".into())));
        let ways = "write `powercap`, `hwmon:CHIP`, `hwmon:CHIP/CHANNEL` or `command:COMMAND`";
        check("rapl", Err(&format!("there is no meter `rapl`: {ways}")));
        check("hwmon", Err(&format!("there is no meter `hwmon`: {ways}")));
        check("powercap:0", Err(&format!("there is no meter `powercap:0`: {ways}")));
        check(
            "hwmon:",
            Err("the meter `hwmon:` names no chip: write for example `hwmon:power_meter`; `lslave --probe` lists them"),
        );
        let channels = "write `powerN`, `powerN_average` or `powerN_input`";
        check(
            "hwmon:x/temp1_input",
            Err(&format!("the meter `hwmon:x/temp1_input` has the channel `temp1_input`: {channels}")),
        );
        check(
            "hwmon:x/power1_cap",
            Err(&format!("the meter `hwmon:x/power1_cap` has the channel `power1_cap`: {channels}")),
        );
        check("command:", Err("the meter `command:` has no command: write for example `command:/usr/local/bin/watts`"));
    }

    #[test]
    fn kinds_are_written_in_lower_case() {
        for (text, kind) in [("powercap", "powercap"), ("hwmon:psu", "hwmon"), ("command:watts", "command")] {
            let choice: MeterChoice = text.parse().expect("a choice");
            assert_eq!(toml::Value::try_from(choice.kind()).expect("a value").as_str(), Some(kind));
        }
    }
}
