//! `scontrol update`: changes the priority and the time limit of jobs, and drains and resumes nodes.

use limo_client::{Failure, Master, Selectors, exit, tell};
use limo_model::{PRIORITY_LIMIT, Span, parse_hosts};
use limo_proto::Change;

use super::change_jobs;
use crate::call::FAILED;
use crate::select::job_list;
use crate::values;

/// Complaint about an update of something else.
const NO_ENTITY: &str = "No valid entity in update command\nInput line must include \"NodeName\" or \"JobId\"\n";

/// Makes the changes of pairs such as `JobId=7 Priority=5` and `NodeName=n1 State=DRAIN Reason=fans`.
///
/// # Errors
/// If the master refuses, or a key is not one that Limo can change.
pub async fn run(master: &Master, words: &[&str]) -> Result<u8, Failure> {
    let mut pairs: Vec<(String, &str)> = Vec::new();
    for word in words {
        let (key, value) = match word.split_once('=') {
            Some(pair) => pair,
            None => {
                tell(NO_ENTITY);
                return Ok(FAILED);
            }
        };
        pairs.push((key.to_ascii_lowercase(), value));
    }
    let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    if let Some(nodes) = get("nodename") {
        return node(master, nodes, (get("state"), get("reason"))).await;
    }
    let Some(jobs) = get("jobid").or(get("job")) else {
        tell(NO_ENTITY);
        return Ok(FAILED);
    };
    let mut code = exit::DONE;
    for (key, value) in &pairs {
        if let Some(sign) = key.strip_prefix("timelimit") {
            code = code.max(time_limit(master, jobs, (sign, value)).await?);
            continue;
        }
        let number = |sign: i32| {
            let number = value.parse::<i32>().ok().map(|number| number.saturating_mul(sign));
            // Slurm's priorities are larger than those of Limo.
            number.map(|number| number.clamp(-PRIORITY_LIMIT, PRIORITY_LIMIT))
        };
        let priority = match key.as_str() {
            "jobid" | "job" => continue,
            "priority" if *value == "0" => {
                code = code.max(change_jobs(master, ("update", &[jobs]), Change::Hold).await?);
                continue;
            }
            "priority" => number(1),
            "nice" => number(-1),
            "comment" | "admincomment" | "account" | "qos" | "wckey" => continue,
            _ => {
                return Err(Failure::new(format_args!("Limo cannot change {key} of a job after its submission")));
            }
        };
        let priority = priority.ok_or_else(|| Failure::new(format_args!("Invalid {key} value: {value}")))?;
        let change = |jobs| Change::Priority { jobs, priority };
        code = code.max(change_jobs(master, ("update", &[jobs]), change).await?);
    }
    Ok(code)
}

/// Changes the time limit of jobs. After `+` or `-` it is added to the present one, or subtracted.
async fn time_limit(master: &Master, jobs: &str, (sign, value): (&str, &str)) -> Result<u8, Failure> {
    let invalid = || Failure::new(format_args!("Invalid TimeLimit value: {value}"));
    let limit = values::time_limit(value).ok_or_else(invalid)?;
    if sign.is_empty() {
        let change = |jobs| Change::TimeLimit { jobs, limit };
        return change_jobs(master, ("update", &[jobs]), change).await;
    }
    let by = limit.ok_or_else(invalid)?;
    let mut code = exit::DONE;
    let mut session = master.session().await?;
    for text in job_list(jobs) {
        let selectors = text.parse::<Selectors>().map_err(|_| Failure::new("Invalid job id specified"))?;
        for number in session.select(&selectors.0, true).await? {
            // A job without a limit keeps none.
            let Some(now) = session.job(number).await?.time_limit else { continue };
            let limit = if sign == "-" { now - by } else { now + by };
            if limit <= Span::ZERO {
                tell(&format!("Invalid time limit for job {number}: {now} cannot be shortened by {by}\n"));
                code = FAILED;
                continue;
            }
            let change = |jobs| Change::TimeLimit { jobs, limit: Some(limit) };
            code = code.max(change_jobs(master, ("update", &[&number.to_string()]), change).await?);
        }
    }
    Ok(code)
}

async fn node(master: &Master, list: &str, (state, reason): (Option<&str>, Option<&str>)) -> Result<u8, Failure> {
    let nodes = parse_hosts(list).map_err(|error| Failure::new(format_args!("Invalid node name: {error}")))?;
    let change = match state.map(str::to_ascii_lowercase).as_deref() {
        Some("drain") => {
            let reason =
                reason.ok_or_else(|| Failure::new("You must specify a reason when DRAINING a node. Request denied"))?;
            Change::Drain { nodes, reason: reason.to_owned() }
        }
        Some("resume" | "undrain" | "idle") => Change::Resume { nodes },
        Some("down" | "fail") => {
            let reason =
                reason.ok_or_else(|| Failure::new("You must specify a reason when DOWNING a node. Request denied"))?;
            Change::StopNodes { nodes, reason: reason.to_owned() }
        }
        _ => return Err(Failure::new("only State=DRAIN, DOWN and RESUME of a node can be set")),
    };
    master.change(change).await?;
    Ok(exit::DONE)
}
