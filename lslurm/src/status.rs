//! States, exit codes and reasons of jobs in Slurm's words.

use limo_model::{JobEnd, Outcome, OverQuota, StopReason, Wait};
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
        Wait::Account { over: OverQuota::Cores { .. }, .. } => "AssocGrpCpuLimit",
        Wait::Account { .. } => "AssocGrpJobsLimit",
        Wait::Qos { over: OverQuota::Cores { .. }, .. } => "QOSMaxCpuPerUserLimit",
        Wait::Qos { .. } => "QOSMaxJobsPerUserLimit",
        Wait::ArrayLimit { .. } => "JobArrayTaskLimit",
        Wait::Queue { .. } => "PartitionDown",
        Wait::Licence { .. } => "Licenses",
        Wait::Owner { .. } => "ReqNodeNotAvail",
        Wait::Step { .. } => "Resources",
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

#[cfg(test)]
mod tests {
    use super::*;
    use limo_fake::{finished_job, waiting_job};
    use limo_model::{JobId, Memory, Span};

    fn ended(end: JobEnd) -> JobReport {
        let state = JobState::of(&end);
        JobReport { state, end: Some(end), wait: None, ..finished_job(7, Outcome::Exited(0)) }
    }

    fn check(end: JobEnd, expected: (&str, &str, &str, &str)) {
        let job = ended(end);
        let found = (of_job(&job).code, accounted(&job), exit_code(&job), reason(&job));
        assert_eq!((found.0, found.1, found.2.as_str(), found.3), expected);
    }

    #[test]
    fn ends_have_the_words_of_slurm() {
        let ran = |outcome| JobEnd::Ran { outcome, stopped: None };
        let stopped = |reason| JobEnd::Ran { outcome: Outcome::Signaled(15), stopped: Some(reason) };
        check(ran(Outcome::Exited(0)), ("CD", "COMPLETED", "0:0", "None"));
        check(ran(Outcome::Exited(3)), ("F", "FAILED", "3:0", "NonZeroExitCode"));
        check(ran(Outcome::Signaled(9)), ("F", "FAILED", "0:9", "NonZeroExitCode"));
        let not_found = Outcome::NotStarted { code: 127, reason: String::new() };
        check(ran(not_found), ("F", "FAILED", "127:0", "NonZeroExitCode"));
        let exceeded = Outcome::ExceededMemory { code: 137, limit: Memory::from_bytes(1) };
        check(ran(exceeded), ("OOM", "OUT_OF_MEMORY", "0:125", "OutOfMemory"));
        check(ran(Outcome::NodeFailed { reason: String::new() }), ("NF", "NODE_FAIL", "1:0", "NodeDown"));
        check(ran(Outcome::Lost { reason: String::new() }), ("NF", "NODE_FAIL", "1:0", "NodeDown"));
        let limit = StopReason::TimeLimit { limit: Span::from_secs(60) };
        check(stopped(limit), ("TO", "TIMEOUT", "0:0", "TimeLimit"));
        check(stopped(StopReason::Cancelled { by: "root".into() }), ("CA", "CANCELLED", "0:0", "None"));
        let job = ended(JobEnd::Cancelled { by: "root".into() });
        assert_eq!(with_user(&job), "CANCELLED by 0");
        assert_eq!(with_user(&ended(JobEnd::Cancelled { by: "no such user".into() })), "CANCELLED");
        assert_eq!(with_user(&ended(ran(Outcome::Exited(1)))), "FAILED");
    }

    #[test]
    fn reasons_of_waiting_jobs_are_single_words_of_slurm() {
        let check =
            |wait, expected: &str| assert_eq!(reason(&JobReport { wait: Some(wait), ..waiting_job(7) }), expected);
        check(Wait::Resources { until: None }, "Resources");
        check(Wait::Behind { job: JobId(3), until: None }, "Priority");
        check(Wait::Held { by: waiting_job(7).user }, "JobHeldUser");
        check(Wait::Held { by: "root".into() }, "JobHeldAdmin");
        assert_eq!(reason(&waiting_job(7)), "PowerNotAvail", "it waits for the band");
    }

    #[test]
    fn states_are_read_by_name_and_code() {
        let names = |list| read(list).map(|states| states.iter().map(|state| state.name).collect::<Vec<_>>());
        assert_eq!(names("pd,Running,,BF"), Ok(vec!["PENDING", "RUNNING", "BOOT_FAIL"]));
        assert_eq!(names("R,XX"), Err("XX".to_owned()));
    }
}
