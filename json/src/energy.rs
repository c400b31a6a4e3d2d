//! Sums of energy as JSON.

use limo_model::{Currency, Time};
use limo_proto::{EnergyBy, EnergyReport, EnergySum};
use serde::Serialize;

use crate::Clock;

/// Sums of the energy of finished jobs, or of nodes.
#[derive(Debug, Serialize)]
pub struct EnergyJson {
    schema: u32,
    by: &'static str,
    currency: Currency,
    since_unix_ms: Option<i64>,
    until_unix_ms: Option<i64>,
    sums: Vec<SumJson>,
    /// Sum over everything, including omitted sums.
    total: SumJson,
}

#[derive(Debug, Serialize)]
struct SumJson {
    /// User, job, application, account, node, group, state, or date; empty for the total, for jobs of no account, and for nodes of no group.
    key: String,
    /// Begin of the day.
    begin_unix_ms: Option<i64>,
    /// Number of jobs that ran; `null` for nodes.
    jobs: Option<u64>,
    energy_j: f64,
    /// Parts of `energy_j`. The remainder is from jobs without a record of this.
    measured_j: f64,
    estimated_j: f64,
    emulated_j: f64,
    cost: Option<f64>,
    start_now_cost: Option<f64>,
    saved: Option<f64>,
    /// Time for which the draw of nodes is known.
    seen_s: Option<f64>,
    /// Time of nodes in a state.
    span_s: Option<f64>,
}

impl EnergyJson {
    /// Converts the answer about jobs or nodes in `[since, until)`, grouped by `by`. `clock` formats dates.
    pub fn new(
        by: &EnergyBy,
        (since, until): (Option<Time>, Option<Time>),
        report: &EnergyReport,
        clock: &Clock,
    ) -> Self {
        Self {
            schema: super::SCHEMA,
            by: word(by),
            currency: Currency::agreed(),
            since_unix_ms: since.map(Time::unix_ms),
            until_unix_ms: until.map(Time::unix_ms),
            sums: report.sums.iter().map(|sum| SumJson::new(sum, by, clock)).collect(),
            total: SumJson::new(&report.total, by, clock),
        }
    }
}

fn word(by: &EnergyBy) -> &'static str {
    match by {
        EnergyBy::User => "user",
        EnergyBy::Job => "job",
        EnergyBy::Node => "node",
        EnergyBy::Group => "group",
        EnergyBy::State => "state",
        EnergyBy::Days(_) => "day",
        EnergyBy::Application => "application",
        EnergyBy::Account => "account",
    }
}

/// Returns true if the sums are over nodes and not over jobs.
pub fn is_of_nodes(by: &EnergyBy) -> bool {
    matches!(by, EnergyBy::Node | EnergyBy::Group | EnergyBy::State)
}

impl SumJson {
    fn new(sum: &EnergySum, by: &EnergyBy, clock: &Clock) -> Self {
        let begin = match by {
            EnergyBy::Days(_) => sum.key.parse().ok().map(Time::from_unix_ms),
            _ => None,
        };
        Self {
            key: begin.map_or_else(|| sum.key.clone(), |begin| clock.date(begin)),
            begin_unix_ms: begin.map(Time::unix_ms),
            jobs: (!is_of_nodes(by)).then_some(sum.jobs),
            energy_j: sum.energy.joules(),
            measured_j: sum.measured.joules(),
            estimated_j: sum.estimated.joules(),
            emulated_j: sum.emulated.joules(),
            cost: sum.cost.map(|cost| cost.whole()),
            start_now_cost: sum.start_now_cost.map(|cost| cost.whole()),
            saved: sum.start_now_cost.zip(sum.cost).map(|(at_once, cost)| (at_once - cost).whole()),
            seen_s: sum.seen.map(|seen| seen.secs()),
            span_s: sum.span.map(|span| span.secs()),
        }
    }
}
