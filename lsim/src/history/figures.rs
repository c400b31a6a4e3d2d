//! Figures of a cluster's history and of its simulations, as a table and as JSON.

use std::collections::BTreeMap;

use limo_model::{Attempt, Energy, Money, Span};
use limo_sched::State;
use serde_json::{Value, json};

use super::shown;
use crate::output::Metrics;
use crate::record::{BudgetPeriod, JobRow, Sample, Sink, Summary, WriteError};

/// Node whose owner evicted an attempt, by the number of the job and of the attempt.
pub type Evictions = BTreeMap<(i64, Attempt), String>;

/// Sink that also keeps the evictions.
pub struct EvictionSink<'s, S> {
    pub sink: &'s mut S,
    pub evictions: Evictions,
}

impl<S: Sink> Sink for EvictionSink<'_, S> {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.sink.job(job)
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.sink.sample(sample)
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.sink.finish(summary)
    }

    fn round(&mut self, state: &State) {
        self.sink.round(state);
    }

    fn evicted(&mut self, number: i64, attempt: Attempt, node: &str) {
        self.evictions.insert((number, attempt), node.to_owned());
    }
}

/// Figures to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    pub jobs: u64,
    /// Jobs that ran to any end.
    pub ended: u64,
    pub mean_wait: Span,
    pub max_wait: Span,
    /// Energy of the whole cluster over `span`.
    pub energy: Energy,
    pub cost: Option<Money>,
    /// Share of the time outside the limits.
    pub outside_millionths: i128,
    pub budgets: Vec<BudgetPeriod>,
    /// Time from the first entry to the last end.
    pub span: Span,
    pub evictions: Evictions,
}

impl Figures {
    pub fn of(metrics: &Metrics, budgets: Vec<BudgetPeriod>, span: Span, evictions: Evictions) -> Self {
        Self {
            jobs: metrics.jobs(),
            ended: metrics.counts.completed + metrics.counts.killed,
            mean_wait: Span::from_ms(i64::try_from(metrics.mean_wait_us() / 1_000).unwrap_or(i64::MAX)),
            max_wait: metrics.max_wait(),
            energy: metrics.energy(),
            cost: metrics.cost(),
            outside_millionths: metrics.outside_limits_millionths(),
            budgets,
            span,
            evictions,
        }
    }

    /// Formats the figures in the order of [`ROWS`], then a cell for each budget.
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            self.jobs.to_string(),
            self.ended.to_string(),
            self.mean_wait.to_string(),
            self.max_wait.to_string(),
            self.span.to_string(),
            self.energy.to_string(),
            self.cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string()),
            percent(self.outside_millionths),
            self.evictions.len().to_string(),
        ];
        let spent = |period: &BudgetPeriod| {
            let over = if period.spent > period.energy { " (over)" } else { "" };
            format!("{} of {}{over}", period.spent, period.energy)
        };
        cells.extend(self.budgets.iter().map(spent));
        cells
    }

    fn as_json(&self, name: &str) -> Value {
        let seconds = |span: Span| span.ms() as f64 / 1_000.0;
        let budget = |period: &BudgetPeriod| {
            json!({
                "from": shown(period.window.from),
                "until": shown(period.window.until),
                "energy_j": period.energy.joules(),
                "spent_j": period.spent.joules(),
            })
        };
        let eviction = |((job, attempt), node): (&(i64, Attempt), &String)| json!({"job": job, "attempt": attempt.0, "node": node});
        json!({
            "name": name,
            "jobs": self.jobs,
            "ended": self.ended,
            "mean_wait_s": seconds(self.mean_wait),
            "max_wait_s": seconds(self.max_wait),
            "span_s": seconds(self.span),
            "energy_j": self.energy.joules(),
            "cost": self.cost.map(Money::whole),
            // Millionths are at most 10^6, which is exact in an f64.
            "outside_limits_share": self.outside_millionths as f64 / 1e6,
            "evictions": self.evictions.iter().map(eviction).collect::<Vec<_>>(),
            "budgets": self.budgets.iter().map(budget).collect::<Vec<_>>(),
        })
    }
}

const ROWS: [&str; 9] =
    ["jobs", "of them ended", "mean wait", "max wait", "time", "energy", "cost", "outside limits", "evictions"];

/// Formats a table: a line for each figure, a column for each history.
pub fn table(columns: &[(String, &Figures)]) -> String {
    let cells: Vec<Vec<String>> = columns.iter().map(|(_, figures)| figures.cells()).collect();
    let rows = cells.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |column: usize, row: usize| cells[column].get(row).map_or("-", String::as_str);
    let width = |column: usize| {
        let longest = (0..rows).map(|row| cell(column, row).chars().count()).max().unwrap_or(0);
        longest.max(columns[column].0.chars().count())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |name: &str, cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        format!("{name:<16}{}\n", padded.join("  "))
    };
    let mut text = line("", columns.iter().map(|(name, _)| name.as_str()).collect());
    for row in 0..rows {
        let name = ROWS.get(row).map_or_else(
            || if rows == ROWS.len() + 1 { "budget".to_owned() } else { format!("budget {}", row + 1 - ROWS.len()) },
            |name| (*name).to_owned(),
        );
        text.push_str(&line(&name, (0..columns.len()).map(|column| cell(column, row)).collect()));
    }
    text
}

/// Makes JSON with the figures and other data.
pub fn as_json(columns: &[(String, &Figures)], running_times: &Value, notes: &[String]) -> Value {
    let columns: Vec<Value> = columns.iter().map(|(name, figures)| figures.as_json(name)).collect();
    json!({"schema": 1, "columns": columns, "running_times": running_times, "notes": notes})
}

/// Formats a share in percent with two places, rounded.
fn percent(millionths: i128) -> String {
    let hundredths = (millionths + 50) / 100;
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(percent(0), "0.00 %");
        assert_eq!(percent(123_456), "12.35 %");
        assert_eq!(percent(1_000_000), "100.00 %");
    }

    #[test]
    fn a_table() {
        let figures = |jobs, cost| Figures {
            jobs,
            ended: jobs,
            mean_wait: Span::from_secs(90),
            max_wait: Span::from_secs(120),
            energy: Energy::from_joules(3_600),
            cost,
            outside_millionths: 500_000,
            budgets: Vec::new(),
            span: Span::from_secs(3_600),
            evictions: Evictions::new(),
        };
        let (one, two) = (figures(3, None), figures(10, Some(Money::from_micro(1_000_000))));
        let text = table(&[("as it was".to_owned(), &one), ("easy".to_owned(), &two)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + ROWS.len());
        assert!(lines[0].contains("as it was") && lines[0].ends_with("easy"), "{text}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        assert!(lines[1].starts_with("jobs") && lines[1].ends_with("10"), "{text}");
    }
}
