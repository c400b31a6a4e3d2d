//! States, exit codes and reasons of jobs in Slurm's words.

use limo_model::{JobEnd, Outcome, StopReason, Wait};
use limo_proto::{JobReport, JobState};
use nix::unistd::User;

/// A state of Slurm: its name and its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlurmState {
    pub name: &'static str,
    pub code: &'static str,
}

const fn state(name: &'static str, code: &'static str) -> SlurmState {
    SlurmState { name, code }
}

const OUT_OF_MEMORY: SlurmState = state("OUT_OF_MEMORY", "OOM");
const PREEMPTED: SlurmState = state("PREEMPTED", "PR");

/// The states that jobs of Limo have, in the order of squeue's list.
pub const STATES: [SlurmState; 12] = [
    state("PENDING", "PD"),
    state("CONFIGURING", "CF"),
    state("RUNNING", "R"),
    state("SUSPENDED", "S"),
    state("COMPLETING", "CG"),
    state("COMPLETED", "CD"),
    state("CANCELLED", "CA"),
    state("FAILED", "F"),
    state("TIMEOUT", "TO"),
    state("NODE_FAIL", "NF"),
    PREEMPTED,
    OUT_OF_MEMORY,
];

/// Further states of Slurm, which no job of Limo has.
const OTHERS: [SlurmState; 11] = [
    state("BOOT_FAIL", "BF"),
    state("DEADLINE", "DL"),
    state("REQUEUED", "RQ"),
    state("REQUEUE_HOLD", "RH"),
    state("REQUEUE_FED", "RF"),
    state("RESIZING", "RS"),
    state("REVOKED", "RV"),
    state("SIGNALING", "SI"),
    state("SPECIAL_EXIT", "SE"),
    state("STAGE_OUT", "SO"),
    state("STOPPED", "ST"),
];

/// Returns the state of a job.
pub fn of_job(job: &JobReport) -> SlurmState {
    match (&job.end, job.state) {
        (Some(JobEnd::Ran { outcome: Outcome::ExceededMemory { .. }, stopped: None }), _) => OUT_OF_MEMORY,
        (Some(JobEnd::Ran { stopped: Some(StopReason::GivenUp { .. }), .. }), _) => PREEMPTED,
        (_, state) => {
            STATES[match state {
                JobState::Waiting => 0,
                JobState::Starting => 1,
                JobState::Running => 2,
                JobState::Suspended => 3,
                JobState::Stopping => 4,
                JobState::Completed => 5,
                JobState::Cancelled | JobState::Refused => 6,
                JobState::Failed => 7,
                JobState::TimedOut | JobState::UsedUp => 8,
                JobState::Lost | JobState::NodeFailed => 9,
            }]
        }
    }
}

/// Returns the states of Limo that a name of Slurm stands for, of jobs that are not over.
pub fn live_states(name: &str) -> &'static [JobState] {
    match name {
        "PENDING" => &[JobState::Waiting],
        "CONFIGURING" => &[JobState::Starting],
        "RUNNING" => &[JobState::Running],
        "SUSPENDED" => &[JobState::Suspended],
        "COMPLETING" => &[JobState::Stopping],
        _ => &[],
    }
}

/// Reads a list of states by their names or codes, in any case.
///
/// # Errors
/// The word that is not a state.
pub fn read(list: &str) -> Result<Vec<SlurmState>, String> {
    let find = |word: &str| {
        let is = |state: &&SlurmState| word.eq_ignore_ascii_case(state.name) || word.eq_ignore_ascii_case(state.code);
        STATES.iter().chain(&OTHERS).find(is).copied().ok_or_else(|| word.to_owned())
    };
    list.split(',').filter(|word| !word.is_empty()).map(find).collect()
}

/// Returns the state as sacct shows it, with the user who cancelled the job.
pub fn with_user(job: &JobReport) -> String {
    let by = match &job.end {
        Some(JobEnd::Cancelled { by } | JobEnd::Ran { stopped: Some(StopReason::Cancelled { by }), .. }) => by,
        _ => return accounted(job).to_owned(),
    };
    match User::from_name(by) {
        Ok(Some(user)) => format!("CANCELLED by {}", user.uid),
        _ => "CANCELLED".to_owned(),
    }
}

/// Returns the state for accounting, which knows no starts and stops.
pub fn accounted(job: &JobReport) -> &'static str {
    match of_job(job).name {
        "CONFIGURING" | "COMPLETING" => "RUNNING",
        name => name,
    }
}

/// Returns the exit code and the signal, as `1:0`.
pub fn exit_code(job: &JobReport) -> String {
    let (code, signal) = match (of_job(job).name, &job.end) {
        ("OUT_OF_MEMORY", _) => (0, 125),
        ("COMPLETED" | "FAILED", Some(JobEnd::Ran { outcome, .. })) => match outcome {
            Outcome::Signaled(signal) => (0, *signal),
            outcome => (i32::from(outcome.exit_code()), 0),
        },
        ("NODE_FAIL", _) => (1, 0),
        _ => (0, 0),
    };
    format!("{code}:{signal}")
}

/// Returns the reason why a job waits, or why it ended, as one word of Slurm.
pub fn reason(job: &JobReport) -> &'static str {
    match (&job.wait, &job.end) {
        (Some(wait), _) => waits(wait, &job.user),
        (None, Some(JobEnd::Unmet { .. })) => "DependencyNeverSatisfied",
        (None, Some(_)) => match of_job(job).name {
            "FAILED" => "NonZeroExitCode",
            "TIMEOUT" => "TimeLimit",
            "NODE_FAIL" => "NodeDown",
            "OUT_OF_MEMORY" => "OutOfMemory",
            _ => "None",
        },
        (None, None) => "None",
    }
}

fn waits(wait: &Wait, user: &str) -> &'static str {
    match wait {
        Wait::NoNode | Wait::Resources { .. } | Wait::Sooner { .. } => "Resources",
        Wait::Behind { .. } | Wait::Depth { .. } => "Priority",
        Wait::Held { by } if by == user => "JobHeldUser",
        Wait::Held { .. } => "JobHeldAdmin",
        Wait::Begin { .. } => "BeginTime",
        Wait::Dependency { .. } | Wait::Singleton { .. } => "Dependency",
        Wait::Reserved { .. } | Wait::Reservation { .. } => "Reservation",
        Wait::Quota(_) => "AssocMaxJobsLimit",
        Wait::ArrayLimit { .. } => "JobArrayTaskLimit",
        Wait::Queue { .. } => "PartitionDown",
        Wait::Owner { .. } => "ReqNodeNotAvail",
        Wait::PlanRejected => "None",
        Wait::Band { .. }
        | Wait::Budget { .. }
        | Wait::LowMode { .. }
        | Wait::Filler { .. }
        | Wait::Sparing { .. }
        | Wait::Price { .. }
        | Wait::Never { .. }
        | Wait::Group { .. } => "PowerNotAvail",
    }
}
