//! `lprof sweep`: one application at several settings, from a list or by a search, in one or several variants, and the
//! best of them.

mod settings;
mod swept;
mod variant;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use limo_model::Power;
use limo_power::ClockPair;

use super::laboratory::LaboratoryArguments;
use super::measure::EXIT_CODES;
use super::subject::{Subject, SubjectArguments, finish};
use crate::explore::golden::Search;
use crate::explore::grid;
use crate::explore::objective::Objective;
use crate::machine::{Setting, Testbed};
use crate::measure::statistics::median;
use crate::report::{self, Best};
use crate::results::{Measurement, RunRecord};
use settings::{SettingArguments, SettingPlan};
use swept::{Swept, candidate};
use variant::Variant;

/// Number of candidates that a search measures again.
const AGAIN: usize = 2;

/// Most variants beside the command.
const MOST_VARIANTS: usize = 16;

/// Arguments of `lprof sweep`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(flatten)]
    laboratory: LaboratoryArguments,
    #[command(flatten)]
    subject: SubjectArguments,
    #[command(flatten)]
    settings: SettingArguments,
    /// Variant of the command for another unit, such as 'gpu0=./lud-cuda 4096': it is measured like the command, and is the
    /// same application and size class; HARDWARE is the name or the hardware of a unit
    #[arg(long, value_name = "HARDWARE=COMMAND")]
    variant: Vec<Variant>,
    /// Seed of the order of settings [default: from the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// The command, or a variant of it: its unit, its words unless it is the command, and what is measured.
struct PlannedVariant {
    unit: usize,
    argv: Option<Vec<String>>,
    plan: SettingPlan,
}

/// The variant that is being measured.
struct Sweep<'a> {
    subject: &'a mut Subject,
    objective: Objective,
    found: Swept,
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
    let mut laboratory = arguments.laboratory.open()?;
    let planned = planned(arguments, &mut laboratory.testbed)?;
    let mut subject = arguments.subject.warm_up(laboratory, Some(seed))?;
    let objective = arguments.settings.objective();
    let result = all(&mut subject, planned, objective, seed);
    let result = result.and_then(|found| tell(&subject, &found, objective, (arguments.subject.json, seed)));
    finish(subject, result)
}

/// Plans the command and its variants before anything is measured.
fn planned(arguments: &Arguments, testbed: &mut Testbed) -> anyhow::Result<Vec<PlannedVariant>> {
    let variants = &arguments.variant;
    if variants.len() > MOST_VARIANTS {
        bail!("there are {} variants: the limit is {MOST_VARIANTS}", variants.len());
    }
    let first = testbed.find(&testbed.unit().name.clone())?;
    let mut wanted = vec![(first, None)];
    for variant in variants {
        let unit = testbed.find(&variant.hardware)?;
        if wanted.iter().any(|(known, _)| testbed.units()[*known].hardware == testbed.units()[unit].hardware) {
            let hardware = &testbed.units()[unit].hardware;
            bail!("two commands are for {hardware}: profiles of one application differ by hardware; use another --app");
        }
        wanted.push((unit, Some(variant.argv.clone())));
    }
    let several = wanted.len() > 1;
    let mut planned = Vec::new();
    for (unit, argv) in wanted {
        testbed.select(unit);
        planned.push(PlannedVariant { unit, argv, plan: arguments.settings.plan(testbed, several)? });
    }
    testbed.select(first);
    Ok(planned)
}

/// Measures the command and its variants.
fn all(
    subject: &mut Subject,
    planned: Vec<PlannedVariant>,
    objective: Objective,
    seed: u64,
) -> anyhow::Result<Vec<Swept>> {
    let mut all = Vec::new();
    for PlannedVariant { unit, argv, plan } in planned {
        if let Some(argv) = argv {
            subject.change(unit, argv)?;
        }
        let (hardware, command) = subject.variant();
        let found = Swept { hardware, command, judged: Vec::new() };
        let mut sweep = Sweep { subject: &mut *subject, objective, found };
        match plan {
            SettingPlan::Grid(settings) => sweep.grid(&settings, seed)?,
            SettingPlan::SearchCaps(low, high) => sweep.search_caps((low, high))?,
            SettingPlan::SearchClocks(pairs) => sweep.search_clocks(&pairs)?,
        }
        all.push(sweep.found);
    }
    Ok(all)
}

impl Sweep<'_> {
    /// Measures the original values, the settings in random order, and the original values again.
    fn grid(&mut self, settings: &[Setting], seed: u64) -> anyhow::Result<()> {
        let mut order = grid::order(settings, seed);
        order.pop();
        for setting in order {
            self.measure(setting)?;
        }
        let last = self.subject.measure(Setting::Original, None, Vec::new())?;
        self.subject.compare_last(&mut self.found.judged[0], &last);
        self.subject.store(&self.found.judged[0].measurement)
    }

    /// Searches for the best cap, and measures the best two settings again.
    fn search_caps(&mut self, (low, high): (Power, Power)) -> anyhow::Result<()> {
        self.measure(Setting::Original)?;
        let draw = self.draw(&self.found.judged[0].measurement.runs).min(high);
        let Some(search) = Search::new(low.watts(), draw.watts()) else {
            let progress = &self.subject.laboratory.progress;
            progress.say(&format!("no cap has an effect: the command draws {draw}, and the lowest cap is {low}"));
            return Ok(());
        };
        // Controls take whole tenths of a watt.
        self.search(search, |watts| Setting::Cap(Power::from_mw((watts * 10.0).round() as i64 * 100)))?;
        self.measure_best_again()
    }

    /// Searches for the best graphics clock at each memory clock, and measures the best two settings again.
    fn search_clocks(&mut self, pairs: &[ClockPair]) -> anyhow::Result<()> {
        self.measure(Setting::Original)?;
        let memories: BTreeSet<u32> = pairs.iter().map(|pair| pair.memory_mhz).collect();
        for memory in memories {
            let clocks = || pairs.iter().filter(|pair| pair.memory_mhz == memory);
            let graphics = || clocks().map(|pair| f64::from(pair.graphics_mhz));
            let nearest = |mhz: f64| {
                let distance = |pair: &&ClockPair| (f64::from(pair.graphics_mhz) - mhz).abs();
                let nearest = clocks().min_by(|one, other| distance(one).total_cmp(&distance(other)));
                nearest.copied().map_or(Setting::Original, Setting::Clocks)
            };
            let (low, high) = (graphics().fold(f64::INFINITY, f64::min), graphics().fold(0.0, f64::max));
            match Search::new(low, high) {
                Some(search) => self.search(search, nearest)?,
                None => drop(self.measure(nearest(high))?),
            }
        }
        self.measure_best_again()
    }

    /// Measures the settings that a search asks for.
    fn search(&mut self, mut search: Search, setting: impl Fn(f64) -> Setting) -> anyhow::Result<()> {
        while let Some(value) = search.next() {
            let at = self.measure(setting(value))?;
            let judged = &self.found.judged;
            let (Some(uncapped), Some(candidate)) = (self.found.uncapped(), candidate(&judged[at])) else {
                bail!("{}", judged[at].measurement.reasons.join("; "));
            };
            search.tell(self.objective.value(&candidate, &uncapped));
        }
        Ok(())
    }

    fn measure_best_again(&mut self) -> anyhow::Result<()> {
        for at in self.found.best_few(self.objective, AGAIN) {
            let measurement = &self.found.judged[at].measurement;
            let (setting, runs) = (measurement.setting(), measurement.runs.clone());
            self.found.judged[at] = self.subject.measure(setting, None, runs)?;
            self.settle(at)?;
        }
        Ok(())
    }

    /// Measures at one setting; returns its index. A setting that was measured before is not measured again.
    fn measure(&mut self, setting: Setting) -> anyhow::Result<usize> {
        if let Some(at) = self.found.judged.iter().position(|judged| judged.measurement.setting() == setting) {
            return Ok(at);
        }
        let judged = self.subject.measure(setting, None, Vec::new())?;
        self.found.judged.push(judged);
        let at = self.found.judged.len() - 1;
        self.settle(at)?;
        Ok(at)
    }

    /// Judges the effect of a setting, and stores the measurement.
    fn settle(&mut self, at: usize) -> anyhow::Result<()> {
        if let [first, others @ ..] = &mut self.found.judged[..]
            && at > 0
        {
            self.subject.compare(&mut others[at - 1], first);
        }
        self.subject.store(&self.found.judged[at].measurement)
    }

    /// Returns the draw above which a cap does nothing: the highest one of a typical run. A cap of emulated hardware
    /// is above idle, that of a real unit includes its idle draw, and the node draws at least as much as the unit.
    fn draw(&self, runs: &[RunRecord]) -> Power {
        let is_emulated = self.subject.laboratory.testbed.is_emulated();
        let highest = |run: &RunRecord| if is_emulated { run.above_w() } else { run.highest_w() };
        let draws: Vec<f64> = runs.iter().filter(|run| !run.is_outlier).map(highest).collect();
        Power::from_mw((median(&draws).unwrap_or_default() * 1000.0) as i64)
    }
}

/// Prints the measurements and the best setting. Returns true if all can be trusted.
fn tell(subject: &Subject, all: &[Swept], objective: Objective, (as_json, seed): (bool, u64)) -> anyhow::Result<bool> {
    let best = best(all, objective);
    subject.laboratory.progress.end();
    if as_json {
        println!("{}", report::json(&sorted(all), Some(seed), best.as_ref())?);
    } else {
        for found in all {
            if all.len() > 1 {
                println!("{} on {}", found.command, found.hardware);
            }
            print!("{}", report::table(&sorted(std::slice::from_ref(found))));
            if let Some(best) = found.uncapped().and_then(|uncapped| found.best(objective, &uncapped)) {
                println!("{}", words(&best, false));
            }
        }
        if let Some(best) = best.filter(|_| all.len() > 1) {
            println!("{}", words(&best, true));
        }
    }
    subject.say_where();
    Ok(all.iter().all(Swept::is_good))
}

/// Returns the measurements of each variant, from the lowest cap or clock to none.
fn sorted(all: &[Swept]) -> Vec<&Measurement> {
    let of_one = |found| -> Vec<&Measurement> {
        let Swept { judged, .. }: &Swept = found;
        let mut measurements: Vec<&Measurement> = judged.iter().map(|judged| &judged.measurement).collect();
        measurements.sort_by_key(|of| (of.cap().unwrap_or(Power::MAX), of.clocks.is_none(), of.clocks));
        measurements
    };
    all.iter().flat_map(of_one).collect()
}

/// Returns the best setting of all variants, compared with the command without a cap.
fn best(all: &[Swept], objective: Objective) -> Option<Best> {
    let uncapped = all.first()?.uncapped()?;
    let value =
        |found: &&Swept| found.chosen(objective).map_or(f64::INFINITY, |chosen| objective.value(&chosen, &uncapped));
    let found = all.iter().min_by(|one, other| value(one).total_cmp(&value(other)))?;
    found.best(objective, &uncapped)
}

fn words(best: &Best, of_all: bool) -> String {
    let (saved, longer) = (best.saved * 100.0, best.longer * 100.0);
    let setting = match (best.cap_w, best.clocks) {
        (Some(watts), _) => format!("{watts} W"),
        (None, Some(pair)) => pair.to_string(),
        (None, None) => "no cap".to_owned(),
    };
    let effect = format!("saves {saved:.1} % of the node's energy and takes {longer:.1} % longer");
    match (of_all, setting.as_str()) {
        (true, _) => {
            format!("best of all: {setting} on {}, which {effect} than the command without a cap", best.hardware)
        }
        (false, "no cap") => "best: no cap".to_owned(),
        (false, _) => format!("best: {setting}, which {effect}"),
    }
}
