//! `scancel`: ends jobs, or sends them a signal.

use limo_client::{Failure, Master, Selectors, exit, parse_signal, tell};
use limo_model::parse_hosts;
use limo_proto::{JobFilter, Selection, Selector};

use crate::call::{Call, FAILED};
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both, long};
use crate::squeue::{own_user, states_of, user_name};
use crate::status;
use crate::submit::JobOptions;
use crate::view::job_list;

const OPTIONS: [OptionRow; 24] = [
    both('A', "account", Value),
    both('b', "batch", Nothing),
    both('c', "cron", Nothing),
    both('f', "full", Nothing),
    both('H', "hurry", Nothing),
    both('i', "interactive", Nothing),
    both('M', "clusters", Value),
    both('n', "name", Value),
    long("jobname", Value),
    both('p', "partition", Value),
    both('Q', "quiet", Nothing),
    both('q', "qos", Value),
    both('R', "reservation", Value),
    both('s', "signal", Value),
    both('t', "state", Value),
    both('u', "user", Value),
    both('V', "version", Nothing),
    both('v', "verbose", Nothing),
    both('w', "nodelist", Value),
    long("wckey", Value),
    long("ctld", Nothing),
    long("me", Nothing),
    long("help", Nothing),
    long("usage", Nothing),
];

/// Filters of things that Limo does not have: no job has them, or each job has the same one.
const UNKNOWN: [&str; 5] = ["account", "clusters", "qos", "reservation", "wckey"];

/// Ends the jobs.
///
/// # Errors
/// If an option is wrong, no job is named, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let (options, operands) = match call.options(&OPTIONS, true) {
        Ok((given, operands)) => (JobOptions(given), operands),
        Err(code) => return Ok(code),
    };
    if let Some(name) = UNKNOWN.iter().find(|name| options.has(name)) {
        return Err(Failure::new(format_args!("jobs of Limo cannot be selected by --{name}")));
    }
    let filter = filter(&options)?;
    if operands.is_empty() && filter.is_empty() {
        return Err(Failure::new("No job identification provided"));
    }
    let signal = match options.get("signal") {
        Some(text) => Some(parse_signal(text).map_err(|_| Failure::new(format_args!("Unknown job signal: {text}")))?),
        // A batch shell alone is ended like any job.
        None => None,
    };
    let master = call.master()?;
    let mut which = Vec::new();
    let mut code = exit::DONE;
    for job in operands.iter().flat_map(|word| job_list(word)) {
        match job.parse::<Selectors>() {
            Ok(selectors) => which.push((job.to_owned(), selectors.0)),
            Err(_) => {
                tell(&format!("scancel: error: Invalid job id {job}\n"));
                code = FAILED;
            }
        }
    }
    let all: Vec<Selector> = which.iter().flat_map(|(_, selectors)| selectors.clone()).collect();
    if which.is_empty() && !operands.is_empty() {
        return Ok(code);
    }
    match master.cancel(Selection { which: all, filter: filter.clone() }, signal).await {
        Ok(_) => return Ok(code),
        Err(error) if error.is_absence() || which.is_empty() => {
            // No job passed the filter, which Slurm does not mind.
            return if error.is_absence() { Err(error.into()) } else { Ok(code) };
        }
        Err(_) => {}
    }
    // One of them is over or unknown; the others are to end.
    for (job, selectors) in which {
        if let Err(error) = master.cancel(Selection { which: selectors.clone(), filter: filter.clone() }, signal).await
        {
            if error.is_absence() {
                return Err(error.into());
            }
            if let Some(reason) = complaint(&selectors, &master, &error.to_string()).await? {
                tell(&format!("scancel: error: Kill job error on job id {job}: {reason}\n"));
                code = FAILED;
            }
        }
    }
    Ok(code)
}

/// Returns the complaint about a job that could not be ended; `None` if it is over, which is no error for Slurm.
async fn complaint(which: &[Selector], master: &Master, refusal: &str) -> Result<Option<String>, Failure> {
    let Some(Selector::Job(number) | Selector::Tasks(number, _)) = which.first() else {
        return Ok(Some(refusal.to_owned()));
    };
    Ok(match master.session().await?.job(*number).await {
        Ok(job) if job.state.is_over() => None,
        Ok(_) if matches!(which.first(), Some(Selector::Tasks(..))) => None,
        Ok(_) => Some(refusal.to_owned()),
        Err(_) => Some("Invalid job id specified".to_owned()),
    })
}

fn filter(options: &JobOptions) -> Result<JobFilter, Failure> {
    let list = |text: Option<&str>| -> Vec<String> {
        text.unwrap_or_default().split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let mut users: Vec<String> = list(options.get("user")).into_iter().map(user_name).collect();
    if options.has("me") {
        users.push(own_user());
    }
    let nodes = match options.get("nodelist") {
        Some(nodes) => parse_hosts(nodes).map_err(|error| Failure::new(format_args!("Invalid node name: {error}")))?,
        None => Vec::new(),
    };
    let mut queues = list(options.get("partition"));
    if queues.iter().any(|queue| queue == crate::partitions::ONLY) {
        queues.clear();
        if users.is_empty() {
            users.push(own_user());
        }
    }
    let mut states = Vec::new();
    for name in states_of(options.get("state").unwrap_or_default())? {
        states.extend(status::live_states(name));
    }
    if options.has("state") && states.is_empty() {
        return Err(Failure::new("only PENDING, RUNNING and SUSPENDED jobs can be ended"));
    }
    let names = list(options.get("name").or(options.get("jobname")));
    Ok(JobFilter { users, states, names, nodes, queues })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::parse;
    use limo_proto::JobState;

    #[test]
    fn options_select_jobs_that_are_not_over() {
        let of = |line: &[&str]| {
            let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            let (given, _) = parse(&OPTIONS, &words, true).expect("options");
            filter(&JobOptions(given)).map_err(|failure| failure.message)
        };
        let all = of(&["-u", "ada", "-t", "R,PD", "-n", "a,b", "-p", "short", "-w", "n[1-2]"]).expect("a filter");
        assert_eq!((all.users, all.names), (vec!["ada".to_owned()], vec!["a".to_owned(), "b".into()]));
        assert_eq!((all.queues, all.nodes), (vec!["short".to_owned()], vec!["n1".to_owned(), "n2".into()]));
        assert_eq!(all.states, [JobState::Running, JobState::Waiting]);
        assert!(of(&["-t", "CD"]).is_err_and(|error| error.contains("can be ended")));
        assert!(of(&["-t", "XX"]).is_err_and(|error| error.starts_with("Invalid job state specified: XX")));
        assert!(of(&[]).expect("a filter").is_empty());
    }
}
