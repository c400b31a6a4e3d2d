//! The hardware of a node, as its daemon describes it.

use std::fmt;
use std::sync::Arc;

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
    /// Name, unique within the cluster; see [`crate::check_name`].
    pub name: String,
    /// Units, at least one; the order gives each unit its index.
    pub units: Vec<UnitSpec>,
    /// Memory for all jobs on it together.
    pub memory: Memory,
    /// Draw of the whole node without jobs.
    pub idle: Power,
    /// The source of its measured draw.
    pub meter: Meter,
    /// Sleep state, if the node can be switched off and on. Thousands of equal nodes may share it.
    pub rest: Option<Arc<Rest>>,
}

/// The sleep state of a node (energy-budget-2017, section II-B: the states of a processor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// Draw while it sleeps.
    pub draw: Power,
    /// The transition to sleep.
    pub down: Switch,
    /// The transition back.
    pub up: Switch,
    /// Way to wake the node; `None` for simulated nodes.
    #[serde(default)]
    pub wake: Option<Wake>,
}

/// A transition between awake and asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Duration of the transition; not negative.
    pub span: Span,
    /// Draw of the whole node during the transition.
    pub draw: Power,
}

/// An execution unit: the CPU of a node or one accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSpec {
    /// Name, unique within the node; see [`crate::check_name`].
    pub name: String,
    /// Type of the unit. Equal units share the profiles of their type.
    pub hardware: String,
    /// The kind, which decides how jobs share the unit.
    pub kind: UnitKind,
    /// Cores of a CPU; 1 for an accelerator, which serves one job at a time.
    pub cores: u32,
    /// Draw above idle with the unit fully used, from its nameplate. This is the estimate if no profile exists.
    pub nameplate: Power,
    /// The lowest and highest cap that the unit obeys, if it can be capped.
    pub caps: Option<(Power, Power)>,
}

/// The kind of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitKind {
    /// All cores of a node together, which jobs share.
    Cpu,
    /// One device, such as a GPU, which serves one job at a time.
    Accelerator,
}

/// The source of a node's measured draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meter {
    /// No meter: the core adds up estimates.
    None,
    /// A model of emulated hardware.
    Emulated,
    /// The energy counters of the processors (RAPL), through Linux powercap.
    Powercap,
    /// A sensor of Linux hwmon.
    Hwmon,
    /// The output of a command.
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

/// The hold of a node on the processes of its jobs. It is weak without control groups: a process that leaves its session
/// and its environment outlives its job, and no limit is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Containment {
    /// True if each job has a control group.
    pub groups: bool,
    /// True if a job gets no more memory than it requested.
    pub memory: bool,
    /// True if a job gets no more CPU time than its cores have.
    pub cpu: bool,
    /// True if the number of processes and threads of a job is limited.
    pub processes: bool,
}

impl Containment {
    /// Control groups with all limits.
    pub const FULL: Self = Self { groups: true, memory: true, cpu: true, processes: true };
}

/// Continues a line that begins with the name of a node.
impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.groups {
            return f.write_str("weak containment: jobs can leave processes behind; memory and cores are not enforced");
        }
        let limits = [("memory", self.memory), ("cores", self.cpu), ("processes", self.processes)];
        let missing: Vec<&str> = limits.into_iter().filter(|(_, has)| !has).map(|(name, _)| name).collect();
        match missing.join(", ") {
            none if none.is_empty() => f.write_str("each job has a control group"),
            missing => write!(f, "each job has a control group, without limits of: {missing}"),
        }
    }
}

/// Most units of a node: more than any machine has. Bounds the memory that one node can use at the master.
const UNIT_LIMIT: usize = 64;
/// Most cores of one unit.
pub const CORE_LIMIT: u32 = 65_536;

/// Reason for refusing a node's description.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SpecError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("node `{node}` has {units} units: it must have 1 to {UNIT_LIMIT}")]
    Units { node: String, units: usize },
    #[error("node `{node}` has two units named `{unit}`")]
    SameUnit { node: String, unit: String },
    #[error("unit `{unit}` has {cores} cores: it must have 1 to {CORE_LIMIT}")]
    Cores { unit: String, cores: u32 },
    #[error("accelerator `{unit}` has {cores} cores: an accelerator counts as 1")]
    Divisible { unit: String, cores: u32 },
    #[error("{what} of `{name}` is negative: {value}")]
    Negative { what: &'static str, name: String, value: Power },
    #[error("node `{node}` has the negative switching time {span}")]
    SwitchTime { node: String, span: Span },
    #[error("the caps of unit `{unit}` are crossed: {low} is above {high}")]
    Caps { unit: String, low: Power, high: Power },
}

impl NodeSpec {
    /// Returns its sleep state, if it can be switched off and on.
    pub fn rest(&self) -> Option<Rest> {
        self.rest.as_deref().copied()
    }

    /// Checks the description.
    ///
    /// # Errors
    /// [`SpecError`], naming the first invalid value.
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

    /// Returns the unit with that name.
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

    #[test]
    fn missing_limits_are_named() {
        let check = |containment: Containment, expected: &str| assert_eq!(containment.to_string(), expected);
        check(
            Containment::default(),
            "weak containment: jobs can leave processes behind; memory and cores are not enforced",
        );
        check(Containment::FULL, "each job has a control group");
        let partly = Containment { memory: false, processes: false, ..Containment::FULL };
        check(partly, "each job has a control group, without limits of: memory, processes");
    }

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
        check(|n| n.units.clear(), "node `n1` has 0 units: it must have 1 to 64");
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
