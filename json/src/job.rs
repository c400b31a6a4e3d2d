//! A job as JSON.

use limo_model::{Cores, Currency, JobEnd, Outcome, Tasks, Time};
use limo_proto::{ArrayReport, JobReport, PackedTasks, UsageReport};
use serde::Serialize;

use super::EstimateJson;
use crate::clock::Clock;
use crate::conditions::dependencies;
use crate::ending::end_in_words;
use crate::used::Used;

/// Job, finished or not.
#[derive(Debug, Serialize)]
pub struct JobJson {
    id: u64,
    state: &'static str,
    user: String,
    name: String,
    application: String,
    command: String,
    /// `null` means all cores of the unit.
    cores: Option<u32>,
    memory_bytes: u64,
    time_limit_s: Option<f64>,
    deadline_unix_ms: Option<i64>,
    start_by_unix_ms: Option<i64>,
    nodes: Vec<String>,
    units: Vec<String>,
    submit_unix_ms: i64,
    start_unix_ms: Option<i64>,
    end_unix_ms: Option<i64>,
    exit_code: Option<u8>,
    signal: Option<i32>,
    /// End of the job in words.
    end_reason: Option<String>,
    wait_reason: Option<String>,
    /// Stable identifier of the reason, for programs.
    wait_kind: Option<&'static str>,
    estimate: Option<EstimateJson>,
    energy_j: Option<f64>,
    currency: Currency,
    cost: Option<f64>,
    start_now_cost: Option<f64>,
    /// True if the watts are modelled by emulated hardware.
    emulated: bool,
    /// True if `energy_j` was measured, false if it was estimated; `null` while the job runs and if neither was
    /// recorded.
    energy_measured: Option<bool>,
    /// Confidence that a measured energy was the job's own, 0 to 1; 1 if the job had its node alone.
    energy_confidence: Option<f64>,
    /// Files on the node that receive the output, if any.
    stdout_path: Option<String>,
    stderr_path: Option<String>,
    energy_limit_j: Option<f64>,
    cost_limit: Option<f64>,
    /// Exhausted limit in words, if the job continues without any remaining allowance.
    used_up: Option<String>,
    /// User who holds the job.
    held_by: Option<String>,
    begin_unix_ms: Option<i64>,
    /// Dependencies that are not met yet, in the form of `lrun -d`.
    dependencies: Vec<String>,
    /// Number of the array, for a task of one.
    array_id: Option<u64>,
    task: Option<u32>,
    /// Present for an array.
    array: Option<ArrayJson>,
    /// Sum of the fields below, while the job waits.
    priority: Option<i64>,
    priority_own: Option<i64>,
    priority_age: Option<i64>,
    priority_share: Option<i64>,
    /// Unreachable nodes of the job, while it is not over.
    unreachable: Vec<UnreachableJson>,
    /// Start of the suspension, while the job is suspended.
    suspended_unix_ms: Option<i64>,
    /// User who suspended the job.
    suspended_by: Option<String>,
    /// True while the upper limit leaves no room for the suspended job.
    suspended_for_limit: Option<bool>,
    /// Present for a job of packed tasks; `cores` and `memory_bytes` are those of each task.
    packed: Option<PackedJson>,
    /// Cap that the job explores, while it is starting or running.
    explores_cap_w: Option<f64>,
    queue: Option<String>,
    /// Range of the number of nodes of a moldable job, and the number that the last plan chose.
    nodes_least: Option<u32>,
    nodes_most: Option<u32>,
    nodes_planned: Option<u32>,
    evictions_by_owner: u32,
    evictions_by_reboot: u32,
    /// Running time up to the last checkpoint, in all attempts together.
    checkpoint_kept_s: Option<f64>,
    /// Reason, if a checkpoint has failed since the last one.
    checkpoint_failed: Option<String>,
    step_of: Option<u64>,
    step: Option<u32>,
    steps: u32,
    /// Number of nodes; before the first start, of those that the job needs.
    node_count: u32,
    /// Cores on all nodes together; before the first start, those that the job needs, if known.
    total_cores: Option<u32>,
    work_dir: Option<String>,
    /// CPU time of a job that is over, of all of its processes.
    cpu_user_s: Option<f64>,
    cpu_system_s: Option<f64>,
    /// Share of the running time of its cores in which they computed.
    cpu_efficiency: Option<f64>,
    /// Most memory on one of its nodes.
    memory_peak_bytes: Option<u64>,
    /// Share of the requested memory.
    memory_efficiency: Option<f64>,
    /// Licences, each such as `matlab:2`.
    licences: Vec<String>,
    account: Option<String>,
    qos: Option<String>,
    /// Resources that a running job has used, if they were asked for and a node knows them.
    used_so_far: Option<LiveUsageJson>,
}

/// Resources that a running job and its steps have used so far, on the nodes that know them.
#[derive(Debug, Serialize)]
pub struct LiveUsageJson {
    nodes: u32,
    nodes_answered: u32,
    cpu_user_s: f64,
    cpu_system_s: f64,
    /// Present memory on these nodes together.
    memory_bytes: u64,
    /// Most memory on one of them until now.
    memory_peak_bytes: u64,
}

impl From<&UsageReport> for LiveUsageJson {
    fn from(report: &UsageReport) -> Self {
        Self {
            nodes: report.nodes,
            nodes_answered: report.answered,
            cpu_user_s: report.sum.user_cpu.secs(),
            cpu_system_s: report.sum.system_cpu.secs(),
            memory_bytes: report.sum.memory.bytes(),
            memory_peak_bytes: report.most.bytes(),
        }
    }
}

/// Packed tasks: their number, and those on each of the job's nodes.
#[derive(Debug, Serialize)]
pub struct PackedJson {
    tasks: u32,
    tasks_per_node: Vec<u32>,
}

impl From<&PackedTasks> for PackedJson {
    fn from(packed: &PackedTasks) -> Self {
        Self { tasks: packed.count, tasks_per_node: packed.per_node.clone() }
    }
}

/// Unreachable node of a job.
#[derive(Debug, Serialize)]
pub struct UnreachableJson {
    node: String,
    since_unix_ms: Option<i64>,
}

impl From<&(String, Option<Time>)> for UnreachableJson {
    fn from((node, since): &(String, Option<Time>)) -> Self {
        Self { node: node.clone(), since_unix_ms: since.map(Time::unix_ms) }
    }
}

/// Array: its tasks as lists of numbers such as `1-10`, and the number of tasks in each state.
#[derive(Debug, Serialize)]
pub struct ArrayJson {
    tasks: String,
    waiting: Option<String>,
    waiting_count: u32,
    active_count: u32,
    completed_count: u32,
    failed_count: u32,
    cancelled_count: u32,
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

/// Jobs, in the order of the list.
#[derive(Debug, Serialize)]
pub struct JobsJson {
    schema: u32,
    jobs: Vec<JobJson>,
}

impl JobsJson {
    /// Converts jobs. `clock` formats the times in reasons.
    pub fn new(jobs: &[JobReport], clock: &Clock) -> Self {
        Self::of(jobs.iter().map(|job| JobJson::new(job, clock)).collect())
    }

    /// Makes a list of converted jobs.
    pub fn of(jobs: Vec<JobJson>) -> Self {
        Self { schema: super::SCHEMA, jobs }
    }
}

impl JobJson {
    /// Converts a job. `clock` formats the times in reasons.
    pub fn new(job: &JobReport, clock: &Clock) -> Self {
        let (exit_code, signal) = match &job.end {
            Some(JobEnd::Ran { outcome: Outcome::Signaled(signal), .. }) => (None, Some(*signal)),
            Some(JobEnd::Ran {
                outcome: Outcome::Exited(code) | Outcome::NotStarted { code, .. } | Outcome::ExceededMemory { code, .. },
                ..
            }) => (Some(*code), None),
            _ => (None, None),
        };
        let used = Used::of(job);
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
            currency: Currency::agreed(),
            cost: job.cost.map(|cost| cost.whole()),
            start_now_cost: job.start_now_cost.map(|cost| cost.whole()),
            emulated: job.emulated,
            stdout_path: job.stdout.clone(),
            stderr_path: job.stderr.clone(),
            energy_limit_j: job.allowance.and_then(|allowance| allowance.energy).map(|energy| energy.joules()),
            cost_limit: job.allowance.and_then(|allowance| allowance.cost).map(|cost| cost.whole()),
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
            suspended_unix_ms: job.suspended.as_ref().map(|suspended| suspended.since.unix_ms()),
            suspended_by: job.suspended.as_ref().and_then(|suspended| suspended.by.clone()),
            suspended_for_limit: job.suspended.as_ref().map(|suspended| suspended.limit.is_some()),
            packed: job.packed.as_ref().map(PackedJson::from),
            explores_cap_w: job.explores.map(|cap| cap.watts()),
            queue: job.queue.clone(),
            nodes_least: job.widths.map(|(widths, _)| widths.least.get()),
            nodes_most: job.widths.map(|(widths, _)| widths.most.get()),
            nodes_planned: job.widths.map(|(_, planned)| planned.get()),
            evictions_by_owner: job.evictions.by_owner,
            evictions_by_reboot: job.evictions.by_reboot,
            checkpoint_kept_s: job.kept.map(|ran| ran.secs()),
            checkpoint_failed: job.checkpoint_failed.map(|failure| failure.to_string()),
            step_of: job.step.map(|(of, _)| of.0),
            step: job.step.map(|(_, number)| number),
            steps: job.steps,
            node_count: job.node_count,
            total_cores: job.total_cores,
            work_dir: job.directory.clone(),
            cpu_user_s: used.map(|used| used.usage.user_cpu.secs()),
            cpu_system_s: used.map(|used| used.usage.system_cpu.secs()),
            cpu_efficiency: used.and_then(|used| used.cpu_efficiency()),
            memory_peak_bytes: used.map(|used| used.usage.max_rss.bytes()),
            memory_efficiency: used.and_then(|used| used.memory_efficiency()),
            licences: job.licences.iter().map(ToString::to_string).collect(),
            account: job.account.clone(),
            qos: job.qos.clone(),
            used_so_far: None,
        }
    }

    /// Adds the resources that a running job has used so far, unless no node knows them.
    #[must_use]
    pub fn with_usage(mut self, report: Option<&UsageReport>) -> Self {
        self.used_so_far = report.filter(|report| report.answered > 0).map(LiveUsageJson::from);
        self
    }
}
