//! Parses an operator's choice of a meter: its kind, and its address after a colon.

use std::str::FromStr;

use thiserror::Error;

use super::Meter;
use super::command::Command;
use super::hwmon::{Channel, Hwmon, Sensor};
use super::ipmi::Ipmi;
use super::mcp39f511::{Chip, Mcp39f511, Wattmeter};
use super::nvidia_smi::NvidiaSmi;
use super::nvml::Nvml;
use super::powercap::Powercap;
use super::redfish::Redfish;
use super::shelly::Shelly;
use super::sum::Sum;
use super::tasmota::Tasmota;
use crate::http::{HttpError, check_url};
use crate::site::Site;

/// Meter of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeterChoice {
    /// Intel's and AMD's energy counters, through powercap.
    Powercap,
    /// A power sensor of the board, through hwmon.
    Hwmon(Sensor),
    /// Command for `sh -c`.
    Command(String),
    /// Arguments of `ipmitool` that select the controller.
    Ipmi(Vec<String>),
    /// The address of a chassis.
    Redfish(String),
    /// `switch` counts from 0.
    Shelly {
        /// Address, `http://` or `https://`.
        url: String,
        /// Number of the switch that supplies the node.
        switch: u32,
    },
    /// `channel` counts from 1.
    Tasmota {
        /// Address, `http://` or `https://`.
        url: String,
        /// Channel; required only if the plug has several.
        channel: Option<u32>,
    },
    /// A wattmeter of Microchip on a serial line.
    Mcp39f511(Wattmeter),
    /// All GPUs of NVIDIA, through their driver's library.
    Nvml,
    /// All GPUs of NVIDIA, through NVIDIA's program.
    NvidiaSmi,
    /// Two or more meters for different parts of the machine.
    Sum(Vec<MeterChoice>),
}

/// Reason why a choice was refused.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ChoiceError {
    #[error(
        "there is no meter `{0}`: write `powercap`, `hwmon:CHIP[/CHANNEL]`, `command:COMMAND`, `ipmi[:ARGUMENTS]`, \
         `redfish:URL`, `shelly:URL[#SWITCH]`, `tasmota:URL[#CHANNEL]`, `mcp39f511:DEVICE`, \
         `mcp39f511n:DEVICE[/CHANNEL]`, `nvml`, `nvidia-smi` or a sum such as `powercap+nvml`"
    )]
    Unknown(String),
    #[error("the meter `{0}` names no chip: write for example `hwmon:power_meter`; `lslave --probe` lists them")]
    NoChip(String),
    #[error("the meter `{meter}` has the channel `{channel}`: write `powerN`, `powerN_average` or `powerN_input`")]
    Channel { meter: String, channel: String },
    #[error("the meter `{0}` has no command: write for example `command:/usr/local/bin/watts`")]
    NoCommand(String),
    #[error("the meter `{0}` has a quote that is not closed")]
    Quote(String),
    #[error(
        "all users can see a password in the arguments of ipmitool: write it into a file and `-f FILE` instead of `{0}`"
    )]
    Password(String),
    #[error(transparent)]
    Url(#[from] HttpError),
    #[error("the meter `{meter}` has `{found}` after `#`: write a whole number from {lowest} on")]
    Number { meter: String, found: String, lowest: u32 },
    #[error("the meter `{meter}` names no device{hint}: write for example `{scheme}:/dev/ttyACM0`")]
    Device { meter: String, scheme: &'static str, hint: &'static str },
}

impl MeterChoice {
    /// Returns the kind for the master; for a sum, the kind of its first part.
    pub fn kind(&self) -> limo_model::Meter {
        match self {
            Self::Powercap => limo_model::Meter::Powercap,
            Self::Hwmon(_) => limo_model::Meter::Hwmon,
            Self::Command(_) => limo_model::Meter::Command,
            Self::Ipmi(_) => limo_model::Meter::Ipmi,
            Self::Redfish(_) => limo_model::Meter::Redfish,
            Self::Shelly { .. } => limo_model::Meter::Shelly,
            Self::Tasmota { .. } => limo_model::Meter::Tasmota,
            Self::Mcp39f511(_) => limo_model::Meter::Mcp39f511,
            Self::Nvml | Self::NvidiaSmi => limo_model::Meter::Nvml,
            Self::Sum(parts) => parts.first().map_or(limo_model::Meter::None, Self::kind),
        }
    }

    /// Makes the meter. Opens nothing: a missing device is reported on use.
    pub fn meter(&self, site: &Site) -> Box<dyn Meter> {
        match self {
            Self::Powercap => Box::new(Powercap::new(&site.sysfs)),
            Self::Hwmon(sensor) => Box::new(Hwmon::new(&site.sysfs, sensor.clone())),
            Self::Command(command) => Box::new(Command::new(command)),
            Self::Ipmi(arguments) => Box::new(Ipmi::new(arguments.clone())),
            Self::Redfish(chassis) => Box::new(Redfish::new(chassis, &site.access)),
            Self::Shelly { url, switch } => Box::new(Shelly::new(url, *switch, &site.access)),
            Self::Tasmota { url, channel } => Box::new(Tasmota::new(url, *channel, &site.access)),
            Self::Mcp39f511(wattmeter) => Box::new(Mcp39f511::new(wattmeter.clone(), site.interval)),
            Self::Nvml => Box::new(Nvml::new(&site.nvml)),
            Self::NvidiaSmi => Box::new(NvidiaSmi::new(&site.nvidia_smi)),
            Self::Sum(parts) => Box::new(Sum::new(parts.iter().map(|part| part.meter(site)).collect())),
        }
    }
}

impl FromStr for MeterChoice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let (mut summed, mut rest) = (Vec::new(), text);
        while let Some((first, others)) = first_part(rest) {
            summed.push(single(first)?);
            rest = others;
        }
        let last = single(rest)?;
        if summed.is_empty() {
            return Ok(last);
        }
        summed.push(last);
        Ok(Self::Sum(summed))
    }
}

/// Parses a meter that is not a sum.
fn single(text: &str) -> Result<MeterChoice, ChoiceError> {
    let text = text.trim();
    match text.split_once(':') {
        None if text == "powercap" => Ok(MeterChoice::Powercap),
        None if text == "nvml" => Ok(MeterChoice::Nvml),
        None if text == "nvidia-smi" => Ok(MeterChoice::NvidiaSmi),
        None if text == "ipmi" => Ok(MeterChoice::Ipmi(Vec::new())),
        Some(("hwmon", sensor)) => hwmon(text, sensor),
        Some(("command", command)) if command.trim().is_empty() => Err(ChoiceError::NoCommand(text.to_owned())),
        Some(("command", command)) => Ok(MeterChoice::Command(command.trim().to_owned())),
        Some(("ipmi", arguments)) => ipmi(arguments),
        Some(("redfish", url)) => Ok(MeterChoice::Redfish(address(url)?)),
        Some(("shelly", url)) => {
            let (url, switch) = numbered(text, url, 0)?;
            Ok(MeterChoice::Shelly { url, switch: switch.unwrap_or(0) })
        }
        Some(("tasmota", url)) => {
            let (url, channel) = numbered(text, url, 1)?;
            Ok(MeterChoice::Tasmota { url, channel })
        }
        Some(("mcp39f511", device)) => wattmeter(text, Chip::One, device),
        Some(("mcp39f511n", device)) => wattmeter(text, Chip::Two, device),
        _ => Err(ChoiceError::Unknown(text.to_owned())),
    }
}

/// Splits the first part from a sum. A part that may contain a plus, such as a command or an address, comes last.
fn first_part(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('+')?;
    let kind = first.split(':').next().unwrap_or_default().trim();
    ["powercap", "hwmon", "nvml", "nvidia-smi"].contains(&kind).then_some((first, rest))
}

fn hwmon(text: &str, sensor: &str) -> Result<MeterChoice, ChoiceError> {
    let (chip, channel) = sensor.split_once('/').unwrap_or((sensor, "power1"));
    if chip.is_empty() {
        return Err(ChoiceError::NoChip(text.to_owned()));
    }
    let wrong = || ChoiceError::Channel { meter: text.to_owned(), channel: channel.to_owned() };
    let channel = Channel::parse(channel).ok_or_else(wrong)?;
    Ok(MeterChoice::Hwmon(Sensor { chip: chip.to_owned(), channel }))
}

pub(crate) fn ipmi(arguments: &str) -> Result<MeterChoice, ChoiceError> {
    let words = shell_words::split(arguments).map_err(|_| ChoiceError::Quote(format!("ipmi:{arguments}")))?;
    // `-Psecret` is equivalent. The shown part ends before the password.
    match words.iter().position(|word| word.starts_with("-P")) {
        Some(at) => Err(ChoiceError::Password(format!("ipmi:{}", words[..at].join(" ")))),
        None => Ok(MeterChoice::Ipmi(words)),
    }
}

/// Removes a trailing slash.
fn address(url: &str) -> Result<String, ChoiceError> {
    let url = url.trim().trim_end_matches('/');
    check_url(url)?;
    Ok(url.to_owned())
}

/// Parses an address, and the number after its `#`.
fn numbered(meter: &str, text: &str, lowest: u32) -> Result<(String, Option<u32>), ChoiceError> {
    let Some((url, number)) = text.rsplit_once('#') else { return Ok((address(text)?, None)) };
    let url = address(url)?;
    match number.parse() {
        Ok(number) if number >= lowest => Ok((url, Some(number))),
        _ => Err(ChoiceError::Number { meter: meter.to_owned(), found: number.to_owned(), lowest }),
    }
}

fn wattmeter(meter: &str, chip: Chip, device: &str) -> Result<MeterChoice, ChoiceError> {
    let hint = match chip {
        Chip::One if device.ends_with("/2") => " of this chip, which has one channel; the one with two is `mcp39f511n`",
        _ => "",
    };
    let wrong = || ChoiceError::Device { meter: meter.to_owned(), scheme: chip.scheme(), hint };
    Wattmeter::parse(chip, device).map(MeterChoice::Mcp39f511).ok_or_else(wrong)
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
        for unknown in ["rapl", "hwmon", "powercap:0", "redfish", "nvml:0", ""] {
            let error = unknown.parse::<MeterChoice>().expect_err("no choice").to_string();
            let expected = format!("there is no meter `{unknown}`: write `powercap`, `hwmon:CHIP[/CHANNEL]`, ");
            assert!(error.starts_with(&expected), "{error}");
        }
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
    fn devices_elsewhere() {
        let words = |words: &[&str]| Ok(MeterChoice::Ipmi(words.iter().map(|word| (*word).to_owned()).collect()));
        check("ipmi", words(&[]));
        check("ipmi:-I lanplus -f '/etc/limo/a b'", words(&["-I", "lanplus", "-f", "/etc/limo/a b"]));
        check("ipmi:-H 'bmc1", Err("the meter `ipmi:-H 'bmc1` has a quote that is not closed"));
        let password =
            "all users can see a password in the arguments of ipmitool: write it into a file and `-f FILE` instead of";
        check("ipmi:-H bmc1 -P secret", Err(&format!("{password} `ipmi:-H bmc1`")));
        check("ipmi:-Psecret -H bmc1", Err(&format!("{password} `ipmi:`")));
        let url = "http://plug7";
        check("redfish:https://bmc1/redfish/v1/Chassis/1/", {
            Ok(MeterChoice::Redfish("https://bmc1/redfish/v1/Chassis/1".into()))
        });
        check("shelly:http://plug7", Ok(MeterChoice::Shelly { url: url.into(), switch: 0 }));
        check("shelly:http://plug7/#3", Ok(MeterChoice::Shelly { url: url.into(), switch: 3 }));
        check("tasmota:http://plug7", Ok(MeterChoice::Tasmota { url: url.into(), channel: None }));
        check("tasmota:http://plug7#2", Ok(MeterChoice::Tasmota { url: url.into(), channel: Some(2) }));
        let number = "after `#`: write a whole number from";
        check("shelly:http://p#a", Err(&format!("the meter `shelly:http://p#a` has `a` {number} 0 on")));
        check("tasmota:http://p#0", Err(&format!("the meter `tasmota:http://p#0` has `0` {number} 1 on")));
        check(
            "shelly:plug7",
            Err("`plug7` is not an address of a device: it must begin `http://` or `https://`; write for example \
                 `https://bmc1/redfish/v1/Chassis/1`"),
        );
    }

    #[test]
    fn sums() {
        let command = || MeterChoice::Command("cat a+b".into());
        check("powercap + nvml", Ok(MeterChoice::Sum(vec![MeterChoice::Powercap, MeterChoice::Nvml])));
        let three = vec![MeterChoice::Powercap, MeterChoice::NvidiaSmi, command()];
        check("powercap+nvidia-smi+command:cat a+b", Ok(MeterChoice::Sum(three)));
        check("command:cat a+b", Ok(command()));
        for (text, unknown) in [("powercap+", ""), ("nvml+watts", "watts"), ("+nvml", "+nvml")] {
            let error = text.parse::<MeterChoice>().expect_err("no choice").to_string();
            assert!(error.starts_with(&format!("there is no meter `{unknown}`: ")), "{error}");
        }
    }

    #[test]
    fn serial_lines() {
        let wattmeter =
            |chip, path: &str, channel| Ok(MeterChoice::Mcp39f511(Wattmeter { chip, path: path.into(), channel }));
        check("mcp39f511:/dev/ttyACM0", wattmeter(Chip::One, "/dev/ttyACM0", None));
        check("mcp39f511n:/dev/ttyACM1/2", wattmeter(Chip::Two, "/dev/ttyACM1", Some(2)));
        check(
            "mcp39f511n:ttyACM0",
            Err("the meter `mcp39f511n:ttyACM0` names no device: write for example `mcp39f511n:/dev/ttyACM0`"),
        );
        check(
            "mcp39f511:/dev/ttyACM0/2",
            Err(
                "the meter `mcp39f511:/dev/ttyACM0/2` names no device of this chip, which has one channel; the one with \
                 two is `mcp39f511n`: write for example `mcp39f511:/dev/ttyACM0`",
            ),
        );
    }

    #[test]
    fn kinds_are_written_in_lower_case() {
        for (text, kind) in [
            ("powercap", "powercap"),
            ("hwmon:psu", "hwmon"),
            ("command:watts", "command"),
            ("ipmi", "ipmi"),
            ("redfish:http://b", "redfish"),
            ("shelly:http://p", "shelly"),
            ("tasmota:http://p", "tasmota"),
            ("mcp39f511n:/dev/ttyACM0", "mcp39f511"),
            ("nvidia-smi", "nvml"),
            ("powercap+nvml", "powercap"),
        ] {
            let choice: MeterChoice = text.parse().expect("a choice");
            assert_eq!(toml::Value::try_from(choice.kind()).expect("a value").as_str(), Some(kind));
        }
    }
}
