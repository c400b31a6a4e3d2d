//! `lab reproduce`: runs the campaign of a paper again and prints the results next to the published ones.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use limo_model::Span;
use limo_requirements::{TRACES, traces};
use limo_sched::Horizon;
use serde_json::{Value, json};

use super::{
    Averaged, BUDGETS, Claim, Compared, Condition, CoreSettings, EASY, Means, Outcome, SchedulerChoice, TABLE_II,
    TableII, Test, WAYS, claims, compare, means, negative_slowdowns, rows, run as run_all, table_ii, weeks,
};
use super::{capping, heterogeneity, pools};
use crate::y2017::Faults;

/// The papers with a campaign.
#[derive(Debug, clap::Subcommand)]
pub enum Paper {
    /// Dutot et al., Towards Energy Budget Control in HPC, CCGrid 2017
    #[command(name = "energy-budget-2017")]
    EnergyBudget2017(Arguments),
    /// Zhou et al., Energy Aware Scheduler of Single/Multi-node Jobs Exploiting Node Heterogeneity
    Heterogeneity(heterogeneity::Arguments),
    /// Borghesi et al., Scheduling-based power capping in high performance computing systems, 2018
    #[command(name = "power-capping-2018")]
    PowerCapping2018(capping::Arguments),
    /// Forshaw et al., Trace-driven simulation for energy consumption in High Throughput Computing systems, 2015
    #[command(name = "htc-sim-2015")]
    HtcSim2015(pools::Arguments),
}

/// A fault of the published scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PublishedFault {
    /// Count the draw of running jobs above the cap as saved
    SignError,
    /// Charge the time before a switch at the draw after it
    MeterFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Until {
    Cluster,
    Job,
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder with `energy-budget-2017/`, which has the weeks [default: the one next to the workspace]
    #[arg(long, value_name = "DIR", env = TRACES)]
    traces: Option<PathBuf>,
    /// Number of simulations at a time [default: the number of cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Run the campaign with the published scheduler and its faults, instead of Limo's policies
    #[arg(long, value_name = "YEAR", value_parser = ["2017"])]
    compat: Option<String>,
    /// Run the published scheduler without this fault; may be repeated
    #[arg(long, value_name = "FAULT", requires = "compat")]
    without: Vec<PublishedFault>,
    /// Wait of the first job after which `energybud` reserves its energy from later ones; 0s is Algorithm 2 [default:
    /// 7d]
    #[arg(long, value_name = "SPAN", conflicts_with = "compat")]
    hold_after: Option<Span>,
    /// Time over which `energybud` and `reducepc` look for debts: cluster, until the last load ends; or job, until
    /// the job ends
    #[arg(long, value_name = "END", conflicts_with = "compat")]
    horizon: Option<Until>,
    /// Run only weeks whose names begin with this
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The results.
struct Found {
    weeks: usize,
    outcomes: Vec<Outcome>,
    means: BTreeMap<Condition, Means>,
    table: TableII,
    claims: Vec<Claim>,
    published: Vec<Compared>,
    wall_s: f64,
    workers: usize,
    scheduler: SchedulerChoice,
}

/// Runs `lab reproduce`.
///
/// # Errors
/// If a trace cannot be read, or a simulation fails.
pub fn run(paper: &Paper) -> Result<ExitCode> {
    match paper {
        Paper::EnergyBudget2017(arguments) => energy_budget(arguments),
        Paper::Heterogeneity(arguments) => heterogeneity::reproduce(arguments),
        Paper::PowerCapping2018(arguments) => capping::reproduce(arguments),
        Paper::HtcSim2015(arguments) => pools::reproduce(arguments),
    }
}

fn energy_budget(arguments: &Arguments) -> Result<ExitCode> {
    let traces = arguments.traces.clone().unwrap_or_else(traces);
    let all = weeks(&traces)?;
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|prefix| name.starts_with(prefix));
    let chosen: Vec<_> = all.iter().filter(|week| wanted(&week.name)).cloned().collect();
    anyhow::ensure!(!chosen.is_empty(), "no week begins with {}", arguments.only.join(" or "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = arguments.jobs.unwrap_or(cores);
    let begun = Instant::now();
    let scheduler = arguments.scheduler();
    let outcomes = run_all(&chosen, scheduler, workers, |done, of| progress(done, of, begun))?;
    let wall_s = begun.elapsed().as_secs_f64();
    let means = means(&outcomes);
    let rows = rows(&traces)?.into_iter().filter(|row| wanted(&row.trace));
    let own = match scheduler {
        SchedulerChoice::Core(..) => scheduler,
        SchedulerChoice::Published(_) => SchedulerChoice::Core(CoreSettings::default()),
    };
    let published = rows.map(|row| compare(&row, &all, own)).collect::<Result<Vec<_>>>()?;
    let table = table_ii(&outcomes, Averaged::Normalised);
    let claims = claims(&outcomes, &means, &table);
    let found = Found { weeks: chosen.len(), outcomes, means, table, claims, published, wall_s, workers, scheduler };
    if arguments.json {
        println!("{:#}", found.json());
    } else {
        print!("{}", found.text());
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn scheduler(&self) -> SchedulerChoice {
        if self.compat.is_some() {
            let keeps = |fault| !self.without.contains(&fault);
            return SchedulerChoice::Published(Faults {
                sign: keeps(PublishedFault::SignError),
                meter: keeps(PublishedFault::MeterFault),
            });
        }
        let horizon = match self.horizon {
            Some(Until::Job) => Horizon::Job,
            Some(Until::Cluster) | None => Horizon::Cluster,
        };
        SchedulerChoice::Core(CoreSettings { hold_after: self.hold_after, horizon })
    }
}

/// Shows progress and the remaining time, on a terminal only.
fn progress(done: usize, of: usize, begun: Instant) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let left = begun.elapsed().as_secs_f64() / done as f64 * (of - done) as f64;
        let end = if done == of { "\n" } else { "" };
        // If the progress line cannot be shown, the campaign continues.
        let _ = write!(stderr, "\r{done} of {of} simulations, about {left:.0} s left   {end}");
    }
}

impl Found {
    fn name(&self) -> &'static str {
        match self.scheduler {
            SchedulerChoice::Core(..) => "Limo's policies",
            SchedulerChoice::Published(_) => "the published scheduler",
        }
    }

    fn violations(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.violations).sum()
    }

    /// Returns the largest share of its budget that a run used, among policies that promise to keep the budget.
    fn most_spent(&self) -> f64 {
        // At 30 % the idle draw alone exceeds the budget, so no policy can keep it with the nodes on.
        let possible = |outcome: &&Outcome| outcome.condition.budget != 30 || outcome.condition.way.shutdown;
        self.outcomes.iter().filter(possible).filter_map(|outcome| outcome.spent).fold(0.0, f64::max)
    }

    fn text(&self) -> String {
        let mut out = format!(
            "energy-budget-2017, {}: {} simulations of {} weeks in {:.0} s on {} workers, {} plans refused by the checker\n\
             most spent of a budget that can be kept: {:.2} %\n",
            self.name(),
            self.outcomes.len(),
            self.weeks,
            self.wall_s,
            self.workers,
            self.violations(),
            100.0 * self.most_spent(),
        );
        out += &self.figures();
        out += &self.table_ii();
        out += "\nClaims: strictly at every budget that binds, and within a tolerance\n";
        out += &self.claims.iter().map(claim_text).collect::<String>();
        out += "\nPublished rows, simulated with compat = \"2017\"\n";
        for compared in &self.published {
            let row = &compared.row;
            let shut = if row.shutdown { "SHUT" } else { "IDLE" };
            out += &format!(
                "{} {:?}_{shut} {} %: {} of {} columns in all printed digits, largest difference {:.3} %\n",
                row.trace,
                row.algorithm,
                row.percent,
                compared.exact(),
                compared.columns.len(),
                compared.worst_percent(),
            );
            for (column, there, here) in compared.columns.iter().filter(|(_, there, here)| there != here) {
                out += &format!("    {column}: {here} (printed {there})\n");
            }
        }
        out + &self.own_rows()
    }

    /// Formats Table II with the paper's kind of average, and its values with the other kind.
    fn table_ii(&self) -> String {
        let mut out = "\nTable II: percent change by shutdown, ours (the paper's)\n".to_owned();
        let head = |name: &str| format!("{name:<24}{:>20}{:>20}{:>20}\n", "powercap", "reducePC", "energyBud");
        out += &head("");
        for ((measure, paper), ours) in TABLE_II.iter().zip(&self.table) {
            let cell = |index: usize| format!("{:+.2} ({:+.2})", ours[index], paper[index]);
            out += &format!("{measure:<24}{:>20}{:>20}{:>20}\n", cell(0), cell(1), cell(2));
        }
        for (averaged, name) in [
            (Averaged::Plain, "\nThe same of values that are not normalised\n"),
            (Averaged::OfMeans, "\nChange of the means over all weeks and budgets\n"),
        ] {
            out += name;
            out += &head("");
            for ((measure, _), [pc, reduce, bud]) in TABLE_II.iter().zip(table_ii(&self.outcomes, averaged)) {
                out += &format!("{measure:<24}{pc:>+20.2}{reduce:>+20.2}{bud:>+20.2}\n");
            }
        }
        let (negative, count) = negative_slowdowns(&self.outcomes);
        out + &format!("Normalised AVEbsld without shutdown that are not positive: {negative} of {count}\n")
    }

    /// Formats Figures 2 to 4 as a table, with a line for each budget and variant.
    fn figures(&self) -> String {
        let mut out = "\nFigures 2 to 5: means over the weeks\n".to_owned();
        out += &format!(
            "{:<8}{:<16}{:>12}{:>12}{:>14}{:>10}{:>12}{:>16}\n",
            "budget", "algorithm", "utilisation", "AVEbsld", "energy/full", "started", "mean wait h", "longest wait h"
        );
        let ways = std::iter::once((100, EASY)).chain(BUDGETS.iter().flat_map(|b| WAYS.map(|way| (*b, way))));
        for (budget, way) in ways {
            let Some(of) = self.means.get(&Condition { way, budget }) else { continue };
            out += &format!(
                "{:<8}{:<16}{:>12.4}{:>12.1}{:>14.4}{:>10.0}{:>12.2}{:>16.1}\n",
                format!("{budget} %"),
                way.name(),
                of.utilisation,
                of.avebsld,
                of.energy,
                of.started,
                of.mean_wait,
                of.longest_wait
            );
        }
        out
    }

    /// Formats the results of Limo's policies next to the published ones.
    fn own_rows(&self) -> String {
        let mut out = "\nThe same rows under Limo's policies (printed)\n".to_owned();
        for compared in &self.published {
            let row = &compared.row;
            let shut = if row.shutdown { "SHUT" } else { "IDLE" };
            out += &format!("{} {:?}_{shut} {} %:", row.trace, row.algorithm, row.percent);
            for (column, own) in &compared.own {
                let own = if *own >= 1e9 { format!("{own:.3e}") } else { format!("{own:.3}") };
                let printed = row.printed.iter().find(|(name, _)| name == column);
                let printed = printed.and_then(|(_, value)| value.parse::<f64>().ok());
                let printed =
                    printed.map(|value| if value >= 1e9 { format!("{value:.3e}") } else { format!("{value:.3}") });
                out += &format!(" {column} {own} ({})", printed.as_deref().unwrap_or("-"));
            }
            out += "\n";
        }
        out
    }

    fn json(&self) -> Value {
        let figure = |(condition, of): (&Condition, &Means)| {
            json!({
                "algorithm": condition.way.name(), "budget_percent": condition.budget, "utilisation": of.utilisation,
                "avebsld": of.avebsld, "energy_share": of.energy, "jobs_started": of.started,
                "mean_wait_h": of.mean_wait, "longest_wait_h": of.longest_wait,
            })
        };
        let row = |((measure, paper), ours): ((&str, [f64; 3]), &[f64; 3])| {
            json!({ "measure": measure, "policies": ["powercap", "reducepc", "energybud"],
                    "change_percent": ours, "paper_change_percent": paper })
        };
        let published = |compared: &Compared| {
            let columns = compared.columns.iter();
            let columns: Vec<Value> = columns
                .map(|(column, there, here)| json!({ "column": column, "paper": there, "ours": here }))
                .collect();
            json!({
                "trace": compared.row.trace, "algorithm": format!("{:?}", compared.row.algorithm),
                "shutdown": compared.row.shutdown, "budget_percent": compared.row.percent,
                "exact_columns": compared.exact(), "columns": columns,
                "limo": compared.own.iter().map(|(column, own)| json!({ "column": column, "ours": own })).collect::<Vec<_>>(),
            })
        };
        json!({
            "schema": 1,
            "paper": "energy-budget-2017",
            "scheduler": if matches!(self.scheduler, SchedulerChoice::Core(..)) { "limo" } else { "compat-2017" },
            "simulations": self.outcomes.len(),
            "wall_s": self.wall_s,
            "workers": self.workers,
            "violations": self.violations(),
            "most_spent_share": self.most_spent(),
            "figures": self.means.iter().map(figure).collect::<Vec<_>>(),
            "table_ii": TABLE_II.into_iter().zip(&self.table).map(row).collect::<Vec<_>>(),
            "claims": self.claims.iter().map(claim_json).collect::<Vec<_>>(),
            "outcomes": self.outcomes.iter().map(|o| json!({"week": o.week, "way": o.condition.way.name(), "budget": o.condition.budget, "utilisation": o.utilisation, "avebsld": o.avebsld, "started": o.started, "energy": o.energy, "spent": o.spent})).collect::<Vec<_>>(),
            "published_rows": self.published.iter().map(published).collect::<Vec<_>>(),
        })
    }
}

/// Formats two lines: the strict result, and the result within the tolerance.
fn claim_text(claim: &Claim) -> String {
    let told = |tolerance: f64| {
        let failing = claim.failing(tolerance);
        if failing.is_empty() {
            return "holds".to_owned();
        }
        let places: Vec<String> = failing.iter().map(|test| format!("{} ({:+.4})", test.place, test.margin)).collect();
        format!("DOES NOT HOLD, not in {} of {}: {}", failing.len(), claim.tests.len(), places.join(", "))
    };
    let Claim { section, says, tolerance, .. } = claim;
    format!("{section} {says}\n    strictly: {}\n    within {tolerance}: {}\n", told(0.0), told(*tolerance))
}

fn claim_json(claim: &Claim) -> Value {
    let test = |test: &Test| json!({ "place": test.place, "margin": test.margin });
    json!({
        "section": claim.section, "says": claim.says, "tolerance": claim.tolerance,
        "holds_strictly": claim.holds_strictly(), "holds_within_tolerance": claim.holds_tolerantly(),
        "tests": claim.tests.iter().map(test).collect::<Vec<_>>(),
    })
}
