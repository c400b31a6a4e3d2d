//! `lq history`: lists finished jobs.

use limo_client::json::JobsJson;
use limo_client::{Clock, Failure, Master, Screen, answer_json, answer_screen, exit};
use limo_proto::Finished;

use crate::args::HistoryArgs;
use crate::columns::{Usual, sort, table};

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
    let finished = Finished {
        filter: args.filter.filter(),
        since: args.ended.since,
        until: args.ended.until,
        after: None,
        limit: args.limit,
    };
    let mut jobs = master.session().await?.finished(finished).await?;
    let clock = Clock::system();
    sort(&mut jobs, &args.view.sort, &clock);
    if json {
        answer_json(&JobsJson::new(&jobs, &clock))?;
    } else {
        answer_screen(&table(&jobs, &args.view, &COLUMNS, (&clock, &Screen::of_stdout())))?;
    }
    Ok(exit::DONE)
}
