//! Jobs as JSON, in the form of Slurm's data parser v0.0.39: `squeue --json` as of slurmctld, `sacct --json` as of slurmdbd.
//!
//! Times are seconds since 1970, 0 if unknown, and limits are minutes. Numbers that may be absent or without a bound are objects
//! with `set`, `infinite` and `number`. Values that Limo does not have are left out.

use limo_client::signal_name;
use limo_model::{Memory, Span, Time};
use serde_json::{Value, json};

use crate::call::VERSION;
use crate::status;
use crate::view::View;

/// Version of the parser whose form this is.
const PARSER: &str = "v0.0.39";

/// Returns the answer with these jobs; `service` is `slurm` or `slurmdb`.
pub fn answer(service: &str, jobs: Vec<Value>) -> Value {
    let numbers: Vec<&str> = VERSION.split('.').collect();
    let number = |place: usize| numbers.get(place).copied().unwrap_or("0");
    let plugin = match service {
        "slurmdb" => format!("openapi/db{PARSER}"),
        _ => format!("openapi/{PARSER}"),
    };
    json!({
        "meta": {
            "plugin": { "type": plugin, "name": format!("Slurm OpenAPI {PARSER}"), "data_parser": PARSER },
            "Slurm": {
                "version": { "major": number(0), "minor": number(1), "micro": number(2) },
                "release": VERSION,
            },
        },
        "errors": [],
        "warnings": [],
        "jobs": jobs,
    })
}

/// Formats a number that may be absent.
fn number(value: Option<u64>) -> Value {
    json!({ "set": value.is_some(), "infinite": false, "number": value.unwrap_or(0) })
}

/// Formats a time limit in minutes, rounded up.
fn limit(limit: Option<Span>) -> Value {
    let minutes = limit.map(|limit| limit.ms().max(0).cast_unsigned().div_ceil(60_000));
    match minutes {
        Some(_) => number(minutes),
        None => json!({ "set": false, "infinite": true, "number": 0 }),
    }
}

fn seconds(time: Option<Time>) -> i64 {
    time.map_or(0, |time| time.unix_ms() / 1000)
}

fn count(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(0), |number| json!(number))
}

/// Returns the exit code and the signal of a job.
fn exit(view: &View) -> (i32, i32) {
    let text = status::exit_code(view.job);
    let mut parts = text.split(':').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn memory(view: &View) -> Value {
    let asked = Some(view.job.memory).filter(|memory| *memory > Memory::ZERO);
    number(asked.map(|memory| memory.bytes() >> 20))
}

/// Returns a job as `squeue --json` shows it.
pub fn queued(view: &View) -> Value {
    let job = view.job;
    let (code, signal) = exit(view);
    let end = job.ended.or_else(|| Some(job.started? + job.time_limit?));
    let (cpus, nodes) = (u64::from(view.cores()), u64::from(view.node_count()));
    json!({
        "account": view.account(),
        "array_job_id": number(Some(job.task.map_or_else(|| job.array.as_ref().map_or(0, |_| job.job.0), |(of, _)| of.0))),
        "array_task_id": number(job.task.map(|(_, task)| task.into())),
        "array_task_string": job.array.as_ref().and_then(|array| Some(array.waiting.as_ref()?.to_string())).unwrap_or_default(),
        "batch_flag": true,
        "batch_host": job.nodes.first().cloned().unwrap_or_default(),
        "cluster": "limo",
        "command": job.command,
        "comment": view.comment(),
        "cpus": number(Some(cpus)),
        "current_working_directory": view.directory(),
        "deadline": seconds(job.deadline),
        "dependency": view.dependencies(),
        "eligible_time": seconds(job.begin.or(Some(job.submitted))),
        "end_time": seconds(end),
        "exit_code": (code << 8) | signal,
        "group_id": count(&view.gid()),
        "group_name": view.group(),
        "job_id": job.job.0,
        "job_state": status::of_job(job).name,
        "memory_per_node": memory(view),
        "name": job.name,
        "node_count": number(Some(nodes)),
        "nodes": view.nodes(),
        "partition": view.partition(),
        "priority": number(view.priority().parse().ok()),
        "qos": view.qos(),
        "restart_cnt": job.evictions.by_owner + job.evictions.by_reboot,
        "standard_error": job.stderr.clone().unwrap_or_default(),
        "standard_output": job.stdout.clone().unwrap_or_default(),
        "start_time": seconds(job.started.or(job.begin)),
        "state_reason": status::reason(job),
        "submit_time": seconds(Some(job.submitted)),
        "suspend_time": seconds(job.suspended.as_ref().map(|suspended| suspended.since)),
        "tasks": number(Some(cpus)),
        "time_limit": limit(job.time_limit),
        "user_id": count(&view.uid()),
        "user_name": job.user,
    })
}

/// Returns a job as `sacct --json` shows it. It has no steps.
pub fn accounted(view: &View) -> Value {
    let job = view.job;
    let (code, signal) = exit(view);
    let state = status::accounted(job);
    let cpu = |span: Span| json!({ "seconds": span.ms() / 1000, "microseconds": span.ms() % 1000 * 1000 });
    let used = view.used();
    let mut exit_code = json!({
        "status": match (state, code, signal) {
            ("PENDING" | "RUNNING" | "SUSPENDED", ..) => "PENDING",
            (_, 0, 0) => "SUCCESS",
            (_, _, 1..) => "SIGNALED",
            _ => "ERROR",
        },
        "return_code": code,
    });
    if signal > 0 {
        exit_code["signal"] = json!({ "signal_id": signal, "name": signal_name(signal).trim_start_matches("SIG") });
    }
    let tres = || {
        let one = |kind: &str, id: u32, count: u64| json!({ "type": kind, "name": "", "id": id, "count": count });
        let memory = Some(job.memory.bytes() >> 20).filter(|memory| *memory > 0);
        let mut all = vec![one("cpu", 1, view.cores().into())];
        all.extend(memory.map(|memory| one("mem", 2, memory)));
        all.push(one("node", 4, view.node_count().into()));
        all
    };
    json!({
        "account": view.account(),
        "allocation_nodes": job.nodes.len(),
        "array": {
            "job_id": job.task.map_or(0, |(array, _)| array.0),
            "task_id": number(job.task.map(|(_, task)| task.into())),
            "task": view.job.array.as_ref().map(|array| array.tasks.to_string()).unwrap_or_default(),
        },
        "association": { "account": view.account(), "cluster": "limo", "partition": view.partition(), "user": job.user },
        "cluster": "limo",
        "derived_exit_code": { "status": "SUCCESS", "return_code": 0 },
        "exit_code": exit_code,
        "group": view.group(),
        "job_id": job.job.0,
        "name": job.name,
        "nodes": match view.nodes() {
            none if none.is_empty() => "None assigned".to_owned(),
            nodes => nodes,
        },
        "partition": view.partition(),
        "priority": number(view.priority().parse().ok()),
        "qos": view.qos(),
        "required": { "CPUs": view.cores(), "memory_per_node": memory(view) },
        "state": { "current": state, "reason": status::reason(job) },
        "steps": [],
        "submit_line": job.command,
        "time": {
            "elapsed": view.run().ms() / 1000,
            "eligible": seconds(job.begin.or(Some(job.submitted))),
            "end": seconds(job.ended),
            "start": seconds(job.started),
            "submission": seconds(Some(job.submitted)),
            "limit": limit(job.time_limit),
            "system": cpu(used.map_or(Span::ZERO, |used| used.usage.system_cpu)),
            "total": cpu(used.map_or(Span::ZERO, |used| used.cpu)),
            "user": cpu(used.map_or(Span::ZERO, |used| used.usage.user_cpu)),
        },
        "tres": { "allocated": if job.started.is_some() { tres() } else { Vec::new() }, "requested": tres() },
        "user": job.user,
        "working_directory": view.directory(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_client::Clock;
    use limo_fake::{finished_job, running_job, waiting_job};
    use limo_model::{JobId, Outcome};
    use limo_proto::JobReport;

    /// 2017-10-26 11:00:00 UTC, at which the jobs of the tests were submitted.
    const ELEVEN: i64 = 1_509_015_600;

    fn shown(job: &JobReport) -> [Value; 2] {
        let clock = Clock::utc(job.submitted);
        let view = View { job, clock: &clock };
        [queued(&view), accounted(&view)]
    }

    #[test]
    fn jobs_have_the_types_of_the_data_parser() {
        let job = JobReport { task: Some((JobId(12), 3)), total_cores: Some(2), ..running_job(15) };
        let [queued, _] = shown(&job);
        let set = |number: u64| json!({ "set": true, "infinite": false, "number": number });
        assert_eq!((&queued["job_id"], &queued["job_state"]), (&json!(15), &json!("RUNNING")));
        assert_eq!((&queued["array_job_id"], &queued["array_task_id"]), (&set(12), &set(3)));
        assert_eq!((&queued["cpus"], &queued["node_count"], &queued["nodes"]), (&set(2), &set(1), &json!("n1")));
        assert_eq!((&queued["time_limit"], &queued["memory_per_node"]), (&set(60), &set(1024)));
        assert_eq!((&queued["start_time"], &queued["submit_time"]), (&json!(ELEVEN + 300), &json!(ELEVEN)));
        assert_eq!(queued["end_time"], json!(ELEVEN + 300 + 3600));
        let [queued, _] = shown(&JobReport { time_limit: None, ..waiting_job(3) });
        assert_eq!(queued["time_limit"], json!({ "set": false, "infinite": true, "number": 0 }));
        assert_eq!((&queued["start_time"], &queued["state_reason"]), (&json!(0), &json!("PowerNotAvail")));
        assert_eq!(queued["array_task_id"], json!({ "set": false, "infinite": false, "number": 0 }));
    }

    #[test]
    fn ends_have_an_exit_code_and_the_used_time() {
        let [queued, accounted] = shown(&finished_job(7, Outcome::Exited(3)));
        assert_eq!((&queued["exit_code"], &queued["job_state"]), (&json!(768), &json!("FAILED")));
        assert_eq!(accounted["exit_code"], json!({ "status": "ERROR", "return_code": 3 }));
        assert_eq!(accounted["state"], json!({ "current": "FAILED", "reason": "NonZeroExitCode" }));
        assert_eq!((&accounted["time"]["elapsed"], &accounted["time"]["end"]), (&json!(600), &json!(ELEVEN + 900)));
        assert_eq!(accounted["time"]["total"], json!({ "seconds": 450, "microseconds": 0 }));
        let [queued, accounted] = shown(&finished_job(7, Outcome::Signaled(9)));
        assert_eq!(queued["exit_code"], json!(9));
        let signal = json!({ "signal_id": 9, "name": "KILL" });
        assert_eq!(accounted["exit_code"], json!({ "status": "SIGNALED", "return_code": 0, "signal": signal }));
        let [_, accounted] = shown(&finished_job(7, Outcome::Exited(0)));
        assert_eq!(accounted["exit_code"]["status"], json!("SUCCESS"));
        let [_, accounted] = shown(&running_job(7));
        assert_eq!(accounted["exit_code"]["status"], json!("PENDING"));
    }
}
