//! Table of a sweep: means over workloads and seeds for each policy, budget and variant, as text, CSV and JSON. Exact:
//! sums are integers, divided once.

use std::collections::BTreeMap;

use limo_model::Currency;
use limo_model::decimal::{divide, fixed, rescale, text};
use serde::Serialize;
use serde_json::Number;

use super::configuration::Configuration;
use super::measures::{MEASURES, Values, index};
use super::results::Results;
use super::{cells, file::Plan};

/// Decimal places of means.
const MEAN_PLACES: u32 = 6;

/// Combination of policy, budget and variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Combination {
    pub policy: String,
    pub budget: String,
    pub set: String,
    /// Number of simulations in the means.
    pub runs: usize,
    pub failed: usize,
    /// Unfinished jobs of all simulations.
    pub unfinished: i128,
    /// Energy and cost over the same time in every configuration of a workload, in 10^-6 J and millionths of the currency: over the window,
    /// else until the last simulation has ended. If the ends differ, the cost is unknown.
    pub energy: Option<i128>,
    pub cost: Option<i128>,
    /// Means by [`MEASURES`], in units of 10^-6.
    means: Values,
}

impl Combination {
    /// Returns the mean of a measure in units of 10^-6.
    pub fn mean(&self, name: &str) -> Option<i128> {
        self.means[index(name)?]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Combinations in the order of the sweep's lists.
    pub lines: Vec<Combination>,
}

#[derive(Serialize)]
struct SweepJson<'t> {
    schema: u32,
    configurations: usize,
    failed: usize,
    rows: Vec<Listed<'t>>,
}

#[derive(Serialize)]
struct Listed<'t> {
    policy: &'t str,
    budget: &'t str,
    set: &'t str,
    runs: usize,
    failed: usize,
    means: BTreeMap<&'static str, Option<Number>>,
}

impl Combination {
    /// Returns the comparable figures, which cannot be computed for a single simulation.
    fn same_time(&self) -> [(&'static str, Option<i128>); 2] {
        [("energy_same_time_j", self.energy), ("cost_same_time", self.cost)]
    }
}

impl<'t> Listed<'t> {
    fn of(line: &'t Combination) -> Self {
        let Combination { policy, budget, set, runs, failed, means, .. } = line;
        let number = |mean: i128| shown(mean).parse::<Number>().ok();
        let means = means.iter().zip(&MEASURES).map(|(mean, measure)| (measure.name, mean.and_then(number)));
        let means = means.chain(line.same_time().map(|(name, mean)| (name, mean.and_then(number))));
        Self { policy, budget, set, runs: *runs, failed: *failed, means: means.collect() }
    }
}

impl Table {
    /// Makes the table of the configurations with a row in `results`.
    pub fn new(plan: &Plan, configurations: &[Configuration], results: &Results) -> Self {
        let cells = plan.policies.len() * plan.budgets.len() * plan.variants.len();
        let mut lines: Vec<Combination> = Vec::with_capacity(cells);
        let mut found: Vec<Vec<Found<'_>>> = vec![Vec::new(); cells];
        let mut ends: BTreeMap<usize, i128> = BTreeMap::new();
        for configuration in configurations {
            let labels = &configuration.labels;
            if configuration.cell == lines.len() {
                let (policy, budget, set) = (labels.policy.clone(), labels.budget.clone(), labels.set.clone());
                lines.push(Combination { policy, budget, set, ..Combination::default() });
            }
            match results.row(&configuration.key).map(|row| &row.result) {
                Some(Ok(values)) => {
                    let of = Found { values, source: configuration.source };
                    let end = ends.entry(of.source).or_default();
                    *end = of.get("simulated_s").unwrap_or(0).max(*end);
                    found[configuration.cell].push(of);
                }
                Some(Err(_)) => lines[configuration.cell].failed += 1,
                None => {}
            }
        }
        for (line, found) in lines.iter_mut().zip(&found) {
            line.runs = found.len();
            line.unfinished = found.iter().filter_map(|of| of.get("jobs_unfinished")).sum();
            line.means =
                (0..MEASURES.len()).map(|measure| mean(found.iter().map(|of| of.values[measure]), measure)).collect();
            let end = |of: &Found<'_>| ends.get(&of.source).copied().unwrap_or(0);
            let energy = index("energy_j").unwrap_or(0);
            line.energy = mean(found.iter().map(|of| of.energy(end(of))), energy);
            let cost = index("cost").unwrap_or(0);
            line.cost = mean(found.iter().map(|of| of.cost(end(of))), cost);
        }
        Self { lines }
    }

    /// Formats `table.csv`.
    pub fn csv(&self) -> String {
        let fixed = ["policy", "budget", "set", "runs", "failed"];
        let same_time = Combination::default().same_time().map(|(name, _)| name);
        let mut csv =
            cells::line(fixed.into_iter().chain(MEASURES.iter().map(|measure| measure.name)).chain(same_time));
        csv.push('\n');
        for line in &self.lines {
            let counts = [line.runs.to_string(), line.failed.to_string()];
            let means = line.means.iter().copied().chain(line.same_time().map(|(_, mean)| mean));
            let means: Vec<String> = means.map(|mean| mean.map_or_else(String::new, shown)).collect();
            let labels = [&line.policy, &line.budget, &line.set].into_iter();
            csv.push_str(&cells::line(labels.chain(&counts).chain(&means).map(String::as_str)));
            csv.push('\n');
        }
        csv
    }

    /// Makes the output of `--json`.
    ///
    /// # Errors
    /// If the JSON cannot be written.
    pub fn json(&self) -> serde_json::Result<String> {
        let (runs, failed) =
            self.lines.iter().fold((0, 0), |(runs, failed), line| (runs + line.runs, failed + line.failed));
        let rows = self.lines.iter().map(Listed::of).collect();
        serde_json::to_string_pretty(&SweepJson { schema: 1, configurations: runs + failed, failed, rows })
    }

    /// Formats the main figures; omits columns whose values cannot differ.
    pub fn text(&self) -> String {
        let mut columns = vec![column("policy", false, self, |line| line.policy.clone())];
        if self.lines.iter().any(|line| line.budget != "none") {
            columns.push(column("budget", true, self, |line| line.budget.clone()));
        }
        if self.lines.iter().any(|line| !line.set.is_empty()) {
            columns.push(column("set", false, self, |line| line.set.clone()));
        }
        columns.push(column("runs", true, self, |line| line.runs.to_string()));
        if self.lines.iter().any(|line| line.unfinished > 0) {
            columns.push(column("unfinished", true, self, |line| line.unfinished.to_string()));
        }
        if self.lines.iter().any(|line| line.failed > 0) {
            columns.push(column("failed", true, self, |line| line.failed.to_string()));
        }
        let figure = |name, scale: i128, places| {
            move |line: &Combination| places_of(line.mean(name).map(|mean| mean * scale), places)
        };
        columns.push(column("utilisation %", true, self, figure("utilisation", 100, 2)));
        columns.push(column("AVEbsld", true, self, figure("avebsld", 1, 3)));
        columns.push(column("mean wait s", true, self, figure("mean_wait_s", 1, 1)));
        columns.push(column("energy kWh", true, self, |line| {
            places_of(line.energy.map(|energy| divide(energy, 3_600_000)), 3)
        }));
        if self.lines.iter().any(|line| line.mean("cost").is_some()) {
            columns.push(column(&format!("cost {}", Currency::agreed()), true, self, |line| places_of(line.cost, 2)));
        }
        if self.lines.iter().any(|line| line.mean("spent_j").is_some()) {
            columns.push(column("spent %", true, self, |line| {
                let of = line.mean("spent_j").zip(line.mean("budget_j")).filter(|(_, budget)| *budget > 0);
                places_of(of.map(|(spent, budget)| divide(spent * 100_000_000, budget)), 2)
            }));
        }
        (0..=self.lines.len()).map(|row| aligned(&columns, row)).collect()
    }
}

/// Simulation with a row.
#[derive(Debug, Clone, Copy)]
struct Found<'r> {
    values: &'r Values,
    source: usize,
}

impl Found<'_> {
    fn get(&self, name: &str) -> Option<i128> {
        self.values[index(name)?]
    }

    /// Returns the energy in mJ: within the window, else until `end`, which is not before the simulation's own end.
    fn energy(&self, end: i128) -> Option<i128> {
        let until_end = || {
            let rest = (end - self.get("simulated_s")?) * self.get("draw_at_end_w")?;
            Some(self.get("energy_j")? + divide(rest, 1_000))
        };
        self.get("energy_in_window_j").or_else(until_end)
    }

    /// Returns the cost in millionths of the currency. The cost after the last event is unknown.
    fn cost(&self, end: i128) -> Option<i128> {
        let whole = || self.get("cost").filter(|_| self.get("simulated_s") == Some(end));
        if self.get("energy_in_window_j").is_some() { self.get("cost_in_window") } else { whole() }
    }
}

/// Returns the mean over the simulations that have the measure.
fn mean(values: impl Iterator<Item = Option<i128>>, measure: usize) -> Option<i128> {
    let known: Vec<i128> = values.flatten().collect();
    let sum = known.iter().map(|value| rescale(*value, MEASURES[measure].places, MEAN_PLACES)).sum();
    (!known.is_empty()).then(|| divide(sum, known.len() as i128))
}

/// Formats a mean without trailing zeros.
fn shown(mean: i128) -> String {
    text(mean, MEAN_PLACES)
}

/// Formats millionths with this many places; `-` for `None`.
fn places_of(millionths: Option<i128>, places: u32) -> String {
    millionths.map_or_else(|| "-".to_owned(), |value| fixed(rescale(value, MEAN_PLACES, places), places))
}

/// Returns the texts of a column with its title, and true if they are aligned to the right.
fn column(name: &str, right: bool, table: &Table, cell: impl Fn(&Combination) -> String) -> (bool, Vec<String>) {
    (right, std::iter::once(name.to_owned()).chain(table.lines.iter().map(cell)).collect())
}

fn aligned(columns: &[(bool, Vec<String>)], row: usize) -> String {
    let mut line = String::new();
    for (right, cells) in columns {
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let cell = &cells[row];
        line.push_str(&if *right { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") });
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        let row = |jobs, wait| {
            let mut values: Values = vec![None; MEASURES.len()];
            values[0] = jobs;
            values[9] = wait;
            values
        };
        let (a, b) = (row(Some(3), Some(1_000_000)), row(Some(4), None));
        assert_eq!(MEASURES[9].name, "mean_wait_s");
        // The mean of 3 and 4 jobs is 3.5. If only one simulation has a wait, that wait is the mean.
        assert_eq!(
            [0, 9, 1].map(|measure| mean([&a, &b].iter().map(|values| values[measure]), measure)),
            [Some(3_500_000), Some(1_000_000), None]
        );
    }

    #[test]
    fn columns_are_aligned() {
        let columns =
            [(false, vec!["policy".to_owned(), "easy".to_owned()]), (true, vec!["x".to_owned(), "10".to_owned()])];
        assert_eq!(
            (aligned(&columns, 0), aligned(&columns, 1)),
            ("policy   x\n".to_owned(), "easy    10\n".to_owned())
        );
    }
}
