//! `lq history`: lists finished jobs.

use limo_client::{Clock, Failure, Master, Screen, answer_json, answer_screen, exit};
use limo_proto::{Finished, JobReport};

use crate::args::HistoryArgs;
use crate::columns::{Usual, sort, table};
use crate::list::JobsJson;

const COLUMNS: Usual = Usual {
    brief: &["jobid", "name", "user", "st", "end", "time", "nodes(unit)", "energy", "cost", "reason"],
    long: &[
        "jobid",
        "name",
        "user",
        "state",
        "submit",
        "start",
        "end",
        "time",
        "cores",
        "memory",
        "nodes(unit)",
        "energy",
        "how",
        "cost",
        "startnow",
        "saved",
        "reason",
    ],
};

/// Prints the list.
///
/// # Errors
/// If the master cannot be asked, or the times are in the wrong order.
pub async fn run(args: &HistoryArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    if args.ended.since.zip(args.ended.until).is_some_and(|(since, until)| since >= until) {
        return Err(Failure::new("--until is not after --since"));
    }
    if let Some(state) = args.filter.states.iter().find(|state| !state.is_over()) {
        let failure = Failure::new(format_args!("a job that is {} is not over", state.name()));
        return Err(failure.hint(format_args!("lq -t {}", state.name())));
    }
    let mut jobs = ask(args, master).await?;
    let clock = Clock::system();
    sort(&mut jobs, &args.view.sort, &clock);
    if json {
        answer_json(&JobsJson::new(&jobs, &clock))?;
    } else {
        answer_screen(&table(&jobs, &args.view, &COLUMNS, (&clock, &Screen::of_stdout())))?;
    }
    Ok(exit::DONE)
}

/// Requests all parts of the list.
async fn ask(args: &HistoryArgs, master: &Master) -> Result<Vec<JobReport>, Failure> {
    let mut session = master.session().await?;
    let mut jobs: Vec<JobReport> = Vec::new();
    loop {
        let after = jobs.last().and_then(|job| Some((job.ended?, job.job)));
        let limit = args.limit - u32::try_from(jobs.len()).unwrap_or(args.limit);
        let (since, until) = (args.ended.since, args.ended.until);
        let part = Finished { filter: args.filter.filter(), since, until, after, limit };
        let (found, more) = session.history(part).await?;
        let ends = !more || found.is_empty();
        jobs.extend(found);
        if ends || jobs.len() >= args.limit as usize {
            jobs.truncate(args.limit as usize);
            return Ok(jobs);
        }
    }
}
