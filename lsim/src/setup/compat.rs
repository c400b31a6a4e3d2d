//! What a setup means with `compat=2017`, and which of its options that mode has nothing for. Simulates nothing.

use anyhow::{Result, bail};
use limo_model::{Preset, Span};
use limo_sched::{Options, RestRule};
use limo_trace::Platform;

use super::{Amount, Setup};
use crate::y2017::{Algorithm, Config};

/// The days of the budget of energy-budget-2017, section V-C.
const FROM: Span = Span::from_secs(2 * 86_400);
const UNTIL: Span = Span::from_secs(5 * 86_400);

/// # Errors
/// Options that the published code has nothing for.
pub fn config(setup: &Setup, preset: Preset, options: &Options, platform: &Platform) -> Result<Config> {
    let algorithm = match preset {
        Preset::Easy => Algorithm::Easy,
        Preset::Powercap => Algorithm::PowerCap,
        Preset::Reducepc => Algorithm::ReducePc,
        Preset::Energybud => Algorithm::EnergyBud,
        _ => bail!("--set compat=2017: `{preset}` was not published then (easy, powercap, reducepc, energybud were)"),
    };
    let given = [
        ("--platform", setup.platform.is_some()),
        ("--budgets", setup.budgets.is_some()),
        ("--release", setup.release.is_some()),
        ("--prices", setup.prices.is_some()),
        ("--limits", setup.limits.is_some()),
        ("--profiles", setup.profiles.is_some()),
        ("--suspendable", setup.suspendable.is_some()),
        ("--requeueable", setup.requeueable.is_some()),
        ("--fillers", setup.fillers.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        bail!("--set compat=2017: the published code has nothing for {option}; leave it out");
    }
    if let Some(other) = setup.set.iter().find(|setting| !matches!(setting.key.as_str(), "compat" | "rest")) {
        bail!("--set compat=2017: the published code has nothing for --set {}; leave it out", other.key);
    }
    let shutdown = match options.rest {
        RestRule::Never => false,
        RestRule::IdleInBudget(Span::ZERO) => true,
        _ => bail!(
            "--set compat=2017: nodes slept at once and in the budget's period only: write --set rest=idle-in-budget"
        ),
    };
    // A node has one processor here, and there are at most a million.
    let processors = u32::try_from(platform.cores()).unwrap_or(u32::MAX);
    Ok(Config::published(processors, algorithm, shutdown, percent(setup, preset)?))
}

fn percent(setup: &Setup, preset: Preset) -> Result<u32> {
    let whole = match setup.budget {
        None if preset == Preset::Easy => return Ok(100),
        Some(Amount::Percent(ratio)) if ratio.numerator % ratio.denominator == 0 => ratio.numerator / ratio.denominator,
        _ => 0,
    };
    match u32::try_from(whole) {
        Ok(percent @ 1..=100) if setup.from == Some(FROM) && setup.until == Some(UNTIL) => Ok(percent),
        _ => bail!(
            "--set compat=2017: budgets were whole percents of days 2 to 5: write for example --budget 80% --from 2d --until 5d"
        ),
    }
}
