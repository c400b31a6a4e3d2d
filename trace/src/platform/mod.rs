//! Cluster for a simulation: groups of equal nodes with their cores, draws and sleep.
//!
//! [`Platform::read`] reads Limo's own TOML; [`Platform::taurus`] is the cluster of energy-budget-2017. Has no state of
//! nodes.

mod file;
mod unit;
mod variation;

use limo_model::{Memory, NameError, NodeId, Power, Span, UnitKind, check_name};
use thiserror::Error;

pub use file::PlatformFileError;
pub use unit::{Run, Unit};
pub use variation::{GroupVariation, NodeValues, Quality};

/// Most nodes of a platform.
pub const NODE_LIMIT: u32 = 1_000_000;
/// Most cores of a node, as for a live master.
pub const CORE_LIMIT: u32 = 4_096;

/// Cluster. Its nodes are numbered across its groups, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Groups, at least one.
    pub groups: Vec<Group>,
}

/// Equal nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Names of the nodes, unique in a platform.
    pub names: Names,
    /// Number of nodes, at least 1.
    pub count: u32,
    /// Cores of each node, 1 to [`CORE_LIMIT`]; the sum over all of its units.
    pub cores: u32,
    /// Memory of each node, if known.
    pub memory: Option<Memory>,
    /// Type for the profiles of nodes without [`Group::units`].
    pub hardware: String,
    /// Units of each node, if they differ or can be capped; otherwise the cores are one CPU without caps.
    pub units: Vec<Unit>,
    /// True draw of a node.
    pub draw: Draw,
    /// Draw of a node as the scheduler believes it to be.
    pub believed: Draw,
    /// Draws and times of sleep, if the nodes can sleep.
    pub rest: Option<Rest>,
    /// Time from the assignment of a job until its begin on an awake node; not negative.
    pub start_delay: Span,
    /// Differences between its nodes, if there are any.
    pub variation: Option<GroupVariation>,
}

/// Names of the nodes of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// One node with that name.
    One(String),
    /// The prefix with a number from 1, of at least four digits: `n0001`.
    Numbered(String),
    /// One name for each node.
    Listed(Vec<String>),
}

/// Draw of a node that is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Draw without jobs; not negative.
    pub idle: Power,
    /// Draw with all cores busy; not below `idle`.
    pub busy: Power,
}

/// Draw of a node while it is off or switching, and the times of switching. No value is negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// Draw while the node is off.
    pub draw: Power,
    /// Time from on to off.
    pub down_time: Span,
    /// Draw during [`Rest::down_time`].
    pub down_draw: Power,
    /// Time from off to on.
    pub up_time: Span,
    /// Draw during [`Rest::up_time`].
    pub up_draw: Power,
}

/// Reason why a group is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PlatformError {
    #[error("the platform has no nodes: write at least one `[[nodes]]`")]
    NoGroups,
    #[error("`count` is {count}: it must be 1 to {NODE_LIMIT}")]
    Count { count: u32 },
    #[error("the platform has {count} nodes; the limit is {NODE_LIMIT}")]
    TooMany { count: u64 },
    #[error("`count` is {count}, but `name` lists {names}: remove `count`")]
    Listed { count: u32, names: usize },
    #[error("`cores` is {cores}: it must be 1 to {CORE_LIMIT}")]
    Cores { cores: u32 },
    #[error("`{key}` is negative: {value}")]
    NegativeDraw { key: &'static str, value: Power },
    #[error("`{key}` is negative: {value}")]
    NegativeTime { key: &'static str, value: Span },
    #[error("`{busy_key}` is {busy}, below `{idle_key}` with {idle}: a busy node cannot draw less than an idle one")]
    Crossed { idle_key: &'static str, busy_key: &'static str, idle: Power, busy: Power },
    #[error("`{key}` and `[[nodes.unit]]`, which has it for each unit, exclude each other: remove `{key}`")]
    Twofold { key: &'static str },
    #[error("there is no `busy`: give the draw with all cores busy, or the units (`[[nodes.unit]]`)")]
    NoBusy,
    #[error("unit `{unit}` has no `cores`: add them there or in `[[nodes]]`")]
    NoCores { unit: String },
    #[error("accelerator `{unit}` has {cores} cores: an accelerator counts as 1")]
    Divisible { unit: String, cores: u32 },
    #[error("there is a `cap-factor` without `caps`: add the lowest and the highest cap")]
    NoCaps,
    #[error("the lowest cap of unit `{unit}` is {low}: it must be above 0 W")]
    LowCap { unit: String, low: Power },
    #[error("the caps of unit `{unit}` are crossed: {low} is above {high}")]
    CrossedCaps { unit: String, low: Power, high: Power },
    #[error(
        "application `{application}` on unit `{unit}` draws {power} for {duration}: the power must not be negative, and the duration must be above 0 s"
    )]
    Run { application: String, unit: String, power: Power, duration: Span },
    #[error(
        "`{key}` has `{value}`, which is no positive value or range: write for example \"triangular 107 W..124 W\", \"uniform 0.9..1.1\", or a list with a value for each node"
    )]
    Variation { key: &'static str, value: String },
    #[error("`{key}` lists {values} values for {count} nodes")]
    Values { key: &'static str, values: usize, count: u32 },
    #[error("a node has two units named `{unit}`")]
    SameUnit { unit: String },
    #[error("two nodes are named `{name}`")]
    SameName { name: String },
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Draw {
    fn check(&self, idle_key: &'static str, busy_key: &'static str) -> Result<(), PlatformError> {
        not_negative(idle_key, self.idle)?;
        if self.busy < self.idle {
            return Err(PlatformError::Crossed { idle_key, busy_key, idle: self.idle, busy: self.busy });
        }
        Ok(())
    }
}

fn not_negative(key: &'static str, value: Power) -> Result<(), PlatformError> {
    if value < Power::ZERO { Err(PlatformError::NegativeDraw { key, value }) } else { Ok(()) }
}

impl Rest {
    fn check(&self) -> Result<(), PlatformError> {
        not_negative("rest.draw", self.draw)?;
        not_negative("rest.down-draw", self.down_draw)?;
        not_negative("rest.up-draw", self.up_draw)?;
        for (key, value) in [("rest.down-time", self.down_time), ("rest.up-time", self.up_time)] {
            if value < Span::ZERO {
                return Err(PlatformError::NegativeTime { key, value });
            }
        }
        Ok(())
    }
}

impl Group {
    /// Checks the group.
    ///
    /// # Errors
    /// [`PlatformError`] for the first value out of range.
    pub fn check(&self) -> Result<(), PlatformError> {
        if self.count == 0 || self.count > NODE_LIMIT {
            return Err(PlatformError::Count { count: self.count });
        }
        match &self.names {
            Names::One(name) => check_name("node name", name)?,
            // The last number is the longest.
            Names::Numbered(_) => check_name("node name", &self.node_name(self.count - 1))?,
            Names::Listed(names) if names.len() != self.count as usize => {
                return Err(PlatformError::Listed { count: self.count, names: names.len() });
            }
            Names::Listed(names) => names.iter().try_for_each(|name| check_name("node name", name))?,
        }
        check_name("hardware", &self.hardware)?;
        if self.cores == 0 || self.cores > CORE_LIMIT {
            return Err(PlatformError::Cores { cores: self.cores });
        }
        self.draw.check("idle", "busy")?;
        self.believed.check("believed-idle", "believed-busy")?;
        for (index, unit) in self.units.iter().enumerate() {
            unit.check()?;
            if self.units[..index].iter().any(|other| other.name == unit.name) {
                return Err(PlatformError::SameUnit { unit: unit.name.clone() });
            }
        }
        if self.start_delay < Span::ZERO {
            return Err(PlatformError::NegativeTime { key: "start-delay", value: self.start_delay });
        }
        self.variation.as_ref().map_or(Ok(()), |variation| variation.check(self.count))?;
        self.rest.as_ref().map_or(Ok(()), Rest::check)
    }

    /// Returns the cores of the largest CPU of a node, which are the most for one job there.
    pub fn widest(&self) -> u32 {
        let cpus = self.units.iter().filter(|unit| unit.kind == UnitKind::Cpu);
        if self.units.is_empty() { self.cores } else { cpus.map(|unit| unit.cores).max().unwrap_or(0) }
    }

    /// Returns the name of node `index` of the group, from 0.
    pub fn node_name(&self, index: u32) -> String {
        match &self.names {
            Names::One(name) => name.clone(),
            Names::Numbered(prefix) => {
                let width = self.count.to_string().len().max(4);
                format!("{prefix}{:0width$}", index + 1)
            }
            Names::Listed(names) => names.get(index as usize).cloned().unwrap_or_default(),
        }
    }
}

impl Platform {
    /// Returns the cluster of energy-budget-2017, table I, with `nodes` nodes of one core (that paper counts
    /// processors): 95 W idle and 190.738 W busy, believed to be 100 W and 203.12 W. A node that is off draws 9.75 W.
    /// Switching off takes 6.1 s at 101 W, switching on 151.52 s at 125.17 W. Call [`Platform::check`] if `nodes` may
    /// be out of range.
    pub fn taurus(nodes: u32) -> Self {
        let rest = Rest {
            draw: Power::from_mw(9_750),
            down_time: Span::from_ms(6_100),
            down_draw: Power::from_watts(101),
            up_time: Span::from_ms(151_520),
            up_draw: Power::from_mw(125_170),
        };
        let group = Group {
            names: Names::Numbered("n".to_owned()),
            count: nodes,
            cores: 1,
            memory: None,
            hardware: "taurus".to_owned(),
            units: Vec::new(),
            draw: Draw { idle: Power::from_watts(95), busy: Power::from_mw(190_738) },
            believed: Draw { idle: Power::from_watts(100), busy: Power::from_mw(203_120) },
            rest: Some(rest),
            start_delay: Span::ZERO,
            variation: None,
        };
        Self { groups: vec![group] }
    }

    /// Returns the group of a node.
    pub fn group(&self, id: NodeId) -> Option<&Group> {
        let mut first = 0;
        self.groups.iter().find(|group| {
            let node = id.0 - first;
            first += group.count;
            node < group.count
        })
    }

    /// Returns the number of nodes in all groups.
    pub fn nodes(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Returns the cores of all nodes, which traces call processors.
    pub fn cores(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count) * u64::from(group.cores)).sum()
    }

    /// Checks the platform.
    ///
    /// # Errors
    /// [`PlatformError`] for the first group with a value out of range, too many nodes, or two nodes with one name.
    pub fn check(&self) -> Result<(), PlatformError> {
        if self.groups.is_empty() {
            return Err(PlatformError::NoGroups);
        }
        self.groups.iter().try_for_each(Group::check)?;
        if self.nodes() > u64::from(NODE_LIMIT) {
            return Err(PlatformError::TooMany { count: self.nodes() });
        }
        // Numbers within one group differ.
        if let [Group { names: Names::One(_) | Names::Numbered(_), .. }] = self.groups[..] {
            return Ok(());
        }
        let mut names: Vec<String> =
            self.groups.iter().flat_map(|group| (0..group.count).map(|index| group.node_name(index))).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(PlatformError::SameName { name: pair[0].clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taurus_draws_what_the_paper_measured() {
        let platform = Platform::taurus(80_640);
        assert_eq!(platform.check(), Ok(()));
        assert_eq!((platform.nodes(), platform.cores()), (80_640, 80_640));
        let rest = platform.groups[0].rest.expect("rests");
        // The reference has 616.08 J to switch off (101.00 W is rounded) and 18,966.42 J to switch on (125.17 W is
        // rounded).
        assert_eq!((rest.down_draw * rest.down_time).mj(), 616_100);
        assert_eq!((rest.up_draw * rest.up_time).mj(), 18_965_758);
        assert_eq!(Platform::taurus(0).check(), Err(PlatformError::Count { count: 0 }));
    }

    #[test]
    fn names() {
        let mut group = Platform::taurus(12_345).groups.remove(0);
        assert_eq!((group.node_name(0), group.node_name(12_344)), ("n00001".into(), "n12345".into()));
        group.count = 9;
        assert_eq!(group.node_name(8), "n0009");
        group.names = Names::Numbered("x".repeat(61));
        assert!(matches!(group.check(), Err(PlatformError::Name(_))));
        let listed = |names: &[&str]| Group {
            names: Names::Listed(names.iter().map(|name| (*name).to_owned()).collect()),
            ..Platform::taurus(2).groups.remove(0)
        };
        assert_eq!(listed(&["a"]).check(), Err(PlatformError::Listed { count: 2, names: 1 }));
        let same = |name: &str| PlatformError::SameName { name: name.into() };
        let check = |groups| Platform { groups }.check();
        assert_eq!(check(vec![listed(&["a", "a"])]), Err(same("a")));
        group.names = Names::Numbered("n".into());
        assert_eq!(check(vec![group, listed(&["b", "n0009"])]), Err(same("n0009")));
        assert_eq!(check(Vec::new()), Err(PlatformError::NoGroups));
    }
}
