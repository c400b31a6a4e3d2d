//! TOML of a hardware file. Every quantity is text with its unit; unknown keys are errors.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use limo_model::{Digest, Memory, Meter, NodeSpec, Power, Span, SpecError, UnitKind, UnitSpec, check_name};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::error::{HardwareError, Mistake};
use crate::machine::{Application, EmulatedUnit, Hardware, Machine};
use crate::percent::Percent;

/// A quantity as text with its unit.
#[derive(Debug, Clone, Copy)]
struct Text<T>(T);

impl<'de, T> Deserialize<'de> for Text<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        limo_model::as_text::deserialize(deserializer).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HardwareFile {
    #[serde(default)]
    machine: Vec<Spanned<MachineText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineText {
    name: String,
    /// Default number of cores of its CPUs.
    cores: Option<u32>,
    memory: Text<Memory>,
    idle: Text<Power>,
    seed: Option<u64>,
    reading_noise: Option<Text<Percent>>,
    #[serde(default)]
    unit: Vec<Spanned<UnitText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitText {
    name: String,
    hardware: String,
    kind: UnitKind,
    cores: Option<u32>,
    nameplate: Text<Power>,
    caps: Option<[Text<Power>; 2]>,
    cap_factor: Option<f64>,
    power_noise: Option<Text<Percent>>,
    duration_noise: Option<Text<Percent>>,
    #[serde(default)]
    application: BTreeMap<String, Spanned<ApplicationText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationText {
    power: Text<Power>,
    duration: Text<Span>,
}

impl Hardware {
    /// Parses `text`; errors name `path`.
    ///
    /// # Errors
    /// [`HardwareError`], naming the line and the value.
    pub fn parse(path: &Path, text: &str) -> Result<Self, HardwareError> {
        let at = |start: usize, mistake: Mistake| {
            let line = 1 + text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count();
            HardwareError::At { path: path.to_owned(), line, mistake }
        };
        let file: HardwareFile = toml::from_str(text).map_err(|error: toml::de::Error| {
            at(error.span().map_or(0, |span| span.start), Mistake::Syntax(error.message().to_owned()))
        })?;
        let mut machines: Vec<Machine> = Vec::new();
        for machine in file.machine {
            let start = machine.span().start;
            let machine = machine.into_inner().check(start).map_err(|(start, mistake)| at(start, mistake))?;
            if machines.iter().any(|other| other.spec.name == machine.spec.name) {
                return Err(at(start, Mistake::SameMachine(machine.spec.name)));
            }
            machines.push(machine);
        }
        if machines.is_empty() {
            return Err(HardwareError::Empty { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), machines })
    }
}

/// Byte at which the section begins, and the mistake in it.
type Misplaced = (usize, Mistake);

impl MachineText {
    fn check(self, start: usize) -> Result<Machine, Misplaced> {
        let mut specs: Vec<UnitSpec> = Vec::new();
        let mut units = Vec::new();
        for unit in self.unit {
            let unit_start = unit.span().start;
            let (spec, unit) = unit.into_inner().check(unit_start, self.cores)?;
            if specs.iter().any(|other| other.name == spec.name) {
                let mistake = SpecError::SameUnit { node: self.name, unit: spec.name };
                return Err((unit_start, mistake.into()));
            }
            specs.push(spec);
            units.push(unit);
        }
        let spec = NodeSpec {
            name: self.name,
            units: specs,
            memory: self.memory.0,
            idle: self.idle.0,
            meter: Meter::Emulated,
            rest: None,
        };
        spec.check().map_err(|error| (start, error.into()))?;
        let seed = self.seed.unwrap_or_else(|| Digest::new().with(spec.name.as_bytes()).value());
        Ok(Machine { spec, units, seed, reading_noise: percent(self.reading_noise) })
    }
}

fn percent(text: Option<Text<Percent>>) -> Percent {
    text.map_or(Percent::default(), |text| text.0)
}

impl UnitText {
    fn check(self, start: usize, machine_cores: Option<u32>) -> Result<(UnitSpec, EmulatedUnit), Misplaced> {
        let wrong = |mistake| Err((start, mistake));
        let cores = match (self.kind, self.cores) {
            (_, Some(cores)) => cores,
            (UnitKind::Accelerator, None) => 1,
            (UnitKind::Cpu, None) => match machine_cores {
                Some(cores) => cores,
                None => return wrong(Mistake::NoCores { unit: self.name }),
            },
        };
        let caps = self.caps.map(|[low, high]| (low.0, high.0));
        let factor = match (self.cap_factor, caps) {
            (Some(_), None) => return wrong(Mistake::NoCaps { unit: self.name }),
            (Some(factor), _) => factor,
            // The worst case in the paper: half the power doubles the time.
            (None, _) => 1.0,
        };
        let permille = (factor * 1000.0).round();
        if !(1.0..=1000.0).contains(&permille) {
            return wrong(Mistake::CapFactor { unit: self.name, factor: factor.to_string() });
        }
        if let Some((low, _)) = caps.filter(|(low, _)| *low <= Power::ZERO) {
            return wrong(Mistake::LowCap { unit: self.name, low });
        }
        let mut applications = BTreeMap::new();
        for (name, application) in self.application {
            let at = application.span().start;
            let application = application.into_inner().check(&name).map_err(|mistake| (at, mistake))?;
            applications.insert(name, application);
        }
        let unit = EmulatedUnit {
            // Checked above to be within 1 to 1000.
            cap_factor_permille: permille as u32,
            power_noise: percent(self.power_noise),
            duration_noise: percent(self.duration_noise),
            applications,
        };
        let nameplate = self.nameplate.0;
        Ok((UnitSpec { name: self.name, hardware: self.hardware, kind: self.kind, cores, nameplate, caps }, unit))
    }
}

impl ApplicationText {
    fn check(self, name: &str) -> Result<Application, Mistake> {
        let (application, size) = name.split_once('/').map_or((name, None), |(name, size)| (name, Some(size)));
        check_name("application", application)?;
        if let Some(size) = size {
            check_name("size class", size)?;
        }
        let (power, duration) = (self.power.0, self.duration.0);
        if power < Power::ZERO {
            return Err(Mistake::Power { application: name.to_owned(), power });
        }
        if duration <= Span::ZERO {
            return Err(Mistake::Duration { application: name.to_owned(), duration });
        }
        Ok(Application { power, duration })
    }
}
