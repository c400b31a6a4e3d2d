//! The command line of `lconf`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use limo_client::{MasterArg, parse_limit};
use limo_model::{Energy, Measure, ModeSetting, Power, Preset, Release, Span, UnitError, check_name};

use crate::backup::Backup;
use crate::history::{History, Undo};
use crate::journal::JournalCommand;
use crate::reservation::ReservationCommand;
use crate::service::{AddNodes, Drain, Lost, Remove, Resume};

/// Set and show the limits, budgets, the policy, prices, nodes and profiles of a cluster
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
pub struct Args {
    /// Print JSON
    #[arg(long, global = true, help_heading = "General")]
    pub json: bool,
    #[command(flatten)]
    pub master: MasterArg,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The settings in force
    Show,
    /// The cluster now: draw, band, budget, price, jobs, energy, cost
    Status,
    /// Change a setting, effective at once
    #[command(subcommand)]
    Set(Setting),
    /// List nodes, take them out of service and back
    #[command(subcommand)]
    Node(NodeCommand),
    /// What is known of applications on hardware
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// What a node drew, or the cluster, by minutes or as the master keeps it
    Readings(Readings),
    /// Give nodes no new jobs; what runs on them goes on
    Drain(Drain),
    /// Give drained nodes jobs again
    Resume(Resume),
    /// What was changed: number, when, by whom, from what to what; the last is the newest
    History(History),
    /// Set back what a change changed, as a change of its own
    Undo(Undo),
    /// Write what the master has on disk to a file, while it works
    Backup(Backup),
    /// Compact the master's journal
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Keep nodes for some users, or free of jobs, for a time
    #[command(subcommand)]
    Reservation(ReservationCommand),
    /// Users: their jobs, what they used, what they may have; refuse their jobs
    User {
        #[command(subcommand)]
        command: Option<UserCommand>,
    },
    /// What a user may have at a time, and use in a day, a week or a month; without limits, what is set
    Quota(QuotaArgs),
    /// How far waiting and what users used count in priorities; without anything, what is set
    Fairshare(FairshareArgs),
}

#[derive(Debug, clap::Args)]
pub struct FairshareArgs {
    /// The user whose shares these are; or `show`
    #[arg(value_name = "USER")]
    pub user: Option<String>,
    /// How many, where others have 1
    #[arg(value_name = "SHARES")]
    pub shares: Option<u32>,
    /// What is added for a user who used nothing, 0 to 1000000
    #[arg(long, value_name = "N")]
    pub weight: Option<u32>,
    /// After this time what was used counts half, e.g. 7d
    #[arg(long, value_name = "SPAN")]
    pub half_life: Option<Span>,
    /// What is used: energy or core-seconds
    #[arg(long, value_name = "WHAT")]
    pub by: Option<Measure>,
    /// What is added for a job that waited as long as it counts, 0 to 1000000
    #[arg(long, value_name = "N")]
    pub age_weight: Option<u32>,
    /// How long waiting counts, e.g. 7d
    #[arg(long, value_name = "SPAN")]
    pub age_max: Option<Span>,
    /// How often the queue is ranked where nothing happens, e.g. 1min
    #[arg(long, value_name = "SPAN")]
    pub rank_every: Option<Span>,
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// All users of whom something is known
    List,
    /// One user
    Show { name: String },
    /// Refuse new jobs of users; those that were accepted go on
    Deny {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Take jobs of users again
    Allow {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
pub struct QuotaArgs {
    /// Of every user that has no quota of their own
    #[arg(long)]
    pub default: bool,
    /// The user, and limits: jobs=N, cores=N, energy=ENERGY/day|week|month, submitted=N; each may be none, and none alone
    /// is no quota
    #[arg(value_name = "USER|LIMIT")]
    pub words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct Readings {
    /// The node [default: the whole cluster]
    pub node: Option<String>,
    /// From when on, e.g. 18:00, 2026-10-26 or now-2h
    #[arg(long, value_name = "TIME", default_value = "now-1d")]
    pub from: String,
    /// Until when
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub until: String,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(Debug, Subcommand)]
pub enum Setting {
    /// The power band: two limits, or a curve of them
    Limits {
        /// Lower limit, e.g. 39W, or none
        #[arg(required_unless_present = "curve", conflicts_with = "curve")]
        low: Option<Limit>,
        /// Upper limit, e.g. 60W, or none
        #[arg(required_unless_present = "curve", conflicts_with = "curve")]
        high: Option<Limit>,
        /// CSV file with the columns time,low,high
        #[arg(long, value_name = "FILE.csv")]
        curve: Option<PathBuf>,
    },
    /// Aim for the top of the band, the bottom, or choose by price: high, low, auto
    Mode { mode: ModeSetting },
    /// The energy that the cluster may use in a period; or none, which ends all budgets
    Budget(BudgetSet),
    /// Budgets of several periods, from a CSV file with the columns time,budget; they replace all others
    Budgets {
        #[arg(value_name = "FILE.csv")]
        file: PathBuf,
        /// How the budgets become available over their periods: even or by-price
        #[arg(long, value_name = "HOW", default_value_t)]
        release: Release,
    },
    /// Which jobs run when and where: fifo, limo-prototype, limo, easy, conservative, powercap, energybud, reducepc
    Policy {
        #[arg(value_name = "NAME")]
        policy: Preset,
    },
    /// Prices from a CSV file with the columns time,price; or none; or what the feeds tell
    Price {
        #[arg(value_name = "FILE.csv|none|feed")]
        file: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub struct BudgetSet {
    /// How much, e.g. 40MWh, or none
    #[arg(value_name = "ENERGY|none")]
    pub energy: Allowance,
    /// When the period begins, e.g. 18:00 or now+2h
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub from: String,
    /// When it ends
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// How the budget becomes available over its period: even or by-price
    #[arg(long, value_name = "HOW", default_value_t)]
    pub release: Release,
    /// In place of the periods that it overlaps
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// The nodes, their draw and their units
    List,
    /// One node: its state, and what it has, as `lslave --probe` prints it there
    Show { name: String },
    /// Give nodes no new jobs: the same as `lconf drain`
    Drain(Drain),
    /// Give drained nodes jobs again: the same as `lconf resume`
    Resume(Resume),
    /// Make nodes known before they register, so that jobs may wait for them
    Add(AddNodes),
    /// Forget unreachable nodes without jobs
    Remove(Remove),
    /// Declare unreachable nodes dead: their jobs end now and their watts are free again
    Lost(Lost),
}

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// All profiles
    List,
    /// Read profiles from a file; they replace those of the same application, hardware, cap and size
    Import { file: PathBuf },
    /// Write all profiles to a file, or to standard output
    Export { file: Option<PathBuf> },
    /// Set one profile by hand
    Set(ProfileSet),
    /// Forget one profile
    Forget(ProfileName),
}

/// Which profile.
#[derive(Debug, clap::Args)]
pub struct ProfileName {
    #[arg(value_parser = application)]
    pub app: String,
    #[arg(value_parser = hardware)]
    pub hardware: String,
    /// How many cores of the unit the run has [default: any number]
    #[arg(long, value_name = "COUNT")]
    pub cores: Option<NonZeroU32>,
    /// The cap that the unit is held at [default: without a cap]
    #[arg(long, value_name = "POWER", value_parser = not_negative::<Power>)]
    pub cap: Option<Power>,
    /// Size class
    #[arg(long, value_name = "CLASS", value_parser = size_class, default_value = "", hide_default_value = true)]
    pub size: String,
}

#[derive(Debug, clap::Args)]
pub struct ProfileSet {
    #[command(flatten)]
    pub name: ProfileName,
    /// How long a run takes, e.g. 10min
    #[arg(long, value_name = "SPAN", value_parser = not_negative::<Span>)]
    pub duration: Span,
    /// Mean draw above idle, e.g. 41.5W
    #[arg(long, value_name = "POWER", value_parser = not_negative::<Power>)]
    pub power: Power,
    /// Energy above idle of a run [default: power x duration]
    #[arg(long, value_name = "ENERGY", value_parser = not_negative::<Energy>)]
    pub energy: Option<Energy>,
    /// Spread of the duration, e.g. 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0%")]
    pub spread: u32,
}

/// A limit of the band; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<Power>);

impl FromStr for Limit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse_limit(text).map(Self)
    }
}

/// What may be used in a period; `None` is any energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance(pub Option<Energy>);

impl FromStr for Allowance {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "none" { Ok(Self(None)) } else { not_negative(text).map(|energy| Self(Some(energy))) }
    }
}

fn application(text: &str) -> Result<String, String> {
    check_name("application", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn hardware(text: &str) -> Result<String, String> {
    check_name("hardware", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn size_class(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        _ => check_name("size class", text).map(|()| text.to_owned()).map_err(|error| error.to_string()),
    }
}

fn not_negative<T: FromStr<Err = UnitError> + Default + PartialOrd>(text: &str) -> Result<T, UnitError> {
    let value: T = text.parse()?;
    if value < T::default() { Err(UnitError::Negative { value: text.to_owned() }) } else { Ok(value) }
}

/// `2.5%` as thousandths; at most one decimal, so that nothing is rounded away.
fn percent(text: &str) -> Result<u32, String> {
    let refused = || format!("`{text}` is not a percentage: write for example `5%` or `2.5%`");
    let number = text.strip_suffix('%').map(str::trim_end).ok_or_else(refused)?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(tenth) || tenth.len() != 1 {
        return Err(refused());
    }
    let permille = format!("{whole}{tenth}").parse::<u32>().map_err(|_| refused())?;
    if permille > 1_000 { Err(format!("`{text}` is more than 100%")) } else { Ok(permille) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        let check = |text: &str, expected: Option<u32>| assert_eq!(percent(text).ok(), expected, "{text}");
        check("5%", Some(50));
        check("2.5 %", Some(25));
        check("100%", Some(1000));
        for wrong in ["5", "%", "2.55%", "-1%", "101%", "x%", "1.%"] {
            check(wrong, None);
        }
    }
}
