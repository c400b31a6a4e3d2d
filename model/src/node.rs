//! What a node is made of, as its daemon describes it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{NameError, check_name};
use crate::memory::Memory;
use crate::time::Span;
use crate::units::Power;
use crate::wake::Wake;

/// A machine with one `lslave`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Unique within the cluster; see [`crate::check_name`].
    pub name: String,
    /// At least one; the order gives each unit its index.
    pub units: Vec<UnitSpec>,
    /// What the jobs on it may have together.
    pub memory: Memory,
    /// Draw of the whole node with no job on it.
    pub idle: Power,
    /// What its draw is known from.
    pub meter: Meter,
    /// How it sleeps, where it can be switched off and on.
    pub rest: Option<Rest>,
}

/// How a node sleeps (energy-budget-2017, section II-B: the states of a processor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// Draw while it sleeps.
    pub draw: Power,
    /// On the way to sleep.
    pub down: Switch,
    /// On the way back.
    pub up: Switch,
    /// `None` for simulated nodes.
    #[serde(default)]
    pub wake: Option<Wake>,
}

/// A change between awake and asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// How long it takes; not negative.
    pub span: Span,
    /// Draw of the whole node meanwhile.
    pub draw: Power,
}

/// An execution unit: the CPU of a node or one accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSpec {
    /// Unique within the node; see [`crate::check_name`].
    pub name: String,
    /// The type by which profiles are shared between equal units.
    pub hardware: String,
    /// What it is, which decides how jobs share it.
    pub kind: UnitKind,
    /// Cores of a CPU; 1 for an accelerator, which one job has to itself.
    pub cores: u32,
    /// Draw above idle with the unit fully used, from its nameplate: the estimate where no profile exists.
    pub nameplate: Power,
    /// The lowest and highest cap that the unit obeys, where it can be capped.
    pub caps: Option<(Power, Power)>,
}

/// What a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitKind {
    /// All cores of a node together, which jobs share.
    Cpu,
    /// One device, such as a GPU, which a job has to itself.
    Accelerator,
}

/// Where a node's watts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meter {
    /// No meter: the core adds up estimates.
    None,
    /// Modelled by emulated hardware.
    Emulated,
    /// The energy counters of the processors (RAPL), through Linux powercap.
    Powercap,
    /// A sensor of Linux hwmon.
    Hwmon,
    /// What a command prints.
    Command,
    /// The machine's management controller, by IPMI DCMI.
    Ipmi,
    /// The machine's management controller, by Redfish.
    Redfish,
    /// A plug of Shelly.
    Shelly,
    /// A plug with Tasmota.
    Tasmota,
    /// A wattmeter on USB with the chip MCP39F511 or MCP39F511N.
    Mcp39f511,
    /// The accelerators of NVIDIA, through their driver.
    Nvml,
    /// A wattmeter at the master, which serves this node among others.
    Shared,
}

/// More units than any machine has; bounds what one node can make the master keep.
const UNIT_LIMIT: usize = 64;
/// Cores that one unit can have.
pub const CORE_LIMIT: u32 = 65_536;

/// Why a node's description was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SpecError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("node `{node}` has {units} units: 1 to {UNIT_LIMIT} are possible")]
    Units { node: String, units: usize },
    #[error("node `{node}` has two units named `{unit}`")]
    SameUnit { node: String, unit: String },
    #[error("unit `{unit}` has {cores} cores: 1 to {CORE_LIMIT} are possible")]
    Cores { unit: String, cores: u32 },
    #[error("accelerator `{unit}` has {cores} cores: an accelerator counts as 1")]
    Divisible { unit: String, cores: u32 },
    #[error("{what} of `{name}` is negative: {value}")]
    Negative { what: &'static str, name: String, value: Power },
    #[error("node `{node}` needs {span} to go to sleep or to wake: not before now")]
    SwitchTime { node: String, span: Span },
    #[error("the caps of unit `{unit}` are crossed: {low} is above {high}")]
    Caps { unit: String, low: Power, high: Power },
}

impl NodeSpec {
    /// # Errors
    /// [`SpecError`], naming the first thing that cannot be.
    pub fn check(&self) -> Result<(), SpecError> {
        check_name("node name", &self.name)?;
        if self.units.is_empty() || self.units.len() > UNIT_LIMIT {
            return Err(SpecError::Units { node: self.name.clone(), units: self.units.len() });
        }
        if self.idle < Power::ZERO {
            return Err(SpecError::Negative { what: "idle draw", name: self.name.clone(), value: self.idle });
        }
        if let Some(rest) = &self.rest {
            rest.check(&self.name)?;
        }
        for (index, unit) in self.units.iter().enumerate() {
            unit.check()?;
            if self.units[..index].iter().any(|other| other.name == unit.name) {
                return Err(SpecError::SameUnit { node: self.name.clone(), unit: unit.name.clone() });
            }
        }
        Ok(())
    }

    /// The unit of that name.
    pub fn unit(&self, name: &str) -> Option<&UnitSpec> {
        self.units.iter().find(|unit| unit.name == name)
    }
}

impl Rest {
    fn check(&self, node: &str) -> Result<(), SpecError> {
        let draws = [
            ("sleeping draw", self.draw),
            ("draw on the way to sleep", self.down.draw),
            ("draw while waking", self.up.draw),
        ];
        if let Some((what, value)) = draws.into_iter().find(|(_, draw)| *draw < Power::ZERO) {
            return Err(SpecError::Negative { what, name: node.to_owned(), value });
        }
        match [self.down.span, self.up.span].into_iter().find(|span| *span < Span::ZERO) {
            Some(span) => Err(SpecError::SwitchTime { node: node.to_owned(), span }),
            None => Ok(()),
        }
    }
}

impl UnitSpec {
    fn check(&self) -> Result<(), SpecError> {
        check_name("unit name", &self.name)?;
        check_name("hardware", &self.hardware)?;
        let unit = || self.name.clone();
        if self.cores == 0 || self.cores > CORE_LIMIT {
            return Err(SpecError::Cores { unit: unit(), cores: self.cores });
        }
        if self.kind == UnitKind::Accelerator && self.cores != 1 {
            return Err(SpecError::Divisible { unit: unit(), cores: self.cores });
        }
        if self.nameplate < Power::ZERO {
            return Err(SpecError::Negative { what: "nameplate draw", name: unit(), value: self.nameplate });
        }
        match self.caps {
            Some((low, _)) if low < Power::ZERO => Err(SpecError::Negative { what: "cap", name: unit(), value: low }),
            Some((low, high)) if low > high => Err(SpecError::Caps { unit: unit(), low, high }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeSpec {
        let cpu = UnitSpec {
            name: "cpu".into(),
            hardware: "xeon".into(),
            kind: UnitKind::Cpu,
            cores: 8,
            nameplate: Power::from_watts(60),
            caps: None,
        };
        let gpu = UnitSpec { name: "gpu".into(), kind: UnitKind::Accelerator, cores: 1, ..cpu.clone() };
        NodeSpec {
            name: "n1".into(),
            units: vec![cpu, gpu],
            memory: Memory::from_bytes(1 << 30),
            idle: Power::from_watts(15),
            meter: Meter::None,
            rest: None,
        }
    }

    fn check(change: impl FnOnce(&mut NodeSpec), expected: &str) {
        let mut node = node();
        change(&mut node);
        assert_eq!(node.check().map_err(|e| e.to_string()), Err(expected.to_owned()));
    }

    #[test]
    fn refusals() {
        assert_eq!(node().check(), Ok(()));
        check(|n| n.units.clear(), "node `n1` has 0 units: 1 to 64 are possible");
        check(|n| n.units[1].name = "cpu".into(), "node `n1` has two units named `cpu`");
        check(|n| n.units[1].cores = 2, "accelerator `gpu` has 2 cores: an accelerator counts as 1");
        check(|n| n.idle = Power::from_watts(-1), "idle draw of `n1` is negative: -1.0 W");
        check(
            |n| n.units[0].caps = Some((Power::from_watts(9), Power::from_watts(8))),
            "the caps of unit `cpu` are crossed: 9.0 W is above 8.0 W",
        );
        check(
            |n| n.name = "a b".into(),
            "the node name `a b` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed",
        );
    }
}
