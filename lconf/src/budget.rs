//! Energy budgets: merges a change with the present periods, and shows them.

use std::path::Path;

use limo_client::{Clock, Failure, Master, marked, read_budgets};
use limo_model::{Budget, Budgets, Energy, Power, Release, Span, Time};
use limo_proto::{BudgetAccount, Change, Status};
use serde::Serialize;

use crate::args::BudgetSet;

/// Most periods: more than a year of hours. One message carries them to the master, and one back with its status.
const PERIOD_LIMIT: usize = 10_000;

/// Number of future periods that are shown one by one.
const SHOWN: usize = 3;

/// Makes the change for one period. Asks the master for the other periods, which stay.
///
/// # Errors
/// If the period is invalid, or overlaps others without `--replace`, or the master cannot be asked.
pub async fn change(set: BudgetSet, master: &Master) -> Result<Change, Failure> {
    let clock = Clock::system();
    let Some(energy) = set.energy.0 else { return none(&set) };
    let Some(until) = &set.until else {
        return Err(Failure::new("a budget needs an end").hint("add for example `--until now+1d`"));
    };
    let time =
        |option: &str, text: &str| clock.parse(text).map_err(|error| Failure::new(format_args!("{option}: {error}")));
    let (from, until) = (time("--from", &set.from)?, time("--until", until)?);
    if until <= from {
        let (from, until) = (clock.show(from), clock.show(until));
        return Err(Failure::new(format_args!("the period ends at {until}, which is not after its begin at {from}")));
    }
    if until <= clock.now() {
        return Err(Failure::new(format_args!("the period ended in the past, at {}", clock.show(until))));
    }
    let seen = master.status().await?.budgets;
    let period = Budget { from, until, energy, release: set.release };
    let budgets = with(&seen, period, set.replace, &clock)?;
    Ok(Change::Budgets { budgets, seen: Some(seen) })
}

fn none(set: &BudgetSet) -> Result<Change, Failure> {
    if set.until.is_some() || set.replace {
        return Err(Failure::new("`none` ends all budgets and cannot be combined with --until or --replace"));
    }
    Ok(Change::Budgets { budgets: Budgets::default(), seen: None })
}

/// Adds `period` to the periods without an overlap.
fn with(seen: &Budgets, period: Budget, replace: bool, clock: &Clock) -> Result<Budgets, Failure> {
    let overlaps = |other: &&Budget| other.from < period.until && period.from < other.until;
    if let Some(other) = seen.iter().find(overlaps).filter(|_| !replace) {
        let other = in_words(other, clock);
        return Err(Failure::new(format_args!("the period overlaps a budget of {other}"))
            .hint("add --replace to replace the periods that it overlaps"));
    }
    let mut periods: Vec<Budget> = seen.iter().filter(|other| !overlaps(other)).copied().collect();
    periods.push(period);
    periods.sort_by_key(|period| period.from);
    limited(Budgets::new(periods).map_err(Failure::new)?)
}

/// Reads all budgets from a file.
///
/// # Errors
/// If the file is not a valid file of budgets.
pub fn from_file(file: &Path, release: Release) -> Result<Change, Failure> {
    let budgets = limited(read_budgets(file, release, &Clock::system()).map_err(Failure::new)?)?;
    Ok(Change::Budgets { budgets, seen: None })
}

fn limited(budgets: Budgets) -> Result<Budgets, Failure> {
    let count = budgets.iter().count();
    if count <= PERIOD_LIMIT {
        return Ok(budgets);
    }
    Err(Failure::new(format_args!("{count} budget periods are too many; the limit is {PERIOD_LIMIT}")))
}

/// Formats a period, for example `12.000 kWh from 08:00 until 20:00, released by price`.
fn in_words(budget: &Budget, clock: &Clock) -> String {
    let (from, until) = (clock.show(budget.from), clock.show(budget.until));
    format!("{} from {from} until {until}{}", budget.energy, release_in_words(budget.release))
}

fn release_in_words(release: Release) -> &'static str {
    match release {
        Release::Even => "",
        Release::ByPrice => ", released by price",
    }
}

/// Returns the first periods that begin after `after`, and a text about further ones.
fn to_come(budgets: &Budgets, after: Time, clock: &Clock) -> Vec<String> {
    let later: Vec<&Budget> = budgets.iter().filter(|budget| budget.from > after).collect();
    let mut lines: Vec<String> = later.iter().take(SHOWN).map(|budget| in_words(budget, clock)).collect();
    if later.len() > SHOWN {
        lines.push(format!("and {} more periods", later.len() - SHOWN));
    }
    lines
}

/// Formats the running period and the future ones, as settings.
pub fn settings(status: &Status, clock: &Clock) -> Vec<String> {
    let current = status.budgets.at(status.now).map(|budget| in_words(budget, clock));
    let lines: Vec<String> = current.into_iter().chain(to_come(&status.budgets, status.now, clock)).collect();
    if lines.is_empty() { vec!["none".into()] } else { lines }
}

/// Returns named lines about the budget: its use, and the next periods. Empty without a budget, unless the policy needs
/// one.
pub fn facts(status: &Status, clock: &Clock) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(account) = &status.account {
        let mut budget = in_words(&account.budget, clock);
        if !status.policy.parts().keeps_budget() {
            budget += &format!("; the policy {} does not keep it", status.policy);
        }
        facts.push(("budget", budget));
        facts.push(("spent", spent(account, status.emulated)));
        facts.push(("left", left(account, status.now, clock)));
    }
    facts.extend(to_come(&status.budgets, status.now, clock).into_iter().map(|line| ("to come", line)));
    if facts.is_empty() && status.policy.parts().keeps_budget() {
        facts.push(("budget", format!("none, but the policy {} needs one", status.policy)));
    }
    facts
}

fn spent(account: &BudgetAccount, emulated: bool) -> String {
    let BudgetAccount { released, spent, reserved, .. } = *account;
    let mut text = format!("{} of {released} released", marked(spent, emulated));
    if spent > released {
        text += &format!(", {} too much", spent - released);
    }
    if reserved > Energy::ZERO {
        text += &format!("; {reserved} reserved for the first job");
    }
    text
}

/// Formats the remaining budget, and the mean draw that it allows.
fn left(account: &BudgetAccount, now: Time, clock: &Clock) -> String {
    let until = account.budget.until;
    let left = account.budget.energy - account.spent;
    if left < Energy::ZERO {
        return format!("nothing until {}: overspent by {}", clock.show(until), account.spent - account.budget.energy);
    }
    format!("{left} until {}, on average {}", clock.show(until), mean(left, until - now))
}

fn mean(energy: Energy, span: Span) -> Power {
    // mJ per ms are W.
    let mw = i128::from(energy.mj()) * 1_000 / i128::from(span.ms().max(1));
    Power::from_mw(i64::try_from(mw).unwrap_or(i64::MAX))
}

/// Period as JSON.
#[derive(Serialize)]
pub struct BudgetJson {
    from_unix_ms: i64,
    until_unix_ms: i64,
    energy_j: f64,
    /// Release: `even` or `by-price`.
    release: String,
}

/// Running period and its account.
#[derive(Serialize)]
pub struct AccountJson {
    #[serde(flatten)]
    budget: BudgetJson,
    released_j: f64,
    spent_j: f64,
    reserved_j: f64,
    /// Remaining part of the whole budget; negative if overspent.
    left_j: f64,
    /// True if the policy in force promises to keep the budget.
    kept: bool,
}

impl From<&Budget> for BudgetJson {
    fn from(budget: &Budget) -> Self {
        Self {
            from_unix_ms: budget.from.unix_ms(),
            until_unix_ms: budget.until.unix_ms(),
            energy_j: budget.energy.joules(),
            release: budget.release.to_string(),
        }
    }
}

impl AccountJson {
    pub fn of(status: &Status) -> Option<Self> {
        let account = status.account?;
        Some(Self {
            budget: (&account.budget).into(),
            released_j: account.released.joules(),
            spent_j: account.spent.joules(),
            reserved_j: account.reserved.joules(),
            left_j: (account.budget.energy - account.spent).joules(),
            kept: status.policy.parts().keeps_budget(),
        })
    }
}
