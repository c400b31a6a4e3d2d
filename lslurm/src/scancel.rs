//! `scancel`: ends jobs, or sends them a signal.

use limo_client::{Clock, Failure, Master, Selectors, exit, parse_signal, tell};
use limo_model::{JobId, parse_step};
use limo_proto::{JobFilter, JobState, Selection, Selector};

use crate::call::{Call, FAILED};
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both, long};
use crate::select::{Accounting, filter, is_named, job_list, states};
use crate::status;
use crate::submit::JobOptions;
use crate::view::View;

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
const UNKNOWN: [&str; 3] = ["clusters", "reservation", "wckey"];

/// Filters that select jobs without their numbers.
const FILTERS: [&str; 9] = ["account", "jobname", "me", "name", "nodelist", "partition", "qos", "state", "user"];

/// Most jobs in one request.
const AT_ONCE: usize = 1_000;

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
    if operands.is_empty() && !FILTERS.iter().any(|name| options.has(name)) {
        return Err(Failure::new("No job identification provided"));
    }
    let signal = match options.get("signal") {
        Some(text) => match parse_signal(text) {
            Ok(signal) => Some(signal),
            Err(_) => {
                tell(&format!("Unknown job signal: {text}\n"));
                return Ok(FAILED);
            }
        },
        // A batch shell alone is ended like any job.
        None => None,
    };
    let master = call.master()?;
    let mut filter = filter(&options, &master).await?;
    filter.states = live_states(options.get("state").unwrap_or_default())?;
    if options.has("state") && filter.states.is_empty() {
        // Jobs that are over need no cancelling.
        return Ok(exit::DONE);
    }
    let mut which = Vec::new();
    let mut code = exit::DONE;
    for job in operands.iter().flat_map(|word| job_list(word)) {
        let selectors = match parse_step(job) {
            Some((of, number)) => step(&master, of, number).await?,
            None => job.parse::<Selectors>().ok().map(|selectors| selectors.0),
        };
        match selectors {
            Some(selectors) => which.push((job.to_owned(), selectors)),
            None => {
                tell(&format!("scancel: error: Invalid job id {job}\n"));
                code = FAILED;
            }
        }
    }
    let accounting = Accounting::of(&options);
    if !accounting.is_empty() {
        let named: Vec<Selectors> = which.iter().map(|(_, selectors)| Selectors(selectors.clone())).collect();
        if named.is_empty() && !operands.is_empty() {
            return Ok(code);
        }
        let ended = of_accounts(&master, (&accounting, &named), filter, signal).await?;
        return Ok(code.max(ended));
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
    Ok(code.max(one_by_one(&master, &which, (&filter, signal)).await?))
}

/// Returns a step, if it exists.
async fn step(master: &Master, job: JobId, number: u32) -> Result<Option<Vec<Selector>>, Failure> {
    match master.session().await?.step(job, number).await {
        Ok(step) => Ok(Some(vec![Selector::Job(step.job)])),
        Err(error) if error.is_absence() => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Ends jobs, each by a request of its own, and tells about those that the master refused. Returns the exit code.
async fn one_by_one(
    master: &Master,
    jobs: &[(String, Vec<Selector>)],
    (filter, signal): (&JobFilter, Option<i32>),
) -> Result<u8, Failure> {
    let mut code = exit::DONE;
    for (job, selectors) in jobs {
        let Err(error) = master.cancel(Selection { which: selectors.clone(), filter: filter.clone() }, signal).await
        else {
            continue;
        };
        if error.is_absence() {
            return Err(error.into());
        }
        if let Some(reason) = complaint(selectors, master, &error.to_string()).await? {
            tell(&format!("scancel: error: Kill job error on job id {job}: {reason}\n"));
            code = FAILED;
        }
    }
    Ok(code)
}

/// Ends the jobs of accounts and QOS: those which are named, or all. Returns the exit code.
async fn of_accounts(
    master: &Master,
    (accounting, named): (&Accounting, &[Selectors]),
    filter: JobFilter,
    signal: Option<i32>,
) -> Result<u8, Failure> {
    let clock = Clock::system();
    let mut jobs = master.session().await?.jobs(filter, 0).await?;
    jobs.retain(|job| accounting.passes(&View { job, clock: &clock }) && (named.is_empty() || is_named(named, job)));
    let jobs: Vec<_> = jobs.iter().map(|job| (job.job.to_string(), vec![Selector::Job(job.job)])).collect();
    let mut code = exit::DONE;
    for some in jobs.chunks(AT_ONCE) {
        let which: Vec<Selector> = some.iter().flat_map(|(_, selectors)| selectors.clone()).collect();
        match master.cancel(Selection::from(which), signal).await {
            Ok(_) => {}
            Err(error) if error.is_absence() => return Err(error.into()),
            Err(_) => code = code.max(one_by_one(master, some, (&JobFilter::default(), signal)).await?),
        }
    }
    Ok(code)
}

/// Returns the complaint about a job that could not be ended; `None` if it is over or unknown, which scancel does not mind.
async fn complaint(which: &[Selector], master: &Master, refusal: &str) -> Result<Option<String>, Failure> {
    let Some(Selector::Job(number) | Selector::Tasks(number, _)) = which.first() else {
        return Ok(Some(refusal.to_owned()));
    };
    Ok(match master.session().await?.job(*number).await {
        Ok(job) if job.state.is_over() => None,
        Ok(_) if matches!(which.first(), Some(Selector::Tasks(..))) => None,
        Ok(_) => Some(refusal.to_owned()),
        Err(_) => None,
    })
}

/// Reads states; leaves out those of jobs that are over.
fn live_states(list: &str) -> Result<Vec<JobState>, Failure> {
    Ok(states(list)?.into_iter().flat_map(status::live_states).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_jobs_that_are_not_over_are_selected_by_state() {
        let of = |list: &str| live_states(list).map_err(|failure| failure.message);
        assert_eq!(of("R,pending"), Ok(vec![JobState::Running, JobState::Waiting]));
        assert_eq!(of(""), Ok(Vec::new()));
        assert_eq!(of("CD"), Ok(Vec::new()));
        assert_eq!(of("XX"), Err("Invalid job state specified: XX".to_owned()));
    }
}
