//! The settings of a sweep: a list of caps, pairs of clocks, or a search for the best cap or clock.

use std::collections::BTreeSet;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use limo_model::{Power, UnitError};
use limo_power::ClockPair;
use thiserror::Error;

use crate::explore::grid::{MOST_CAPS, MOST_PAIRS};
use crate::explore::objective::Objective;
use crate::machine::{Setting, Testbed};

/// Caps of a grid: `8W,12W,16W`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CapList(Vec<Power>);

impl FromStr for CapList {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        text.split(',').map(|cap| cap.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

/// Clocks of a grid: `810,1075,1240` or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClockList {
    All,
    Listed(BTreeSet<u32>),
}

/// A list of clocks was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a clock: write numbers of MHz, such as 810,1075,1240, or `all`")]
struct ClockListError(String);

impl FromStr for ClockList {
    type Err = ClockListError;

    fn from_str(text: &str) -> Result<Self, ClockListError> {
        if text == "all" {
            return Ok(Self::All);
        }
        let clock = |text: &str| text.trim().parse().map_err(|_| ClockListError(text.to_owned()));
        text.split(',').map(clock).collect::<Result<_, _>>().map(Self::Listed)
    }
}

impl ClockList {
    fn has(&self, clock: u32) -> bool {
        match self {
            Self::All => true,
            Self::Listed(clocks) => clocks.contains(&clock),
        }
    }

    /// Checks that each listed clock is among those that the GPU has.
    fn check(&self, what: &str, has: &[u32]) -> anyhow::Result<()> {
        let Self::Listed(clocks) = self else { return Ok(()) };
        let Some(clock) = clocks.iter().find(|clock| !has.contains(clock)) else { return Ok(()) };
        let nearest = has.iter().min_by_key(|has| has.abs_diff(*clock)).copied().unwrap_or_default();
        bail!("the GPU has no {what} clock of {clock} MHz here: the nearest is {nearest} MHz; `all` measures all")
    }
}

/// Options that choose the settings.
#[derive(Debug, Args)]
pub struct SettingArguments {
    #[command(flatten)]
    choice: SettingChoice,
    /// Memory clocks to pair with the graphics clocks [default: the highest]
    #[arg(long, value_name = "MHZ,...|all", requires = "clocks")]
    memory_clocks: Option<ClockList>,
}

/// Kind of the settings.
#[derive(Debug, Args)]
#[group(id = "caps", required = true, multiple = true, args = ["grid", "search", "clocks"])]
struct SettingChoice {
    /// Caps to measure, such as 8W,12W,16W: in random order, with runs without a cap before and after; the one with
    /// the least energy of the node is the best
    #[arg(long, value_name = "POWER,...", conflicts_with_all = ["search", "clocks"])]
    grid: Option<CapList>,
    /// Search for the best cap, or with --clocks for the best graphics clock: energy (of the node), above-idle, edp, time<=5% (least energy that is at most 5% slower)
    /// or cost:KWH,HOUR (costs of a kWh and of an hour of the node)
    #[arg(long, value_name = "OBJECTIVE")]
    search: Option<Objective>,
    /// Graphics clocks of the GPU to measure in MHz, or `all`: like a grid of caps, but the results have no profile
    #[arg(long, value_name = "MHZ,...|all")]
    clocks: Option<ClockList>,
}

/// The measurements of one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingPlan {
    /// These settings, in random order.
    Grid(Vec<Setting>),
    /// Caps between the lowest and the highest.
    SearchCaps(Power, Power),
    /// Some of these clocks.
    SearchClocks(Vec<ClockPair>),
}

impl SettingArguments {
    /// Returns the objective: the energy of the node, unless a search has another one.
    pub fn objective(&self) -> Objective {
        self.choice.search.unwrap_or(Objective::Energy)
    }

    /// Plans the settings of the measured unit. With `several` units, caps that this one cannot hold are left out.
    ///
    /// # Errors
    /// If the unit has no caps or clocks, or not those that were asked for.
    pub fn plan(&self, testbed: &mut Testbed, several: bool) -> anyhow::Result<SettingPlan> {
        if let Some(graphics) = &self.choice.clocks {
            let pairs = chosen(&testbed.clock_pairs()?, graphics, self.memory_clocks.as_ref())?;
            return Ok(match self.choice.search {
                Some(_) => SettingPlan::SearchClocks(pairs),
                None => SettingPlan::Grid(pairs.into_iter().map(Setting::Clocks).collect()),
            });
        }
        let unit = testbed.unit();
        let (low, high) = unit.caps.with_context(|| {
            let name = &unit.name;
            format!(
                "the unit cannot be capped: `{name}` needs for example `--unit {name}={}`; `lslave --probe` lists the \
                 caps of a machine",
                if name == "cpu" { "rapl" } else { "nvml:0" }
            )
        })?;
        let Some(CapList(caps)) = &self.choice.grid else { return Ok(SettingPlan::SearchCaps(low, high)) };
        if caps.len() > MOST_CAPS {
            bail!("the grid has {} caps: the limit is {MOST_CAPS}", caps.len());
        }
        let (inside, outside): (Vec<Power>, Vec<Power>) = caps.iter().partition(|cap| (low..=high).contains(*cap));
        match outside.first() {
            Some(cap) if !several || inside.is_empty() => {
                bail!("the cap {cap} is not possible: the unit can be capped at {low} to {high}")
            }
            _ => Ok(SettingPlan::Grid(inside.into_iter().map(Setting::Cap).collect())),
        }
    }
}

/// Chooses pairs. A listed clock may be missing in some pairs, but not in all.
fn chosen(known: &[ClockPair], graphics: &ClockList, memory: Option<&ClockList>) -> anyhow::Result<Vec<ClockPair>> {
    let memories: Vec<u32> = known.iter().map(|pair| pair.memory_mhz).collect();
    let highest = ClockList::Listed(memories.iter().max().copied().into_iter().collect());
    let memory = memory.unwrap_or(&highest);
    memory.check("memory", &memories)?;
    let of_memory: Vec<u32> =
        known.iter().filter(|pair| memory.has(pair.memory_mhz)).map(|pair| pair.graphics_mhz).collect();
    graphics.check("graphics", &of_memory)?;
    let pairs: Vec<ClockPair> =
        known.iter().copied().filter(|pair| memory.has(pair.memory_mhz) && graphics.has(pair.graphics_mhz)).collect();
    if pairs.len() > MOST_PAIRS {
        bail!("the grid has {} pairs of clocks: the limit is {MOST_PAIRS}", pairs.len());
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(graphics: &str, memory: Option<&str>) -> Result<Vec<(u32, u32)>, String> {
        // As limo-2018, section 4.2: the lowest memory clock has fewer graphics clocks.
        let known = [(139, 405), (139, 810), (607, 405), (607, 810), (1721, 810)];
        let known = known.map(|(graphics_mhz, memory_mhz)| ClockPair { graphics_mhz, memory_mhz });
        let memory = memory.map(|memory| memory.parse().expect("clocks"));
        let found = chosen(&known, &graphics.parse().expect("clocks"), memory.as_ref());
        let pairs = |pairs: Vec<ClockPair>| pairs.iter().map(|pair| (pair.graphics_mhz, pair.memory_mhz)).collect();
        found.map(pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn pairs_are_those_that_the_gpu_has() {
        assert_eq!(pairs("all", None), Ok(vec![(139, 810), (607, 810), (1721, 810)]));
        assert_eq!(pairs("all", Some("all")).map(|pairs| pairs.len()), Ok(5));
        // 1721 MHz exist at one of the two memory clocks.
        assert_eq!(pairs("139,1721", Some("405,810")), Ok(vec![(139, 405), (139, 810), (1721, 810)]));
        let refused = |graphics, memory| pairs(graphics, memory).expect_err("refused");
        let none = refused("1721", Some("405"));
        assert!(none.starts_with("the GPU has no graphics clock of 1721 MHz here: the nearest is 607 MHz"), "{none}");
        let none = refused("all", Some("3504"));
        assert!(none.starts_with("the GPU has no memory clock of 3504 MHz here: the nearest is 810 MHz"), "{none}");
        assert_eq!("1,x".parse::<ClockList>(), Err(ClockListError("x".to_owned())));
    }
}
