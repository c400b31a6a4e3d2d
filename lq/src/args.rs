//! The command line of `lq`. The options of the list mean what they mean to `squeue`.

use clap::{Parser, Subcommand};
use limo_client::{MasterArg, ReconnectArg};
use limo_model::JobId;
use limo_proto::JobState;

/// Look at what was submitted; without a command, the table of waiting and running jobs
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
pub struct ListArgs {
    /// Also finished jobs
    #[arg(short, long)]
    pub all: bool,
    /// At most so many finished jobs, the newest [default: 100]
    #[arg(short = 'n', long, value_name = "N", requires = "all")]
    pub limit: Option<u32>,
    /// Only jobs of these users
    #[arg(short, long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,
    /// Only jobs in these states, e.g. running or PD
    #[arg(short = 't', long = "states", value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub states: Vec<JobState>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Everything known about jobs
    Show {
        #[arg(required = true, value_name = "ID", value_parser = job_id)]
        ids: Vec<JobId>,
    },
    /// Why a job waits: the units it could run on, what it would cost there, what stands against it
    Explain {
        #[arg(value_name = "ID", value_parser = job_id)]
        id: JobId,
    },
    /// End jobs
    Cancel {
        #[arg(required = true, value_name = "ID", value_parser = job_id)]
        ids: Vec<JobId>,
    },
    /// Wait until jobs are over; the exit code is the job's, the highest of several
    Wait {
        #[arg(required = true, value_name = "ID", value_parser = job_id)]
        ids: Vec<JobId>,
        #[command(flatten)]
        reconnect: ReconnectArg,
    },
    /// The nodes, their draw and their units
    Nodes,
    /// What a detached job has written
    Logs {
        /// Go on until the job is over
        #[arg(short, long)]
        follow: bool,
        /// Standard error in place of standard output
        #[arg(long)]
        stderr: bool,
        #[arg(value_name = "ID", value_parser = job_id)]
        id: JobId,
        #[command(flatten)]
        reconnect: ReconnectArg,
    },
    /// Keep waiting jobs from starting
    Hold {
        #[arg(required = true, value_name = "ID", value_parser = job_id)]
        ids: Vec<JobId>,
    },
    /// Let held jobs start again
    Release {
        #[arg(required = true, value_name = "ID", value_parser = job_id)]
        ids: Vec<JobId>,
    },
    /// End running jobs and let them run again, where they were submitted with --requeue
    Requeue {
        #[arg(required = true, value_name = "ID", value_parser = job_id)]
        ids: Vec<JobId>,
    },
}

/// Every state with its code in tables: Slurm's, and `RF` for refused, which Slurm does not have.
pub const STATES: [(JobState, &str); 11] = [
    (JobState::Waiting, "PD"),
    (JobState::Starting, "CF"),
    (JobState::Running, "R"),
    (JobState::Suspended, "S"),
    (JobState::Stopping, "CG"),
    (JobState::Completed, "CD"),
    (JobState::Failed, "F"),
    (JobState::Cancelled, "CA"),
    (JobState::TimedOut, "TO"),
    (JobState::Lost, "NF"),
    (JobState::Refused, "RF"),
];

fn job_id(text: &str) -> Result<JobId, String> {
    text.parse().map_err(|_| "a job's number is expected, as in the column JOBID".into())
}

/// A state by its code or its name; `pending` is Slurm's word for waiting.
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
}
