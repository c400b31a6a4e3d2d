//! `lprof sweep`: one application at several caps, from a list or by a search, and the best of them.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use limo_model::{Power, UnitError};

use super::laboratory::LaboratoryArguments;
use super::measure::EXIT_CODES;
use super::subject::{Judged, Subject, SubjectArguments, finish};
use crate::explore::golden::Search;
use crate::explore::grid::{self, MOST_CAPS};
use crate::explore::objective::{Candidate, Objective};
use crate::measure::statistics::median;
use crate::report::{self, Best};
use crate::results::{Measurement, RunRecord};

/// Number of candidates that a search measures again.
const AGAIN: usize = 2;

/// Caps of a grid: `8W,12W,16W`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CapList(Vec<Power>);

impl FromStr for CapList {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        text.split(',').map(|cap| cap.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

/// Arguments of `lprof sweep`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
#[group(id = "caps", required = true, multiple = false, args = ["grid", "search"])]
pub struct Arguments {
    #[command(flatten)]
    laboratory: LaboratoryArguments,
    #[command(flatten)]
    subject: SubjectArguments,
    /// Caps to measure, such as 8W,12W,16W: in random order, with runs without a cap before and after; the one with
    /// the least energy of the node is the best
    #[arg(long, value_name = "POWER,...")]
    grid: Option<CapList>,
    /// Search for the best cap: energy (of the node), above-idle, edp, time<=5% (least energy that is at most 5% slower)
    /// or cost:KWH,HOUR (costs of a kWh and of an hour of the node)
    #[arg(long, value_name = "OBJECTIVE")]
    search: Option<Objective>,
    /// Seed of the order of caps [default: from the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Measured caps; the first is without a cap.
struct Sweep<'a> {
    subject: &'a mut Subject,
    objective: Objective,
    judged: Vec<Judged>,
}

/// Runs the command.
///
/// # Errors
/// If the measurement fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let seed = arguments.seed.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    });
    let laboratory = arguments.laboratory.open()?;
    let (low, high) = laboratory.testbed.caps.context(
        "the unit cannot be capped: add for example `--unit cpu=rapl`; `lslave --probe` lists the caps of a machine",
    )?;
    if let Some(CapList(caps)) = &arguments.grid {
        if caps.len() > MOST_CAPS {
            bail!("the grid has {} caps: the limit is {MOST_CAPS}", caps.len());
        }
        if let Some(cap) = caps.iter().find(|cap| **cap < low || **cap > high) {
            bail!("the cap {cap} is not possible: the unit can be capped at {low} to {high}");
        }
    }
    let mut subject = arguments.subject.warm_up(laboratory, Some(seed))?;
    let objective = arguments.search.unwrap_or(Objective::Energy);
    let mut sweep = Sweep { subject: &mut subject, objective, judged: Vec::new() };
    let result = match &arguments.grid {
        Some(CapList(caps)) => sweep.grid(caps, seed),
        None => sweep.search((low, high)),
    };
    let result = result.and_then(|()| sweep.tell(arguments.subject.json, seed));
    finish(subject, result)
}

impl Sweep<'_> {
    /// Measures without a cap, the caps in random order, and without a cap again.
    fn grid(&mut self, caps: &[Power], seed: u64) -> anyhow::Result<()> {
        let mut order = grid::order(caps, seed);
        order.pop();
        for cap in order {
            self.measure(cap)?;
        }
        let last = self.subject.measure(None, None, Vec::new())?;
        self.subject.compare_last(&mut self.judged[0], &last);
        self.subject.store(&self.judged[0].measurement)
    }

    /// Searches, and measures the best two again.
    fn search(&mut self, (low, high): (Power, Power)) -> anyhow::Result<()> {
        self.measure(None)?;
        let draw = self.draw(&self.judged[0].measurement.runs).min(high);
        let Some(mut search) = Search::new(low, draw) else {
            let progress = &self.subject.laboratory.progress;
            progress.say(&format!("no cap has an effect: the command draws {draw}, and the lowest cap is {low}"));
            return Ok(());
        };
        while let Some(cap) = search.next() {
            let at = self.measure(Some(cap))?;
            let (Some(uncapped), Some(candidate)) = (candidate(&self.judged[0]), candidate(&self.judged[at])) else {
                bail!("{}", self.judged[at].measurement.reasons.join("; "));
            };
            search.tell(self.objective.value(&candidate, &uncapped));
        }
        for at in self.best_two() {
            let (cap, runs) = (self.judged[at].measurement.cap(), self.judged[at].measurement.runs.clone());
            self.judged[at] = self.subject.measure(cap, None, runs)?;
            self.settle(at)?;
        }
        Ok(())
    }

    /// Measures at one cap; returns its index. A cap that was measured before is not measured again.
    fn measure(&mut self, cap: Option<Power>) -> anyhow::Result<usize> {
        if let Some(at) = self.judged.iter().position(|judged| judged.measurement.cap() == cap) {
            return Ok(at);
        }
        let judged = self.subject.measure(cap, None, Vec::new())?;
        self.judged.push(judged);
        let at = self.judged.len() - 1;
        self.settle(at)?;
        Ok(at)
    }

    /// Judges the effect of a cap, and stores the measurement.
    fn settle(&mut self, at: usize) -> anyhow::Result<()> {
        if let [first, others @ ..] = &mut self.judged[..]
            && at > 0
        {
            self.subject.compare(&mut others[at - 1], first);
        }
        self.subject.store(&self.judged[at].measurement)
    }

    /// Returns the draw above which a cap does nothing: the highest one of a typical run. A cap of emulated hardware
    /// is above idle, that of a real unit includes its idle draw, and the node draws at least as much as the unit.
    fn draw(&self, runs: &[RunRecord]) -> Power {
        let is_emulated = self.subject.laboratory.testbed.is_emulated();
        let highest = |run: &RunRecord| if is_emulated { run.above_w() } else { run.highest_w() };
        let draws: Vec<f64> = runs.iter().filter(|run| !run.is_outlier).map(highest).collect();
        Power::from_mw((median(&draws).unwrap_or_default() * 1000.0) as i64)
    }

    /// Returns the measurements that may be chosen: without a cap, and with a cap that can be trusted.
    fn eligible(&self) -> Vec<(usize, Candidate)> {
        let judged = self.judged.iter().enumerate();
        let eligible = judged.filter(|(at, judged)| *at == 0 || judged.measurement.is_good());
        eligible.filter_map(|(at, judged)| Some((at, candidate(judged)?))).collect()
    }

    /// Returns the indices of the best measurements, best first.
    fn best_two(&self) -> Vec<usize> {
        let mut eligible = self.eligible();
        let Some(uncapped) = eligible.first().map(|(_, uncapped)| *uncapped) else { return Vec::new() };
        let value = |candidate: &Candidate| self.objective.value(candidate, &uncapped);
        eligible.sort_by(|(_, one), (_, other)| value(one).total_cmp(&value(other)));
        eligible.into_iter().take(AGAIN).map(|(at, _)| at).collect()
    }

    /// Returns true if all runs can be trusted. A cap without effect alone is accepted, because it may be above the draw; but
    /// if no cap has one, the hardware ignores them.
    fn is_good(&self) -> bool {
        let caps = self.judged.get(1..).unwrap_or_default();
        let is_obeyed = caps.is_empty() || caps.iter().any(|judged| judged.has_effect);
        is_obeyed && self.judged.iter().all(|judged| judged.faults == 0)
    }

    /// Prints the measurements and the best cap. Returns true if all can be trusted.
    fn tell(&self, as_json: bool, seed: u64) -> anyhow::Result<bool> {
        let mut measurements: Vec<&Measurement> = self.judged.iter().map(|judged| &judged.measurement).collect();
        measurements.sort_by_key(|measurement| measurement.cap().unwrap_or(Power::MAX));
        let eligible: Vec<Candidate> = self.eligible().into_iter().map(|(_, candidate)| candidate).collect();
        let best = self.objective.best(&eligible).zip(eligible.first()).map(|(best, uncapped)| Best {
            cap_w: best.cap.map(Power::watts),
            saved: 1.0 - best.node_j / uncapped.node_j,
            longer: best.time_s / uncapped.time_s - 1.0,
        });
        self.subject.laboratory.progress.end();
        if as_json {
            println!("{}", report::json(&measurements, Some(seed), best)?);
        } else {
            print!("{}", report::table(&measurements));
            if let Some(best) = best {
                println!("{}", words(best));
            }
        }
        self.subject.say_where();
        Ok(self.is_good())
    }
}

fn candidate(judged: &Judged) -> Option<Candidate> {
    let summary = judged.summary()?;
    let (time_s, node_j, above_j) = (summary.duration_s, summary.node_j, summary.energy_j);
    Some(Candidate { cap: judged.measurement.cap(), time_s, node_j, above_j })
}

fn words(best: Best) -> String {
    let (saved, longer) = (best.saved * 100.0, best.longer * 100.0);
    match best.cap_w {
        None => "best: no cap".to_owned(),
        Some(watts) => {
            format!("best: {watts} W, which saves {saved:.1} % of the node's energy and takes {longer:.1} % longer")
        }
    }
}
