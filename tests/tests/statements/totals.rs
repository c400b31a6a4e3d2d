//! Totals of the run: energy and cost of the cluster compared with the integral of its readings, and with `lsim`'s
//! figures for its history.

use std::path::Path;

use limo_model::JobEnd;
use limo_tests::Submitter;
use serde_json::Value;

use crate::claims::Verdict;
use crate::site;
use crate::timeline::While;
use crate::world::{JobHistory, NodeHistory, World};

/// Tolerated relative difference of energy: the belief includes a start before a reading shows it.
const PART: f64 = 0.03;

/// Longest time between two readings of a node that the master hears.
const SILENT_MS: i64 = 2_500;

/// Checks the final values of `lconf status`, then those of `lsim`.
pub fn check(verdict: &mut Verdict<'_>, operator: &Submitter, state_dir: &Path) {
    let status = json(operator, "lconf", &["status", "--json"]);
    let now = status["now_unix_ms"].as_i64().unwrap_or(0);
    let drawn = Drawn::by(verdict.world, now);
    let near = |claimed: &Value, (known, of, unseen): (f64, f64, f64)| {
        claimed.as_f64().is_some_and(|claimed| (claimed - known).abs() < PART * of + unseen)
    };
    let energy = (drawn.joules, drawn.joules, drawn.unseen_joules);
    verdict.claim("energy of the cluster", near(&status["energy_j"], energy), || {
        format!("{}, its meters showed {drawn:?}", status["energy_j"])
    });
    let cost = (drawn.euros, drawn.turnover, drawn.unseen_euros);
    verdict.claim("cost of the cluster", near(&status["cost"], cost), || {
        format!("{}, its meters showed {drawn:?}", status["cost"])
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
    /// Energy of jobs on nodes that sent no readings: the last one may be from before their start or after it.
    unseen_joules: f64,
    /// Highest amount paid or earned for it.
    unseen_euros: f64,
}

impl Drawn {
    fn by(world: &World, end: i64) -> Self {
        let mut drawn = Self::default();
        for node in &world.nodes {
            let readings: Vec<(i64, f64)> = node.reading.steps().map(|(at, draw)| (at, draw.watts())).collect();
            let ends = readings.iter().skip(1).map(|(at, _)| *at).chain([end]);
            for ((from, watts), to) in readings.iter().zip(ends) {
                let span = While { from: *from, to };
                let seconds = (to - from) as f64 / 1e3;
                let unseen = if to - from > SILENT_MS { unseen(node, span, *watts) } else { 0.0 };
                drawn.joules += watts * seconds;
                drawn.unseen_joules += unseen * seconds;
                for price_seconds in world.price_seconds(span) {
                    drawn.euros += watts * price_seconds / 3.6e9;
                    drawn.turnover += watts * price_seconds.abs() / 3.6e9;
                    drawn.unseen_euros += unseen * price_seconds.abs() / 3.6e9;
                }
            }
        }
        drawn
    }
}

/// Returns the highest difference between a reading and the draw of the jobs on a node in a time span, in watts.
fn unseen(node: &NodeHistory, of: While, reading: f64) -> f64 {
    let draws = node.jobs.during(of).map(|jobs| site::draw(jobs.values().sum()));
    draws.map(|draw| (draw - reading).abs()).fold(0.0, f64::max)
}
