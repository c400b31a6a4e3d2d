//! A job as JSON.

use limo_model::{Cores, JobEnd, Outcome, Tasks, Time};
use limo_proto::{ArrayReport, JobReport};
use serde::Serialize;

use super::EstimateJson;
use crate::clock::Clock;
use crate::conditions::dependencies;
use crate::ending::end_in_words;

#[derive(Debug, Serialize)]
pub struct JobJson {
    pub id: u64,
    pub state: &'static str,
    pub user: String,
    pub name: String,
    pub application: String,
    pub command: String,
    /// `null` is all cores of the unit.
    pub cores: Option<u32>,
    pub memory_bytes: u64,
    pub time_limit_s: Option<f64>,
    pub deadline_unix_ms: Option<i64>,
    pub start_by_unix_ms: Option<i64>,
    pub nodes: Vec<String>,
    pub units: Vec<String>,
    pub submit_unix_ms: i64,
    pub start_unix_ms: Option<i64>,
    pub end_unix_ms: Option<i64>,
    pub exit_code: Option<u8>,
    pub signal: Option<i32>,
    /// How it ended, in words.
    pub end_reason: Option<String>,
    pub wait_reason: Option<String>,
    /// The first word of the reason, by which programs can tell reasons apart.
    pub wait_kind: Option<&'static str>,
    pub estimate: Option<EstimateJson>,
    pub energy_j: Option<f64>,
    pub cost_eur: Option<f64>,
    pub start_now_cost_eur: Option<f64>,
    /// Whether the watts are modelled by emulated hardware.
    pub emulated: bool,
    /// Whether `energy_j` was measured, or estimated; `null` while it runs, and of jobs of which that was not recorded.
    pub energy_measured: Option<bool>,
    /// How sure it is that a measured energy was the job's own: 0 to 1; 1 if it had its node alone.
    pub energy_confidence: Option<f64>,
    /// Of the files on its node that its output goes to, where it does.
    pub stdout_path: Option<String>,
    pub stderr_path: Option<String>,
    /// Who holds it back.
    pub energy_limit_j: Option<f64>,
    pub cost_limit_eur: Option<f64>,
    /// In words, where it goes on with nothing left of what it may use.
    pub used_up: Option<String>,
    pub held_by: Option<String>,
    pub begin_unix_ms: Option<i64>,
    /// As `lrun -d` takes them, those that are not met yet.
    pub dependencies: Vec<String>,
    /// Of a task of an array: the number of the array, and of the task in it.
    pub array_id: Option<u64>,
    pub task: Option<u32>,
    /// Of an array.
    pub array: Option<ArrayJson>,
    /// While it waits: the sum of what follows.
    pub priority: Option<i64>,
    pub priority_own: Option<i64>,
    pub priority_age: Option<i64>,
    pub priority_share: Option<i64>,
    /// Those of its nodes that are unreachable, while it is not over.
    pub unreachable: Vec<UnreachableJson>,
}

#[derive(Debug, Serialize)]
pub struct UnreachableJson {
    pub node: String,
    pub since_unix_ms: Option<i64>,
}

impl From<&(String, Option<Time>)> for UnreachableJson {
    fn from((node, since): &(String, Option<Time>)) -> Self {
        Self { node: node.clone(), since_unix_ms: since.map(Time::unix_ms) }
    }
}

#[derive(Debug, Serialize)]
pub struct ArrayJson {
    pub tasks: String,
    pub waiting: Option<String>,
    pub waiting_count: u32,
    pub active_count: u32,
    pub completed_count: u32,
    pub failed_count: u32,
    pub cancelled_count: u32,
}

impl From<&ArrayReport> for ArrayJson {
    fn from(array: &ArrayReport) -> Self {
        Self {
            tasks: array.tasks.to_string(),
            waiting: array.waiting.as_ref().map(Tasks::to_string),
            waiting_count: array.waiting_count(),
            active_count: array.active,
            completed_count: array.ended.completed,
            failed_count: array.ended.failed,
            cancelled_count: array.ended.cancelled,
        }
    }
}

impl JobJson {
    pub fn new(job: &JobReport, clock: &Clock) -> Self {
        let (exit_code, signal) = match &job.end {
            Some(JobEnd::Ran { outcome: Outcome::Signaled(signal), .. }) => (None, Some(*signal)),
            Some(JobEnd::Ran { outcome: Outcome::Exited(code) | Outcome::NotStarted { code, .. }, .. }) => {
                (Some(*code), None)
            }
            _ => (None, None),
        };
        Self {
            id: job.job.0,
            state: job.state.name(),
            user: job.user.clone(),
            name: job.name.clone(),
            application: job.application.clone(),
            command: job.command.clone(),
            cores: match job.cores {
                Cores::Count(count) => Some(count.get()),
                Cores::All => None,
            },
            memory_bytes: job.memory.bytes(),
            time_limit_s: job.time_limit.map(|span| span.secs()),
            deadline_unix_ms: job.deadline.map(Time::unix_ms),
            start_by_unix_ms: job.start_by.map(Time::unix_ms),
            nodes: job.nodes.clone(),
            units: job.units.clone(),
            submit_unix_ms: job.submitted.unix_ms(),
            start_unix_ms: job.started.map(Time::unix_ms),
            end_unix_ms: job.ended.map(Time::unix_ms),
            exit_code,
            signal,
            end_reason: job.end.as_ref().map(|end| end_in_words(end, clock)),
            wait_reason: job.wait.as_ref().map(|wait| wait.shown(|time| clock.show(time)).to_string()),
            wait_kind: job.wait.as_ref().map(limo_model::Wait::kind),
            estimate: job.estimate.as_ref().map(EstimateJson::from),
            energy_j: job.energy.map(|energy| energy.joules()),
            cost_eur: job.cost.map(|cost| cost.eur()),
            start_now_cost_eur: job.start_now_cost.map(|cost| cost.eur()),
            emulated: job.emulated,
            stdout_path: job.stdout.clone(),
            stderr_path: job.stderr.clone(),
            energy_limit_j: job.allowance.and_then(|allowance| allowance.energy).map(|energy| energy.joules()),
            cost_limit_eur: job.allowance.and_then(|allowance| allowance.cost).map(|cost| cost.eur()),
            used_up: job.used_up.map(|used_up| used_up.to_string()),
            held_by: job.held.clone(),
            begin_unix_ms: job.begin.map(Time::unix_ms),
            dependencies: dependencies(job),
            array_id: job.task.map(|(array, _)| array.0),
            task: job.task.map(|(_, task)| task),
            array: job.array.as_ref().map(ArrayJson::from),
            energy_measured: job.measured,
            energy_confidence: job.confidence.map(|permille| f64::from(permille) / 1e3),
            priority: job.priority.map(|priority| priority.total()),
            priority_own: job.priority.map(|priority| priority.own),
            priority_age: job.priority.map(|priority| priority.age),
            priority_share: job.priority.map(|priority| priority.share),
            unreachable: job.unreachable.iter().map(UnreachableJson::from).collect(),
        }
    }
}
