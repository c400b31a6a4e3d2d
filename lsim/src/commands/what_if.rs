//! `lsim what-if`: simulates a cluster's history under another policy, budget, band or price, and compares it with the
//! original.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use limo_model::{Budget, Budgets, Overrides, Preset, Release, Span, Time};
use limo_sched::budget::possible;
use limo_sched::{Options, RestRule};
use serde_json::json;

use crate::engine::{SimulationError, simulate_load};
use crate::history::again::{Again, Otherwise, Sources};
use crate::history::figures::{EvictionSink, Evictions, Figures, as_json, table};
use crate::history::past::Past;
use crate::output::{Metrics, Output, beside};
use crate::record::{Heading, Sink, Summary, Window};
use crate::setup::options::choose_from;
use crate::setup::{Amount, Extent, Setting, files};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("otherwise").required(true).multiple(true))]
pub struct Arguments {
    /// State directory of a master, which may be running, or the file journal.db
    #[arg(long, value_name = "STATE_DIR")]
    from: PathBuf,
    /// Policy, one of `lsim policies` [default: the recorded policies]
    #[arg(long, value_name = "NAME", group = "otherwise")]
    policy: Option<Preset>,
    /// Part that replaces one of the policy, such as idle=power-off; without --policy, other parts stay as they were
    /// at the end
    #[arg(long, value_name = "PART=RULE", group = "otherwise")]
    part: Vec<Setting>,
    /// Option of the policy; other options stay as they were at the end
    #[arg(long, value_name = "KEY=VALUE", group = "otherwise")]
    set: Vec<Setting>,
    /// Energy for one period: 40MWh, or 80% of what the cluster could use
    #[arg(long, value_name = "ENERGY|N%", group = "otherwise", conflicts_with = "budgets")]
    budget: Option<Amount>,
    /// Period of --budget from the begin of the history, 2d..5d [default: all of it]
    #[arg(long, value_name = "FROM..UNTIL", requires = "budget")]
    period: Option<Extent>,
    /// Budgets for successive periods: a CSV file with from,until,energy_kwh
    #[arg(long, value_name = "FILE", group = "otherwise")]
    budgets: Option<PathBuf>,
    /// Release of these budgets over their periods: even or by-price [default: even]
    #[arg(long, value_name = "RULE")]
    release: Option<Release>,
    /// Lower and upper limits of the draw: a CSV file with time,low_w,high_w
    #[arg(long, value_name = "FILE", group = "otherwise")]
    limits: Option<PathBuf>,
    /// Prices: a CSV file with time,price_eur_per_mwh
    #[arg(long, value_name = "FILE", group = "otherwise")]
    prices: Option<PathBuf>,
    /// Folder for jobs.csv, draw.csv, schedule.json and report.html of the simulation with these changes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the result in the folder
    #[arg(long, requires = "out")]
    replace: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the simulations.
///
/// # Errors
/// If a journal or a file cannot be read, or something cannot be simulated or written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let past = Past::read(&arguments.from)?;
    let mut notes = Vec::new();
    let otherwise = otherwise(arguments, &past, &mut notes)?;
    let (same, _) = simulated(&past, &Otherwise::default(), None, false)?;
    let (other, sources) = simulated(&past, &otherwise, arguments.out.as_deref(), arguments.replace)?;
    notes.extend(told(&past, sources));
    let name = otherwise.policy.map_or_else(|| "otherwise".to_owned(), |(preset, _)| preset.name().to_owned());
    let columns = [("as it was".to_owned(), &past.figures), ("simulated as it was".to_owned(), &same), (name, &other)];
    if arguments.json {
        let Sources { measured, profiles, unscaled, estimated, unsteady, stretched } = sources;
        let times = json!({
            "measured": measured, "profiles": profiles, "unscaled": unscaled, "estimated": estimated,
            "unsteady": unsteady, "stretched": stretched,
        });
        println!("{:#}", as_json(&columns, &times, &notes));
    } else {
        print!("{}", table(&columns));
        notes.iter().for_each(|note| println!("note: {note}"));
    }
    if let Some(out) = &arguments.out {
        eprintln!("lsim: the results are in {}", out.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Simulates the whole history.
fn simulated(past: &Past, otherwise: &Otherwise, out: Option<&Path>, replace: bool) -> Result<(Figures, Sources)> {
    let again = Again::new(past, otherwise);
    let heading = heading(past, otherwise);
    let figures = |metrics: &Metrics, (summary, evictions): (Summary, Evictions)| {
        Figures::of(metrics, summary.budgets, summary.end - past.start, evictions)
    };
    let figures = match out {
        Some(out) => {
            let mut output = Output::create(out, replace, heading)?;
            let simulated = beside(&mut output, |records| into_sink(&again, records))?;
            figures(output.metrics(), simulated)
        }
        None => {
            let mut metrics = Metrics::new(&heading);
            let simulated = into_sink(&again, &mut metrics)?;
            figures(&metrics, simulated)
        }
    };
    Ok((figures, again.sources()))
}

fn into_sink<S: Sink>(again: &Again, sink: &mut S) -> Result<(Summary, Evictions), SimulationError> {
    let mut sink = EvictionSink { sink, evictions: Evictions::new() };
    let summary = simulate_load(again, again.rules(), &mut sink)?;
    Ok((summary, sink.evictions))
}

fn heading(past: &Past, otherwise: &Otherwise) -> Heading {
    let budgets = otherwise.budgets.iter().flatten();
    let (first, last) = (budgets.clone().next(), budgets.last());
    Heading {
        workload: "history".to_owned(),
        platform: format!("{} nodes", past.nodes.len()),
        processors: u32::try_from(past.platform.cores()).unwrap_or(u32::MAX),
        policy: otherwise.policy.map_or(past.preset, |(preset, _)| preset).name().to_owned(),
        options: Vec::new(),
        seed: None,
        start: past.start,
        window: first.zip(last).map(|(first, last)| Window { from: first.from, until: last.until }),
    }
}

/// Reads the changed settings from the arguments.
fn otherwise(arguments: &Arguments, past: &Past, notes: &mut Vec<String>) -> Result<Otherwise> {
    let policy = if arguments.policy.is_some() || !arguments.set.is_empty() || !arguments.part.is_empty() {
        let preset = arguments.policy.unwrap_or(past.preset);
        // As with `lconf set policy`, another policy has none of the parts that were chosen with the last one.
        let parts = if arguments.policy.is_some() { past.options.parts } else { past.options.overrides() };
        let options = Options { parts, chosen: Overrides::default(), ..past.options };
        let (options, more) = choose_from(options, preset, (&arguments.part, &arguments.set))?;
        notes.extend(more);
        Some((preset, options))
    } else {
        None
    };
    let clock = files::clock(Some(past.start));
    let limits = arguments.limits.as_deref().map(|path| files::limits(path, clock)).transpose()?;
    let prices = arguments.prices.as_deref().map(|path| files::prices(path, clock)).transpose()?;
    let budgets = budgets(arguments, past)?;
    let preset = policy.map_or(past.preset, |(preset, _)| preset);
    let options = policy.map_or(past.options, |(_, options)| options);
    let (rest, parts) = (options.rest_rule(), options.parts_of(preset));
    if let Some(budgets) = budgets.as_ref().filter(|_| parts.keeps_budget()) {
        let floor = past.platform.groups.iter().map(|group| match group.rest {
            Some(of) if rest != RestRule::Never => of.draw.min(group.draw.idle),
            _ => group.draw.idle,
        });
        let floor = floor.sum();
        budgets.iter().try_for_each(|budget| possible(budget, floor))?;
    } else if budgets.is_some() {
        notes.push(format!("`{preset}` ignores budgets: the energy is only counted"));
    }
    Ok(Otherwise { policy, budgets, limits, prices })
}

fn budgets(arguments: &Arguments, past: &Past) -> Result<Option<Budgets>> {
    let release = arguments.release.unwrap_or_default();
    if let Some(path) = &arguments.budgets {
        return files::budgets(path, files::clock(Some(past.start)), release).map(Some);
    }
    let Some(amount) = arguments.budget else {
        if arguments.release.is_some() {
            bail!("--release needs a budget: add --budget or --budgets");
        }
        return Ok(None);
    };
    let (from, until): (Time, Time) = match arguments.period {
        Some(Extent { from, until }) => (past.start + from, past.start + until),
        // A period must not be empty.
        None => (past.start, past.end.max(past.start + Span::from_ms(1))),
    };
    let full = past.platform.groups.iter().map(|group| group.believed.busy).sum();
    let energy = amount.energy(full, until - from);
    Ok(Some(Budgets::new(vec![Budget { from, until, energy, release }])?))
}

/// Notes the sources of the figures.
fn told(past: &Past, sources: Sources) -> Vec<String> {
    let Sources { measured, profiles, unscaled, estimated, unsteady, stretched } = sources;
    let mut notes = vec![format!(
        "running times: {measured} as measured, {profiles} on another unit or cap by their profiles, {unscaled} on \
         another one as measured for lack of profiles, {estimated} estimated (never ran, were cancelled or are not over)"
    )];
    if unsteady + stretched > 0 {
        notes.push(format!(
            "{} jobs were held at moved caps, so their running times were not measured: {unsteady} \
             are as their profiles say, {stretched} without a profile took as long as they were on their units",
            unsteady + stretched
        ));
    }
    if past.unfinished > 0 {
        notes.push(format!("{} jobs were unfinished at the end of the journal", past.unfinished));
    }
    if past.differences > 0 {
        notes.push(format!(
            "{} entries of the journal differ when replayed: see `lsim replay`; the history is as recorded",
            past.differences
        ));
    }
    notes
}
