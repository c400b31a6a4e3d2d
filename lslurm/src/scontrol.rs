//! `scontrol`: shows jobs, nodes and partitions in detail, and changes jobs and nodes.

mod show;
mod update;

use limo_client::{Failure, Master, Selectors, answer, exit, tell};
use limo_model::{JobId, host_list, parse_hosts};
use limo_proto::Change;

use crate::call::{Call, FAILED, VERSION};
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both};
use crate::select::job_list;

const OPTIONS: [OptionRow; 11] = [
    both('a', "all", Nothing),
    both('d', "details", Nothing),
    both('F', "future", Nothing),
    both('h', "help", Nothing),
    both('M', "clusters", Value),
    both('o', "oneliner", Nothing),
    both('Q', "quiet", Nothing),
    both('u', "uid", Value),
    both('v', "verbose", Nothing),
    both('V', "version", Nothing),
    both('H', "hide", Nothing),
];

/// Runs one command.
///
/// # Errors
/// If it is unknown, or the master refuses it.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let (given, words) = match call.options(&OPTIONS, true) {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let one_line = given.iter().any(|given| given.name == "oneliner");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((command, rest)) = words.split_first() else {
        return Err(Failure::new("no command: scontrol show, hold, release, requeue, update, ping ..."));
    };
    match *command {
        "version" => answer(&format!("slurm-wlm {VERSION}\n")).map(|()| exit::DONE),
        "show" => show::run(&call, rest, one_line).await,
        "ping" => ping(&call.master()?).await,
        "hold" | "uhold" => change_jobs(&call.master()?, (command, rest), Change::Hold).await,
        "release" => change_jobs(&call.master()?, (command, rest), Change::Release).await,
        "requeue" => change_jobs(&call.master()?, (command, rest), Change::Requeue).await,
        "suspend" => change_jobs(&call.master()?, (command, rest), Change::SuspendJobs).await,
        "resume" => change_jobs(&call.master()?, (command, rest), Change::ResumeJobs).await,
        "update" => update::run(&call.master()?, rest).await,
        other => {
            tell(&format!("invalid keyword: {other}\n"));
            Ok(FAILED)
        }
    }
}

async fn ping(master: &Master) -> Result<u8, Failure> {
    let is_up = master.status().await.is_ok();
    answer(&format!("Slurmctld(primary) at {} is {}\n", master.address(), if is_up { "UP" } else { "DOWN" }))?;
    Ok(if is_up { exit::DONE } else { FAILED })
}

/// Makes a change to each job of the lists; goes on after a refusal.
async fn change_jobs(
    master: &Master,
    (command, lists): (&str, &[&str]),
    change: impl Fn(Vec<JobId>) -> Change,
) -> Result<u8, Failure> {
    if lists.is_empty() {
        tell(&format!("too few arguments for keyword:{command}\n"));
        return Ok(FAILED);
    }
    let mut code = exit::DONE;
    for text in lists.iter().flat_map(|list| job_list(list)) {
        let text = text.strip_prefix("jobid=").unwrap_or(text);
        let found = match text.parse::<Selectors>() {
            Ok(selectors) => master.select(&selectors.0, true).await.map_err(|error| error.to_string()),
            Err(_) => Err("Invalid job id specified".to_owned()),
        };
        let done = match found {
            Ok(jobs) => master.change(change(jobs)).await.map_err(|error| {
                let unknown = error.to_string().starts_with("there is no ");
                if unknown { "Invalid job id specified".to_owned() } else { error.to_string() }
            }),
            Err(reason) => Err(reason),
        };
        if let Err(reason) = done {
            tell(&format!("{reason} for job {text}\n"));
            if ["hold", "uhold", "release"].contains(&command) {
                tell(&format!("slurm_suspend error: {reason}\n"));
            }
            code = FAILED;
        }
    }
    Ok(code)
}

/// Returns the names in a list of hosts, one a line.
fn host_names(list: &str) -> Result<String, Failure> {
    let names = parse_hosts(list).map_err(|error| Failure::new(format_args!("Invalid hostlist: {error}")))?;
    Ok(names.iter().map(|name| format!("{name}\n")).collect())
}

/// Returns a short list of the hosts, and a line break.
fn short_list(list: &str) -> Result<String, Failure> {
    let names = parse_hosts(list).map_err(|error| Failure::new(format_args!("Invalid hostlist: {error}")))?;
    Ok(host_list(names.iter().map(String::as_str)) + "\n")
}
