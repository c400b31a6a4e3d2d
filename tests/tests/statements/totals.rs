//! Totals of the run: energy and cost of the cluster compared with the integral of its readings, and with `lsim`'s
//! figures for its history.

use std::path::Path;

use limo_model::JobEnd;
use limo_tests::Submitter;
use serde_json::Value;

use crate::claims::Verdict;
use crate::timeline::While;
use crate::world::{JobHistory, World};

/// Tolerated relative difference of energy: the belief includes a start before a reading shows it, and there are no
/// readings while the master is unreachable.
const PART: f64 = 0.03;

/// Checks the final values of `lconf status`, then those of `lsim`.
pub fn check(verdict: &mut Verdict<'_>, operator: &Submitter, state_dir: &Path) {
    let status = json(operator, "lconf", &["status", "--json"]);
    let now = status["now_unix_ms"].as_i64().unwrap_or(0);
    let drawn = Drawn::by(verdict.world, now);
    let near = |claimed: &Value, (known, of): (f64, f64)| {
        claimed.as_f64().is_some_and(|claimed| (claimed - known).abs() < PART * of)
    };
    let energy = (drawn.joules, drawn.joules);
    verdict.claim("energy of the cluster", near(&status["energy_j"], energy), || {
        format!("{}, its meters showed {drawn:?}", status["energy_j"])
    });
    verdict.claim("cost of the cluster", near(&status["cost_eur"], (drawn.euros, drawn.turnover)), || {
        format!("{}, its meters showed {drawn:?}", status["cost_eur"])
    });

    let state_dir = state_dir.display().to_string();
    let replayed = json(operator, "lsim", &["replay", &state_dir, "--json"]);
    verdict.claim("the journal replays", replayed["equal"] == true, || replayed.to_string());
    let report = json(operator, "lsim", &["what-if", "--from", &state_dir, "--policy", "fifo", "--json"]);
    let past = &report["columns"][0];
    verdict
        .claim("energy in the report", near(&past["energy_j"], energy), || format!("{past}, meters showed {drawn:?}"));
    let jobs = || verdict.world.jobs.values().filter(|job| job.tasks == 0);
    let ended = jobs().filter(|job| job.finished.is_some()).count() as u64;
    let ran = |job: &&JobHistory| job.finished.as_ref().is_some_and(|of| matches!(of.end, JobEnd::Ran { .. }));
    let ran = jobs().filter(ran).count() as u64;
    verdict.claim(
        "jobs in the report",
        (past["jobs"].as_u64(), past["ended"].as_u64()) == (Some(ended), Some(ran)),
        || format!("{past}, {ended} ended and {ran} of them ran"),
    );
}

fn json(operator: &Submitter, program: &str, arguments: &[&str]) -> Value {
    let answer = operator.run(program, arguments).succeeded();
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{program} {arguments:?} printed no JSON: {answer}"))
}

/// Energy by the meters of all nodes.
#[derive(Debug, Default)]
struct Drawn {
    joules: f64,
    /// Cost of the energy while prices were known.
    euros: f64,
    /// Amounts paid, and earned below a price of zero.
    turnover: f64,
}

impl Drawn {
    fn by(world: &World, end: i64) -> Self {
        let mut drawn = Self::default();
        for node in &world.nodes {
            let readings: Vec<(i64, f64)> = node.reading.steps().map(|(at, draw)| (at, draw.watts())).collect();
            let ends = readings.iter().skip(1).map(|(at, _)| *at).chain([end]);
            for ((from, watts), to) in readings.iter().zip(ends) {
                drawn.joules += watts * (to - from) as f64 / 1e3;
                for price_seconds in world.price_seconds(While { from: *from, to }) {
                    drawn.euros += watts * price_seconds / 3.6e9;
                    drawn.turnover += watts * price_seconds.abs() / 3.6e9;
                }
            }
        }
        drawn
    }
}
