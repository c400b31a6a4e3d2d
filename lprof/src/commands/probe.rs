//! `lprof probe`: the time behaviour of the meter, and whether a cap has an effect, from the answer to a load.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use limo_model::{Power, Span};
use limo_power::cores;
use serde::Serialize;

use super::laboratory::LaboratoryArguments;
use crate::machine::Setting;
use crate::measure::process::MeasuredCommand;
use crate::measure::run::Laboratory;
use crate::measure::step::{StepAnswer, answer, steady_w};
use crate::measure::verdict::UNTRUSTED;
use crate::measure::window::{Sample, TimeRange};

/// Interval between samples: as short as a meter may be read.
const INTERVAL: Duration = Duration::from_millis(20);

/// Interval between samples of an energy counter.
const COUNTER_INTERVAL_S: f64 = 0.1;

/// Least part of the load's draw above idle by which a cap must lower it.
const LEAST_EFFECT: f64 = 0.02;

/// Exit codes, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  the meter shows the load
  3  it does not, or the cap has no effect
  1  the load, the meter or the cap failed";

/// Arguments of `lprof probe`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(flatten)]
    laboratory: LaboratoryArguments,
    /// Duration of the load; longer than window and lag of the meter
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    load: Span,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Command with a steady draw, instead of a loop on each core; emulated hardware needs one
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Effect of the lowest cap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct CapEffect {
    lowest_w: f64,
    highest_w: f64,
    /// Draw of the load at the lowest cap.
    capped_w: f64,
    bites: bool,
}

#[derive(Debug, Serialize)]
struct Sheet {
    schema: u32,
    meter: String,
    hardware: String,
    emulated: bool,
    /// True if the meter has an energy counter.
    counter: bool,
    #[serde(flatten)]
    step: StepAnswer,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<CapEffect>,
}

/// Runs the command.
///
/// # Errors
/// If the load, the meter or the cap fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.command.is_empty() && arguments.laboratory.is_emulated() {
        bail!("emulated hardware does not see the load of this program: add `-- COMMAND`");
    }
    let mut laboratory = arguments.laboratory.open_sampled(Some(INTERVAL))?;
    let result = probe(arguments, &mut laboratory);
    let failures = laboratory.testbed.close();
    laboratory.progress.end();
    let is_good = result?;
    anyhow::ensure!(failures.is_empty(), "the values before the cap are not restored: {}", failures.join("; "));
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(UNTRUSTED) })
}

fn probe(arguments: &Arguments, laboratory: &mut Laboratory) -> anyhow::Result<bool> {
    let (samples, load) = loaded(arguments, laboratory)?;
    let Some(step) = answer(&samples, load, laboratory.timing.idle_s) else {
        let shown = "the meter does not show the load: it measures something else, or the load is too short (--load)";
        laboratory.progress.say(shown);
        return Ok(false);
    };
    let cap = match laboratory.testbed.unit().caps {
        Some(range) => Some(effect(arguments, laboratory, range, &step)?),
        None => None,
    };
    let testbed = &laboratory.testbed;
    let sheet = Sheet {
        schema: 1,
        meter: testbed.meter.clone(),
        hardware: testbed.unit().hardware.clone(),
        emulated: testbed.is_emulated(),
        counter: laboratory.recorder.is_counted(),
        step,
        cap,
    };
    laboratory.progress.end();
    if arguments.json {
        println!("{}", serde_json::to_string(&sheet)?);
    } else {
        print!("{}", words(&sheet));
    }
    Ok(cap.is_none_or(|cap| cap.bites))
}

/// Idle, load, idle. Returns the samples and the time of the load.
fn loaded(arguments: &Arguments, laboratory: &Laboratory) -> anyhow::Result<(Vec<Sample>, TimeRange)> {
    let (idle_s, pad_s) = (laboratory.timing.idle_s, laboratory.timing.sheet.pad_s());
    let begin_s = laboratory.now_s();
    laboratory.progress.show("idle");
    laboratory.pause_until(begin_s + idle_s)?;
    laboratory.progress.show("load");
    let load = load(arguments, laboratory)?;
    laboratory.progress.show("idle");
    let end_s = load.end_s + pad_s + idle_s;
    laboratory.pause_until(end_s)?;
    laboratory.recorder.wait(end_s)?;
    Ok((laboratory.recorder.samples(TimeRange { begin_s, end_s }), load))
}

fn load(arguments: &Arguments, laboratory: &Laboratory) -> anyhow::Result<TimeRange> {
    let clock = laboratory.recorder.clock();
    if !arguments.command.is_empty() {
        let command = MeasuredCommand::new(arguments.command.clone(), None, None)?;
        return command.run(1, &laboratory.testbed, (&laboratory.events, clock)).map(|(range, _)| range);
    }
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let paused = thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(std::array::from_fn::<f64, 64, _>(|at| (at as f64).sqrt().sin()));
                }
            });
        }
        let paused = laboratory.events.pause(Duration::from_secs_f64(arguments.load.secs().max(0.0)));
        stop.store(true, Ordering::Relaxed);
        paused
    });
    paused?;
    Ok(TimeRange { begin_s: clock.seconds(begin), end_s: clock.seconds(Instant::now()) })
}

/// Runs the load at the lowest cap.
fn effect(
    arguments: &Arguments,
    laboratory: &mut Laboratory,
    (low, high): (Power, Power),
    free: &StepAnswer,
) -> anyhow::Result<CapEffect> {
    laboratory.set(Setting::Cap(low))?.context("the lowest cap")?;
    let (samples, load) = loaded(arguments, laboratory)?;
    let capped_w = steady_w(&samples, load).context("the load was too short for the meter: set a longer --load")?;
    let bites = free.load_w - capped_w > LEAST_EFFECT * (free.load_w - free.idle_w);
    Ok(CapEffect { lowest_w: low.watts(), highest_w: high.watts(), capped_w, bites })
}

fn words(sheet: &Sheet) -> String {
    let step = &sheet.step;
    let span = |seconds: f64| Span::from_ms((seconds * 1000.0).round() as i64);
    let kind = if sheet.counter { "an energy counter" } else { "draws" };
    // A counter misses nothing between two samples.
    let window_s = if sheet.counter { 0.0 } else { step.window_s };
    let usual_s = if sheet.counter { COUNTER_INTERVAL_S } else { step.window_s };
    let interval_s = usual_s.max(step.period_s.unwrap_or_default()).max(INTERVAL.as_secs_f64());
    let period = step.period_s.map_or_else(|| "unknown: the values hardly change".to_owned(), |s| span(s).to_string());
    let emulated = if sheet.emulated { " (emulated)" } else { "" };
    let mut text = format!(
        "meter    {}, {kind}{emulated}\nhardware {}\nperiod   {}\nwindow   {}\nlag      {}\n",
        sheet.meter,
        sheet.hardware,
        period,
        span(window_s),
        span(step.lag_s)
    );
    text += &format!(
        "idle     {:.2} W, noise {:.2} W, drift {:+.2} W\nload     {:.2} W\n",
        step.idle_w, step.noise_w, step.drift_w, step.load_w
    );
    if let Some(cap) = &sheet.cap {
        let verdict = if cap.bites { "it has an effect" } else { "it has NO effect" };
        text += &format!(
            "cap      {} W to {} W; at {} W the load draws {:.2} W: {verdict}\n",
            cap.lowest_w, cap.highest_w, cap.lowest_w, cap.capped_w
        );
    }
    text + &format!("options  --interval {} --window {} --lag {}\n", span(interval_s), span(window_s), span(step.lag_s))
}
