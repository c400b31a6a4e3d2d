//! Translates a setup for the scheduler that was published in 2017, and refuses options that it does not have.
//! Simulates nothing.

use anyhow::{Result, bail};
use limo_model::{Preset, Span};
use limo_sched::RestRule;
use lsim::setup::{Amount, Loaded, Setup};

use crate::y2017::{Algorithm, Config};

/// The days of the budget of energy-budget-2017, section V-C.
const FROM: Span = Span::from_secs(2 * 86_400);
const UNTIL: Span = Span::from_secs(5 * 86_400);

/// Returns the published algorithm for a setup.
///
/// # Errors
/// If the policy is missing or was not published, or the published code does not have an option.
pub fn algorithm(setup: &Setup) -> Result<Algorithm> {
    let algorithm = match setup.policy {
        Some(Preset::Easy) => Algorithm::Easy,
        Some(Preset::Powercap) => Algorithm::PowerCap,
        Some(Preset::Reducepc) => Algorithm::ReducePc,
        Some(Preset::Energybud) => Algorithm::EnergyBud,
        Some(other) => {
            bail!("--compat 2017: `{other}` was not published then (easy, powercap, reducepc, energybud were)")
        }
        None => bail!("no policy: name one with --policy"),
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
        ("--explore", setup.explore.is_some()),
        ("--queues", setup.queues.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        bail!("--compat 2017: the published code does not support {option}; omit it");
    }
    if let Some(other) = setup.part.iter().chain(&setup.set).find(|setting| setting.key != "rest") {
        bail!("--compat 2017: the published code does not support --set {}; omit it", other.key);
    }
    Ok(algorithm)
}

/// Returns the configuration of the published simulator.
///
/// # Errors
/// If the published code does not have the budgets or the rules for idle nodes.
pub fn config(setup: &Setup, algorithm: Algorithm, loaded: &Loaded) -> Result<Config> {
    let shutdown = match loaded.options.rest {
        RestRule::Never => false,
        RestRule::IdleInBudget(Span::ZERO) => true,
        _ => {
            bail!("--compat 2017: nodes slept at once and in the budget's period only: write --set rest=idle-in-budget")
        }
    };
    // A node has one processor here, and there are at most a million nodes.
    let processors = u32::try_from(loaded.platform.cores()).unwrap_or(u32::MAX);
    Ok(Config::published(processors, algorithm, shutdown, percent(setup, algorithm)?))
}

fn percent(setup: &Setup, algorithm: Algorithm) -> Result<u32> {
    let whole = match setup.budget {
        None if algorithm == Algorithm::Easy => return Ok(100),
        Some(Amount::Percent(ratio)) if ratio.numerator % ratio.denominator == 0 => ratio.numerator / ratio.denominator,
        _ => 0,
    };
    match u32::try_from(whole) {
        Ok(percent @ 1..=100) if setup.from == Some(FROM) && setup.until == Some(UNTIL) => Ok(percent),
        _ => bail!(
            "--compat 2017: budgets were whole percents of days 2 to 5: write for example --budget 80% --from 2d --until 5d"
        ),
    }
}
