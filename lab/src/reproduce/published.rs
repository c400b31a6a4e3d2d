//! The single runs whose figures the authors stored (`published_rows.csv`), simulated again with `compat = "2017"`.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use limo_model::{Energy, Preset};
use limo_trace::Workload;

use super::campaign::simulated;
use super::{Condition, MACHINES, SchedulerChoice, Way, Week};
use crate::y2017::{self, Algorithm, COLUMNS, Config};
use lsim::record::{JobRow, Sample, Sink, Summary, WriteError};

/// A row of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub trace: String,
    pub algorithm: Algorithm,
    pub shutdown: bool,
    pub percent: u32,
    /// Names and values of the printed columns.
    pub printed: Vec<(String, String)>,
}

/// A row with the new results.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub row: Row,
    /// Name of the column, stored value, new value.
    pub columns: Vec<(String, String, String)>,
    /// Results of Limo's own policy, for the columns that it also has.
    pub own: Vec<(&'static str, f64)>,
}

impl Compared {
    /// Returns the number of columns that agree in all printed digits.
    pub fn exact(&self) -> usize {
        self.columns.iter().filter(|(_, there, here)| there == here).count()
    }

    /// The largest relative difference, in percent.
    pub fn worst_percent(&self) -> f64 {
        let difference = |(_, there, here): &(String, String, String)| match (there.parse::<f64>(), here.parse::<f64>())
        {
            (Ok(there), Ok(here)) if there != 0.0 => 100.0 * ((here - there) / there).abs(),
            _ => 0.0,
        };
        self.columns.iter().map(difference).fold(0.0, f64::max)
    }
}

/// A sink that keeps only the row of a run.
pub struct Nothing;

impl Sink for Nothing {
    fn job(&mut self, _: &JobRow<'_>) -> Result<(), WriteError> {
        Ok(())
    }

    fn sample(&mut self, _: &Sample) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(&mut self, _: &Summary) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Returns the rows of `traces/energy-budget-2017/published_rows.csv`; empty if the file does not exist.
///
/// # Errors
/// If a line is invalid.
pub fn rows(traces: &Path) -> Result<Vec<Row>> {
    let path = traces.join("energy-budget-2017").join("published_rows.csv");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let header: Vec<&str> = lines.next().map(|(_, line)| line.split(',').collect()).unwrap_or_default();
    let row = |(number, line): (usize, &str)| {
        parse(&header, line).with_context(|| format!("{}:{}: `{line}`", path.display(), number + 1))
    };
    lines.map(row).collect()
}

fn parse(header: &[&str], line: &str) -> Result<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    ensure!(
        fields.len() == header.len() && fields.len() > 3,
        "{} columns, the header has {}",
        fields.len(),
        header.len()
    );
    let (name, shut) = fields[1].rsplit_once('_').context("the algorithm has no _IDLE or _SHUT")?;
    let algorithm = match name {
        "PC" => Algorithm::PowerCap,
        "reducePC" => Algorithm::ReducePc,
        "energyBud" => Algorithm::EnergyBud,
        other => anyhow::bail!("`{other}` is not an algorithm: PC, reducePC, energyBud"),
    };
    let percent = fields[2].parse().with_context(|| format!("`{}` is not a percentage", fields[2]))?;
    let printed = header.iter().zip(&fields).skip(3).filter(|(_, value)| !value.is_empty());
    let printed = printed.map(|(column, value)| ((*column).to_owned(), (*value).to_owned())).collect();
    Ok(Row { trace: fields[0].to_owned(), algorithm, shutdown: shut == "SHUT", percent, printed })
}

/// Simulates with Limo's policy instead of the published one.
fn own(
    row: &Row,
    workload: &Workload,
    processors: u32,
    scheduler: SchedulerChoice,
) -> Result<Vec<(&'static str, f64)>> {
    let preset = match row.algorithm {
        Algorithm::Easy => Preset::Easy,
        Algorithm::PowerCap => Preset::Powercap,
        Algorithm::ReducePc => Preset::Reducepc,
        Algorithm::EnergyBud => Preset::Energybud,
    };
    let condition = Condition { way: Way { preset, shutdown: row.shutdown }, budget: row.percent };
    let (measured, summary) = simulated(workload, processors, scheduler, condition)?;
    let (metrics, joules) = (&measured.metrics, |energy: Energy| energy.mj() as f64 / 1e3);
    Ok(vec![
        ("avgbsld", metrics.avebsld_millionths() as f64 / 1e6),
        ("maxbsld", metrics.max_bsld_millionths() as f64 / 1e6),
        ("energyBudget", summary.budgets.first().map_or(0.0, |period| joules(period.spent))),
        ("energyWeek", joules(metrics.energy_in_window().unwrap_or_default())),
        ("jobRun", measured.ended as f64),
        ("util", metrics.utilisation_millionths() as f64 / 1e6),
    ])
}

/// Simulates a row again, with the published scheduler and with `scheduler`.
///
/// # Errors
/// If its week is missing or cannot be read.
pub fn compare(row: &Row, weeks: &[Week], scheduler: SchedulerChoice) -> Result<Compared> {
    let week = weeks.iter().find(|week| week.name == row.trace);
    let week = week.with_context(|| format!("the week {} is not there", row.trace))?;
    let machine = MACHINES.iter().find(|(_, machine, _)| *machine == week.machine);
    let processors = machine.map_or(week.processors, |(_, _, processors)| *processors);
    let workload = limo_trace::swf::load(&week.path, limo_trace::swf::Options::COMPAT_2017)?;
    let config = Config::published(processors, row.algorithm, row.shutdown, row.percent);
    let result = y2017::simulate(&workload, &config, &mut Nothing)?;
    let here = result.row.to_string();
    let here: Vec<(&str, &str)> = COLUMNS.split(',').zip(here.split(',')).collect();
    let find = |column: &str| here.iter().find(|(name, _)| *name == column).map(|(_, value)| (*value).to_owned());
    let columns = row.printed.iter();
    let columns = columns.filter_map(|(column, there)| Some((column.clone(), there.clone(), find(column)?))).collect();
    Ok(Compared { row: row.clone(), columns, own: own(row, &workload, processors, scheduler)? })
}
