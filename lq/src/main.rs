//! `lq`: shows submitted jobs, and cancels, holds, requeues or suspends them.

mod args;
mod attach;
mod cancel;
mod columns;
mod energy;
mod explain;
mod history;
mod hold;
mod list;
mod logs;
mod nodes;
mod show;
mod top;
mod wait;
mod web;

use std::process::ExitCode;

use limo_client::{Failure, finish, in_runtime, parse};
use limo_proto::Change;

use crate::args::{Args, Command, ListArgs, ViewArgs};

pub(crate) const PROGRAM: &str = "lq";

fn main() -> ExitCode {
    match parse::<Args>(PROGRAM, |_| None) {
        Ok(args) => finish(PROGRAM, run(args)),
        Err(code) => code,
    }
}

fn run(args: Args) -> Result<u8, Failure> {
    let Args { list, json, master, command } = args;
    if command.is_some() && list != ListArgs::default() {
        let failure = Failure::new("table options cannot be combined with a subcommand");
        return Err(failure.hint("`lq COMMAND --help` shows the options of a command, which follow it"));
    }
    if json && command.as_ref().map_or(Some(&list.view), view).is_some_and(for_people) {
        return Err(Failure::new(
            "--format, --long and --noheader cannot be combined with --json, which has all columns",
        ));
    }
    let master = &master.master();
    in_runtime(async {
        match command {
            None => list::run(&list, json, master).await,
            Some(Command::Show { jobs }) => show::run(&jobs.resolve(master).await?, json, master).await,
            Some(Command::Explain { jobs }) => explain::run(&jobs.resolve(master).await?, json, master).await,
            Some(Command::Cancel(args)) => cancel::run(&args, json, master).await,
            Some(Command::Wait { jobs, reconnect }) => {
                wait::run(&jobs.resolve(master).await?, json, master, reconnect.reconnect_timeout).await
            }
            Some(Command::History(args)) => history::run(&args, json, master).await,
            Some(Command::Energy(args)) => energy::run(&args, json, master).await,
            Some(Command::Top(args)) if !json => top::run(&args, master).await,
            Some(Command::Top(_)) => Err(Failure::new("lq top has no JSON: use `lq --json --watch`")),
            Some(Command::Web { act }) => web::run(act, json, master).await,
            Some(Command::Nodes) => nodes::run(json, master).await,
            Some(Command::Logs { .. }) if json => Err(Failure::new("`lq logs` prints what the job wrote, not JSON")),
            Some(Command::Logs { follow, stderr, jobs, reconnect }) => {
                let what = logs::What { stderr, follow };
                logs::run(&jobs.resolve(master).await?, what, master, reconnect.reconnect_timeout).await
            }
            Some(Command::Attach { .. }) if json => {
                Err(Failure::new("`lq attach` passes the job's output on and has no JSON"))
            }
            Some(Command::Attach { take, job, reconnect }) => {
                attach::run(&job, take, master, reconnect.reconnect_timeout).await
            }
            Some(Command::Hold { jobs }) => {
                hold::run((Change::Hold, "held"), &jobs.resolve(master).await?, json, master).await
            }
            Some(Command::Release { jobs }) => {
                hold::run((Change::Release, "released"), &jobs.resolve(master).await?, json, master).await
            }
            Some(Command::Requeue { jobs }) => {
                hold::run((Change::Requeue, "requeued"), &jobs.resolve(master).await?, json, master).await
            }
            Some(Command::Suspend { jobs }) => {
                hold::run((Change::SuspendJobs, "suspended"), &jobs.resolve(master).await?, json, master).await
            }
            Some(Command::Resume { jobs }) => {
                hold::run((Change::ResumeJobs, "resumed"), &jobs.resolve(master).await?, json, master).await
            }
            Some(Command::Priority { jobs, priority }) => {
                let change = |jobs| Change::Priority { jobs, priority };
                hold::run((change, "ranked"), &jobs.0, json, master).await
            }
            Some(Command::TimeLimit { jobs, limit }) => {
                let change = |jobs| Change::TimeLimit { jobs, limit: limit.0 };
                hold::run((change, "limited"), &jobs.0, json, master).await
            }
        }
    })
}

/// Returns the view options of a command that shows a table of jobs.
fn view(command: &Command) -> Option<&ViewArgs> {
    match command {
        Command::History(args) => Some(&args.view),
        _ => None,
    }
}

/// Returns true for options that JSON does not support.
fn for_people(view: &ViewArgs) -> bool {
    !view.format.is_empty() || view.long || view.noheader
}
