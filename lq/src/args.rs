//! Command line of `lq`. The options of the list have the meaning of `squeue`'s, and those of `cancel` that of
//! `scancel`'s.

use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use limo_client::{Clock, JobsArg, MasterArg, Named, ReconnectArg, Selectors, parse_signal};
use limo_model::{PRIORITY_LIMIT, Span, Time, parse_hosts};
use limo_proto::{JobFilter, JobState};

use crate::columns::{Shown, SortKey};

/// Show submitted jobs; without a command, the table of waiting and running jobs
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
pub struct Args {
    #[command(flatten)]
    pub list: ListArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "General")]
    pub json: bool,
    #[command(flatten)]
    pub master: MasterArg,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Selection of jobs")]
pub struct ListArgs {
    /// Also show finished jobs
    #[arg(short, long)]
    pub all: bool,
    /// Show at most N finished jobs, the newest [default: 100]
    #[arg(short = 'n', long, value_name = "N", requires = "all")]
    pub limit: Option<u32>,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub view: ViewArgs,
    /// Refresh after this many seconds [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = every)]
    #[arg(help_heading = "Output")]
    pub watch: Option<Every>,
}

#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Selection of jobs")]
pub struct FilterArgs {
    /// Show only jobs of these users
    #[arg(short, long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,
    /// Show only jobs in these states, e.g. running or PD
    #[arg(short = 't', long = "states", value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub states: Vec<JobState>,
    /// Show only jobs with these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub name: Vec<String>,
    /// Show only jobs on these nodes, e.g. n[1-4,7]
    #[arg(short = 'w', long, value_name = "LIST", value_parser = hosts)]
    pub nodelist: Option<Nodes>,
    /// Show only jobs of these queues
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    pub partition: Vec<String>,
}

impl FilterArgs {
    pub fn filter(&self) -> JobFilter {
        JobFilter {
            users: self.user.clone(),
            states: self.states.clone(),
            names: self.name.clone(),
            nodes: self.nodelist.as_ref().map(|nodes| nodes.0.clone()).unwrap_or_default(),
            queues: self.partition.clone(),
            steps_of: None,
        }
    }
}

/// Columns of jobs, and their order.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct ViewArgs {
    /// Sort by these columns; with - in descending order
    #[arg(long, value_name = "[-]COLUMN", value_delimiter = ',', allow_hyphen_values = true)]
    pub sort: Vec<SortKey>,
    /// Show these columns, each with an optional width, e.g. jobid:8,name,st,reason
    #[arg(short = 'o', long, value_name = "COLUMN[:N]", value_delimiter = ',')]
    pub format: Vec<Shown>,
    /// Show more columns
    #[arg(short, long, conflicts_with = "format")]
    pub long: bool,
    /// Omit the line of titles
    #[arg(long)]
    pub noheader: bool,
}

/// Range of ends of jobs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Selection of jobs")]
pub struct EndedArgs {
    /// Show jobs that ended at this time or later, e.g. 18:00, 2026-10-26 or now-2h
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub since: Option<Time>,
    /// Show jobs that ended before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub until: Option<Time>,
}

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub ended: EndedArgs,
    /// Show at most N jobs, the newest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, help_heading = "Selection of jobs")]
    pub limit: u32,
    #[command(flatten)]
    pub view: ViewArgs,
}

#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// Jobs: 7, 3-9, last (your newest), all (your unfinished ones); steps: 12.0
    #[arg(value_name = "JOB", required_unless_present_any = ["user", "states", "name", "nodelist"])]
    pub jobs: Vec<Named>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Send this signal to running jobs instead of ending them, e.g. USR1
    #[arg(short, long, value_parser = parse_signal)]
    pub signal: Option<i32>,
}

#[derive(Debug, clap::Args)]
pub struct EnergyArgs {
    /// Grouping of the sums
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::User)]
    pub by: By,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub ended: EndedArgs,
    /// Show at most N sums, the largest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, help_heading = "Selection of jobs")]
    pub limit: u32,
}

#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Show only jobs of users whose names begin with this
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
}

/// Grouping of sums of energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    User,
    Job,
    Node,
    Group,
    State,
    Day,
    Application,
    Account,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show everything about jobs
    Show {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Explain why jobs wait, with their candidates, costs and obstacles
    Explain {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// End jobs, or send them a signal
    Cancel(CancelArgs),
    /// Wait until jobs are over; the exit code is the job's, or the highest of several
    Wait {
        #[command(flatten)]
        jobs: JobsArg,
        #[command(flatten)]
        reconnect: ReconnectArg,
    },
    /// List the nodes, their draw and their units
    Nodes,
    /// Print the output of a detached job
    Logs {
        /// Continue until the job is over
        #[arg(short, long)]
        follow: bool,
        /// Print standard error instead of standard output
        #[arg(long)]
        stderr: bool,
        #[command(flatten)]
        jobs: JobsArg,
        #[command(flatten)]
        reconnect: ReconnectArg,
    },
    /// Take over the output, input, signals and exit code of a job or a step whose lrun has ended
    Attach {
        /// Also take the job over from an lrun that still runs, which then exits
        #[arg(long)]
        take: bool,
        /// A job, such as 7 or `last`, or a step, such as 7.0
        #[arg(value_name = "JOB")]
        job: Named,
        #[command(flatten)]
        reconnect: ReconnectArg,
    },
    /// Keep waiting jobs from starting
    Hold {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Allow held jobs to start again
    Release {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// End running jobs and run them again, if they were submitted with --requeue
    Requeue {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Stop the processes of running jobs, which keep their cores and memory
    Suspend {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Let suspended jobs continue
    Resume {
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Change the priority of waiting jobs; only operators may raise it
    Priority {
        /// Jobs: 7, 3-9, last (your newest), all (your unfinished ones)
        #[arg(value_name = "JOB")]
        jobs: Selectors,
        /// Higher goes first, -10000 to 10000
        #[arg(value_name = "N", allow_negative_numbers = true, value_parser = priority)]
        priority: i32,
    },
    /// Change the time limits of jobs, also of running ones; only operators may raise them
    TimeLimit {
        /// Jobs: 7, 3-9, last (your newest), all (your unfinished ones)
        #[arg(value_name = "JOB")]
        jobs: Selectors,
        /// 90min, 1:30:00, or none
        #[arg(value_name = "TIME", value_parser = time_limit)]
        limit: NewTimeLimit,
    },
    /// List finished jobs, the newest first
    History(HistoryArgs),
    /// Show the energy and cost of finished jobs, or the energy of nodes
    Energy(EnergyArgs),
    /// Show the cluster on the whole screen: draw, nodes and queue, once a second
    Top(TopArgs),
    /// Open the page of the master in a browser, and print its address
    Web {
        /// Let the browser cancel, hold and release your jobs and undo changes, for 8 hours
        #[arg(long)]
        act: bool,
    },
}

/// States with their codes in tables. The codes are Slurm's, and `LO` for lost, `RF` for refused and `UU` for used
/// up, which Slurm does not have.
pub const STATES: [(JobState, &str); 13] = [
    (JobState::Waiting, "PD"),
    (JobState::Starting, "CF"),
    (JobState::Running, "R"),
    (JobState::Suspended, "S"),
    (JobState::Stopping, "CG"),
    (JobState::Completed, "CD"),
    (JobState::Failed, "F"),
    (JobState::Cancelled, "CA"),
    (JobState::TimedOut, "TO"),
    (JobState::Lost, "LO"),
    (JobState::Refused, "RF"),
    (JobState::UsedUp, "UU"),
    (JobState::NodeFailed, "NF"),
];

/// Checked list of nodes. A separate type, because clap treats an option of type `Vec` as repeatable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes(pub Vec<String>);

/// Interval between refreshes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(pub Duration);

/// Shortest interval, to limit the load of the master.
const OFTEN: Duration = Duration::from_millis(100);

fn every(text: &str) -> Result<Every, String> {
    let refused = || format!("`{text}` is not a time: write seconds, such as `2`, or `500ms`");
    let span = match text.parse::<u32>() {
        Ok(seconds) => Span::from_secs(i64::from(seconds)),
        Err(_) => text.parse().map_err(|_| refused())?,
    };
    let every = Duration::from_millis(u64::try_from(span.ms()).map_err(|_| refused())?);
    if every < OFTEN {
        Err(format!("`{text}` is too short: the interval must be at least 100ms"))
    } else {
        Ok(Every(every))
    }
}

fn priority(text: &str) -> Result<i32, String> {
    let number = text.parse::<i32>().ok().filter(|number| (-PRIORITY_LIMIT..=PRIORITY_LIMIT).contains(number));
    number.ok_or_else(|| {
        format!("`{text}` is not a priority: write a whole number from -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}")
    })
}

/// A time limit; `None` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewTimeLimit(pub Option<Span>);

fn time_limit(text: &str) -> Result<NewTimeLimit, String> {
    if text == "none" {
        return Ok(NewTimeLimit(None));
    }
    let limit = text.parse::<Span>().map_err(|error| error.to_string())?;
    let positive = Some(limit).filter(|limit| *limit > Span::ZERO);
    positive.map(|limit| NewTimeLimit(Some(limit))).ok_or_else(|| format!("the time limit `{text}` must be above zero"))
}

fn hosts(text: &str) -> Result<Nodes, String> {
    parse_hosts(text).map(Nodes).map_err(|error| error.to_string())
}

fn past(text: &str) -> Result<Time, String> {
    Clock::system().parse_past(text).map_err(|error| error.to_string())
}

/// Parses a state by its code or its name; `pending` is Slurm's word for waiting.
fn state(text: &str) -> Result<JobState, String> {
    let named = |(state, code): &&(JobState, &str)| {
        code.eq_ignore_ascii_case(text)
            || state.name().eq_ignore_ascii_case(text)
            || (*state == JobState::Waiting && text.eq_ignore_ascii_case("pending"))
    };
    STATES.iter().find(named).map(|(state, _)| *state).ok_or_else(|| {
        let known: Vec<String> = STATES.iter().map(|(state, code)| format!("{} ({code})", state.name())).collect();
        format!("`{text}` is not a state: {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_by_code_and_name() {
        for (state_, code) in STATES {
            assert_eq!((state(code), state(state_.name())), (Ok(state_), Ok(state_)));
        }
        assert_eq!(state("pending"), Ok(JobState::Waiting));
        assert!(state("X").is_err_and(|text| text.starts_with("`X` is not a state: waiting (PD), starting (CF), ")));
    }

    #[test]
    fn watch_intervals_are_parsed() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(every(text).ok(), ms.map(|ms| Every(Duration::from_millis(ms))), "{text}");
        };
        for (text, ms) in [("2", 2_000), ("500ms", 500), ("1min", 60_000)] {
            check(text, Some(ms));
        }
        for text in ["0", "99ms", "-1", "nodes", ""] {
            check(text, None);
        }
    }
}
