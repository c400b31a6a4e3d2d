//! The table of a sweep: the mean over workloads and seeds for each policy, budget and variant, as text, CSV and JSON.
//! Exact: sums are integers, divided once.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Number;

use super::configuration::Configuration;
use super::decimal::{MEAN_PLACES, divide, fixed, rescale, text};
use super::measures::{MEASURES, Values, index};
use super::results::Results;
use super::{cells, file::Plan};

/// One combination of policy, budget and variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub policy: String,
    pub budget: String,
    pub set: String,
    /// Simulations that the means are over.
    pub runs: usize,
    pub failed: usize,
    /// One for each of [`MEASURES`], in units of 10^-6.
    means: Values,
}

impl Line {
    /// The mean of a measure in units of 10^-6.
    pub fn mean(&self, name: &str) -> Option<i128> {
        self.means[index(name)?]
    }

    /// Energy of the time of all budgets, else of the whole simulation, in 10^-6 J.
    pub fn energy(&self) -> Option<i128> {
        self.mean("energy_in_window_j").or_else(|| self.mean("energy_j"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// In the order of the sweep's lists.
    pub lines: Vec<Line>,
}

#[derive(Serialize)]
struct Listing<'t> {
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

impl<'t> Listed<'t> {
    fn of(line: &'t Line) -> Self {
        let Line { policy, budget, set, runs, failed, means } = line;
        let number = |mean: i128| shown(mean).parse::<Number>().ok();
        let means = means.iter().zip(&MEASURES).map(|(mean, measure)| (measure.name, mean.and_then(number)));
        Self { policy, budget, set, runs: *runs, failed: *failed, means: means.collect() }
    }
}

impl Table {
    /// Of the configurations that have a row in `results`.
    pub fn new(plan: &Plan, configurations: &[Configuration], results: &Results) -> Self {
        let cells = plan.policies.len() * plan.budgets.len() * plan.variants.len();
        let mut lines: Vec<Line> = Vec::with_capacity(cells);
        let mut found: Vec<Vec<&Values>> = vec![Vec::new(); cells];
        for configuration in configurations {
            let labels = &configuration.labels;
            if configuration.cell == lines.len() {
                let (policy, budget, set) = (labels.policy.clone(), labels.budget.clone(), labels.set.clone());
                lines.push(Line { policy, budget, set, runs: 0, failed: 0, means: Values::new() });
            }
            match results.row(&configuration.key).map(|row| &row.result) {
                Some(Ok(values)) => found[configuration.cell].push(values),
                Some(Err(_)) => lines[configuration.cell].failed += 1,
                None => {}
            }
        }
        for (line, values) in lines.iter_mut().zip(&found) {
            line.runs = values.len();
            line.means = (0..MEASURES.len()).map(|measure| mean(values, measure)).collect();
        }
        Self { lines }
    }

    /// `table.csv`.
    pub fn csv(&self) -> String {
        let fixed = ["policy", "budget", "set", "runs", "failed"];
        let mut csv = cells::line(fixed.into_iter().chain(MEASURES.iter().map(|measure| measure.name)));
        csv.push('\n');
        for line in &self.lines {
            let counts = [line.runs.to_string(), line.failed.to_string()];
            let means: Vec<String> = line.means.iter().map(|mean| mean.map_or_else(String::new, shown)).collect();
            let labels = [&line.policy, &line.budget, &line.set].into_iter();
            csv.push_str(&cells::line(labels.chain(&counts).chain(&means).map(String::as_str)));
            csv.push('\n');
        }
        csv
    }

    /// For `--json`.
    ///
    /// # Errors
    /// None but those of writing JSON to memory.
    pub fn json(&self) -> serde_json::Result<String> {
        let (runs, failed) =
            self.lines.iter().fold((0, 0), |(runs, failed), line| (runs + line.runs, failed + line.failed));
        let rows = self.lines.iter().map(Listed::of).collect();
        serde_json::to_string_pretty(&Listing { schema: 1, configurations: runs + failed, failed, rows })
    }

    /// The figures that are looked at first; columns in which nothing differs by intent are left out.
    pub fn text(&self) -> String {
        let mut columns = vec![column("policy", false, self, |line| line.policy.clone())];
        if self.lines.iter().any(|line| line.budget != "none") {
            columns.push(column("budget", true, self, |line| line.budget.clone()));
        }
        if self.lines.iter().any(|line| !line.set.is_empty()) {
            columns.push(column("set", false, self, |line| line.set.clone()));
        }
        columns.push(column("runs", true, self, |line| line.runs.to_string()));
        if self.lines.iter().any(|line| line.failed > 0) {
            columns.push(column("failed", true, self, |line| line.failed.to_string()));
        }
        let figure =
            |name, scale: i128, places| move |line: &Line| places_of(line.mean(name).map(|mean| mean * scale), places);
        columns.push(column("utilisation %", true, self, figure("utilisation", 100, 2)));
        columns.push(column("AVEbsld", true, self, figure("avebsld", 1, 3)));
        columns.push(column("mean wait s", true, self, figure("mean_wait_s", 1, 1)));
        columns.push(column("energy kWh", true, self, |line| {
            places_of(line.energy().map(|energy| divide(energy, 3_600_000)), 3)
        }));
        if self.lines.iter().any(|line| line.mean("cost_eur").is_some()) {
            columns.push(column("cost EUR", true, self, figure("cost_eur", 1, 2)));
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

fn mean(values: &[&Values], measure: usize) -> Option<i128> {
    let known: Vec<i128> = values.iter().filter_map(|values| values[measure]).collect();
    let sum = known.iter().map(|value| rescale(*value, MEASURES[measure].places, MEAN_PLACES)).sum();
    (!known.is_empty()).then(|| divide(sum, known.len() as i128))
}

/// A mean as text, without zeros at the end.
fn shown(mean: i128) -> String {
    text(mean, MEAN_PLACES)
}

/// Millionths with so many places; a dash where there is none.
fn places_of(millionths: Option<i128>, places: u32) -> String {
    millionths.map_or_else(|| "-".to_owned(), |value| fixed(rescale(value, MEAN_PLACES, places), places))
}

/// The texts of a column, its name first, and whether they stand at its right.
fn column(name: &str, right: bool, table: &Table, cell: impl Fn(&Line) -> String) -> (bool, Vec<String>) {
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
        // 3 and 4 jobs are 3.5 in the mean; a wait that only one has is that one's.
        assert_eq!(
            (mean(&[&a, &b], 0), mean(&[&a, &b], 9), mean(&[&a, &b], 1)),
            (Some(3_500_000), Some(1_000_000), None)
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
