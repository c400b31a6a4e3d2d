//! The campaigns of papers: [`heterogeneity`], [`capping`] and [`pools`] have their own modules. Here is that of
//! energy-budget-2017, section V: thirty weeks, seven variants of scheduling, eight budgets, 1,470 simulations.
//!
//! Each simulation runs the live core, or with `--compat 2017` the published scheduler; this module does not schedule
//! jobs. The measures are those of section V-D: utilisation and energy over the week, slowdown over all jobs. The input
//! rules are the authors', and so is shutdown within the budget's period only (`docs/reproduction.md`).

mod campaign;
mod capping;
mod claim_row;
mod claims;
pub mod command;
mod figures;
mod heterogeneity;
mod pools;
mod published;
mod seeds;

use std::path::{Path, PathBuf};

use limo_model::{Budget, Budgets, Energy, Power, Preset, Release, Span, Time};
use limo_sched::{Allocation, Options, RestRule};

pub use campaign::{CoreSettings, Outcome, SchedulerChoice, run};
pub use claims::{Claim, Test, claims};
pub use figures::{Averaged, Means, TABLE_II, TableII, means, negative_slowdowns, table_ii};
pub use published::{Compared, compare, rows};

const DAY: Span = Span::from_secs(86_400);
pub const WEEK: Span = Span::from_secs(7 * 86_400);
/// Draws that the scheduler believes: P̃comp and P̃idle of Table I.
const BUSY: Power = Power::from_mw(203_120);
const IDLE: Power = Power::from_mw(100_000);

/// Machines of section V-C: the beginning of the names of the files, the name, the processors.
pub const MACHINES: [(&str, &str, u32); 3] =
    [("curie_", "Curie", 80_640), ("metacentrum_", "MetaCentrum", 3_356), ("sdscblue_", "SDSC-Blue", 1_152)];

/// Budgets in percent of the energy of three days with all processors computing. The idle draw is exactly 49 %.
pub const BUDGETS: [u32; 8] = [100, 90, 80, 70, 60, 50, 49, 30];

/// Scheduling policy, and true if free nodes are shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    pub preset: Preset,
    pub shutdown: bool,
}

/// Variants that run with every budget. Plain EASY runs with 100 % only.
pub const WAYS: [Way; 6] = [
    Way { preset: Preset::Powercap, shutdown: false },
    Way { preset: Preset::Powercap, shutdown: true },
    Way { preset: Preset::Reducepc, shutdown: false },
    Way { preset: Preset::Reducepc, shutdown: true },
    Way { preset: Preset::Energybud, shutdown: false },
    Way { preset: Preset::Energybud, shutdown: true },
];

pub const EASY: Way = Way { preset: Preset::Easy, shutdown: false };

impl Way {
    /// Returns the name in the paper's figures: `PC`, `reducePC` or `energyBud`, with `_IDLE` or `_SHUT`.
    pub fn name(self) -> String {
        let policy = match self.preset {
            Preset::Powercap => "powercap",
            Preset::Reducepc => "reducePC",
            Preset::Energybud => "energyBud",
            _ => return "EASY".to_owned(),
        };
        format!("{policy}_{}", if self.shutdown { "SHUT" } else { "IDLE" })
    }

    pub fn options(self) -> Options {
        Options {
            allocation: Allocation::Contiguous,
            rest: if self.shutdown { RestRule::IdleInBudget(Span::ZERO) } else { RestRule::Never },
            ..Options::default()
        }
    }
}

/// Condition of a simulation, apart from its week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    pub way: Way,
    pub budget: u32,
}

/// Returns all 49 conditions, plain EASY first.
pub fn conditions() -> Vec<Condition> {
    let easy = Condition { way: EASY, budget: 100 };
    let others = WAYS.iter().flat_map(|way| BUDGETS.map(|budget| Condition { way: *way, budget }));
    std::iter::once(easy).chain(others).collect()
}

/// Returns a budget on days 2 to 5 of a workload that starts at `start`; none for plain EASY.
pub fn budgets(condition: Condition, processors: u32, start: Time) -> Budgets {
    if condition.way == EASY {
        return Budgets::default();
    }
    let (from, until) = (start + DAY.scaled(2, 1), start + DAY.scaled(5, 1));
    let node = if condition.budget == 49 { IDLE } else { BUSY.scaled(i64::from(condition.budget), 100) };
    let energy: Energy = node.scaled(i64::from(processors), 1) * (until - from);
    // A single period that ends after it starts is always valid.
    Budgets::new(vec![Budget { from, until, energy, release: Release::Even }]).unwrap_or_default()
}

/// A week of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Week {
    pub path: PathBuf,
    pub name: String,
    pub machine: &'static str,
    pub processors: u32,
}

/// Returns the weeks in `traces/energy-budget-2017`, sorted by name.
///
/// # Errors
/// If the folder cannot be read, or is empty.
pub fn weeks(traces: &Path) -> anyhow::Result<Vec<Week>> {
    use anyhow::{Context, ensure};
    let folder = traces.join("energy-budget-2017");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut weeks = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(name) = file.strip_suffix(".swf.gz").or_else(|| file.strip_suffix(".swf")) else { continue };
        if let Some((_, machine, processors)) = MACHINES.iter().find(|(prefix, _, _)| name.starts_with(prefix)) {
            weeks.push(Week { name: name.to_owned(), machine, processors: *processors, path: path.clone() });
        }
    }
    ensure!(!weeks.is_empty(), "{} holds no week (curie_*.swf.gz, metacentrum_*, sdscblue_*)", folder.display());
    weeks.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(weeks)
}
