//! Command line of `lconf`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use limo_client::{MasterArg, parse_limit};
use limo_model::{
    Energy, JobShare, Measure, ModeSetting, PartRule, Power, Preset, Release, Slowdown, Span, UnitError, check_name,
    decimal,
};

use crate::account::{AccountCommand, QosCommand};
use crate::audit::Audit;
use crate::backup::Backup;
use crate::cert::CertCommand;
use crate::cluster::ClusterCommand;
use crate::group::GroupCommand;
use crate::history::{History, Undo};
use crate::journal::JournalCommand;
use crate::measure::ProfileMeasure;
use crate::predictor::PredictorCommand;
use crate::profiles::{ProfileName, ProfileSet};
use crate::queue::QueueCommand;
use crate::reservation::ReservationCommand;
use crate::service::{AddNodes, Drain, Lost, Remove, Resume, Stop};
use crate::variation::VariationCommand;

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
    /// Show the settings in force
    Show,
    /// Show the present state of the cluster: draw, band, budget, price, jobs, energy, cost
    Status,
    /// Change a setting, effective at once
    #[command(subcommand)]
    Set(Setting),
    /// List nodes, and take them out of service and back
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show and change the profiles of applications on hardware
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Show and change the differences between equal units
    #[command(subcommand)]
    Variation(VariationCommand),
    /// Show and train the predictor of draws
    #[command(subcommand)]
    Predictor(PredictorCommand),
    /// Show the draw of a node or the cluster over time
    Readings(Readings),
    /// Give nodes no new jobs; running jobs continue
    Drain(Drain),
    /// Give drained nodes jobs again
    Resume(Resume),
    /// Show changes: number, time, user, old and new value; the newest comes last
    History(History),
    /// Undo a change, as a new change
    Undo(Undo),
    /// Back up the master's data to a file while the master runs
    Backup(Backup),
    /// Compact the master's journal, or move it to another place
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Reserve nodes for some users, or keep them free of jobs, for a time
    #[command(subcommand)]
    Reservation(ReservationCommand),
    /// Show the accounts of the master's configuration
    #[command(subcommand)]
    Account(AccountCommand),
    /// Show the QOS of the master's configuration
    #[command(subcommand)]
    Qos(QosCommand),
    /// Show the queues of the master's configuration
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Show the groups of nodes of the master's configuration, and change their power limits
    #[command(subcommand)]
    Group(GroupCommand),
    /// Show users with their jobs, usage and limits; refuse or allow their new jobs
    User {
        #[command(subcommand)]
        command: Option<UserCommand>,
    },
    /// Limit the jobs and the energy of a user; without limits, show the quotas
    Quota(QuotaArgs),
    /// Weigh waiting time and past usage in priorities; without options, show the weights
    Fairshare(FairshareArgs),
    /// Make the authority of a cluster, and tokens with which other machines join it
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Issue, renew, list and revoke certificates, and replace the authority
    #[command(subcommand)]
    Cert(CertCommand),
    /// Show the audit log: refused callers and requests, and the requests of operators
    Audit(Audit),
}

#[derive(Debug, clap::Args)]
pub struct FairshareArgs {
    /// User whose shares to set, or `show`
    #[arg(value_name = "USER")]
    pub user: Option<String>,
    /// Number of shares [default: 1]
    #[arg(value_name = "SHARES")]
    pub shares: Option<u32>,
    /// Priority added for a user without past usage, 0 to 1000000
    #[arg(long, value_name = "N")]
    pub weight: Option<u32>,
    /// Half-life of past usage, e.g. 7d
    #[arg(long, value_name = "SPAN")]
    pub half_life: Option<Span>,
    /// Measure of usage: energy or core-seconds
    #[arg(long, value_name = "WHAT")]
    pub by: Option<Measure>,
    /// Priority added for a job that has waited for --max-age, 0 to 1000000
    #[arg(long, value_name = "N")]
    pub age_weight: Option<u32>,
    /// Longest waiting time that counts, e.g. 7d
    #[arg(long, value_name = "SPAN")]
    pub age_max: Option<Span>,
    /// Interval between rankings of the queue when nothing else happens, e.g. 1min
    #[arg(long, value_name = "SPAN")]
    pub rank_every: Option<Span>,
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// List all known users
    List,
    /// Show one user
    Show { name: String },
    /// Refuse new jobs of users; accepted jobs continue
    Deny {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Accept jobs of users again
    Allow {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
pub struct QuotaArgs {
    /// Quota of all users without their own
    #[arg(long)]
    pub default: bool,
    /// User and limits: jobs=N, cores=N, energy=ENERGY/day|week|month, submitted=N; a limit may be none, and only
    /// none removes the quota
    #[arg(value_name = "USER|LIMIT")]
    pub words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct Readings {
    /// The node [default: the whole cluster]
    pub node: Option<String>,
    /// Begin of the range, e.g. 18:00, 2026-10-26 or now-2h
    #[arg(long, value_name = "TIME", default_value = "now-1d")]
    pub from: String,
    /// End of the range
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub until: String,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(Debug, Subcommand)]
pub enum Setting {
    /// Set the power band: two limits, or a curve of them
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
    /// Set the mode: high or low aims for the top or the bottom of the band, auto chooses by price
    Mode { mode: ModeSetting },
    /// Set the energy that the cluster may use in a period, or none to end all budgets
    Budget(BudgetSet),
    /// Replace all budgets by those of a CSV file with the columns time,budget
    Budgets {
        #[arg(value_name = "FILE.csv")]
        file: PathBuf,
        /// Release over each period: even or by-price
        #[arg(long, value_name = "HOW", default_value_t)]
        release: Release,
    },
    #[command(about = policies())]
    Policy {
        #[arg(value_name = "NAME")]
        policy: Preset,
        /// Part of the policy in place of its own, e.g. placement=least-energy; without parts, all are its own
        #[arg(value_name = "PART=RULE")]
        parts: Vec<PartRule>,
    },
    /// Set the share of the jobs of `lrun --explore` that run at a cap without a profile, e.g. 2%; 0% at first
    Explore {
        #[arg(value_name = "PERCENT")]
        share: JobShare,
    },
    /// Set the slowdown by caps without a profile, for an application, a type of hardware or both
    Slowdown(SlowdownSet),
    /// Set prices from a CSV file with the columns time,price; or none; or feed, to follow the feeds
    Price {
        #[arg(value_name = "FILE.csv|none|feed")]
        file: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
#[group(id = "subject", required = true, multiple = true, args = ["app", "hardware"])]
pub struct SlowdownSet {
    /// Law, e.g. F=0.75 or CPI=2.5; or none, to remove it
    #[arg(value_name = "LAW|none", value_parser = law)]
    pub law: Law,
    #[arg(long, value_name = "NAME", value_parser = application)]
    pub app: Option<String>,
    #[arg(long, value_name = "TYPE", value_parser = hardware)]
    pub hardware: Option<String>,
}

/// Law of slowdown; `None` removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Law(pub Option<Slowdown>);

#[derive(Debug, clap::Args)]
pub struct BudgetSet {
    /// Energy, e.g. 40MWh, or none
    #[arg(value_name = "ENERGY|none")]
    pub energy: Allowance,
    /// Begin of the period, e.g. 18:00 or now+2h
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub from: String,
    /// End of the period
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Release over the period: even or by-price
    #[arg(long, value_name = "HOW", default_value_t)]
    pub release: Release,
    /// Replace the periods that overlap this one
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes, their draw and their units
    List,
    /// Show one node: its state and its hardware, as `lslave --probe` prints it there
    Show { name: String },
    /// Give nodes no new jobs: the same as `lconf drain`
    Drain(Drain),
    /// Drain nodes and end their jobs: those of `lrun --requeue` run again elsewhere, others are cancelled
    Stop(Stop),
    /// Give drained nodes jobs again: the same as `lconf resume`
    Resume(Resume),
    /// Add nodes before they register, so that jobs can wait for them
    Add(AddNodes),
    /// Forget unreachable nodes without jobs
    Remove(Remove),
    /// Declare unreachable nodes dead: their jobs end now and their watts are released
    Lost(Lost),
}

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List all profiles
    List,
    /// Read profiles from a file, or `-` for standard input; they replace those of the same application, hardware, cap
    /// and size
    Import { file: PathBuf },
    /// Write all profiles to a file, or to standard output
    Export { file: Option<PathBuf> },
    /// Measure an application at several caps on nodes of the cluster
    Measure(ProfileMeasure),
    /// Set one profile by hand
    Set(ProfileSet),
    /// Forget one profile
    Forget(ProfileName),
}

/// Limit of the band; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<Power>);

impl FromStr for Limit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse_limit(text).map(Self)
    }
}

/// Energy of a period; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance(pub Option<Energy>);

impl FromStr for Allowance {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "none" { Ok(Self(None)) } else { not_negative(text).map(|energy| Self(Some(energy))) }
    }
}

fn policies() -> String {
    format!("Policy by which jobs start: {}", Preset::names())
}

pub fn application(text: &str) -> Result<String, String> {
    check_name("application", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn law(text: &str) -> Result<Law, String> {
    if text == "none" { Ok(Law(None)) } else { text.parse().map(|law| Law(Some(law))) }
}

pub fn hardware(text: &str) -> Result<String, String> {
    check_name("hardware", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

pub fn size_class(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        _ => check_name("size class", text).map(|()| text.to_owned()).map_err(|error| error.to_string()),
    }
}

pub fn not_negative<T: FromStr<Err = UnitError> + Default + PartialOrd>(text: &str) -> Result<T, UnitError> {
    let value: T = text.parse()?;
    if value < T::default() { Err(UnitError::Negative { value: text.to_owned() }) } else { Ok(value) }
}

/// Parses `2.5%` as thousandths; at most one decimal, so that nothing is rounded.
pub fn percent(text: &str) -> Result<u32, String> {
    let refused = || format!("`{text}` is not a percentage: write for example `5%` or `2.5%`");
    let permille = decimal::percent(text, 1).and_then(|permille| u32::try_from(permille).ok()).ok_or_else(refused)?;
    if permille > 1_000 { Err(format!("`{text}` is more than 100%")) } else { Ok(permille) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_at_most_one_decimal() {
        let check = |text: &str, expected: Option<u32>| assert_eq!(percent(text).ok(), expected, "{text}");
        check("5%", Some(50));
        check("2.5 %", Some(25));
        check("100%", Some(1000));
        for wrong in ["5", "%", "2.55%", "-1%", "101%", "x%", "1.%"] {
            check(wrong, None);
        }
    }
}
