//! `lrun`: submits a job and becomes it: stdin, stdout, stderr, signals, exit code. Decides nothing about where or when
//! it runs.

mod args;
mod attached;
mod dependency;
mod detached;
mod dry_run;
mod farewell;
mod link;
mod pumps;
mod session;
mod signals;
mod streams;
mod submission;
mod voice;
mod warning;

use std::process::ExitCode;

use limo_client::{Failure, finish, parse};

use crate::args::Args;
use crate::submission::Surroundings;

const PROGRAM: &str = "lrun";

fn main() -> ExitCode {
    match parse::<Args>(PROGRAM) {
        Ok(args) => finish(PROGRAM, run(args)),
        Err(code) => code,
    }
}

fn run(args: Args) -> Result<u8, Failure> {
    if args.how.json && !args.how.detach && !args.how.dry_run {
        return Err(Failure::new("--json is for --detach and --dry-run: otherwise standard output is the job's own")
            .hint("`lq show ID --json` prints a job as JSON"));
    }
    let exec = submission::build(&args, Surroundings::of_this_process()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format_args!("cannot start: {error}")))?;
    let Args { how, master, reconnect, .. } = args;
    let result = runtime.block_on(async {
        if how.dry_run {
            dry_run::run(exec.request, how.json, &master.master).await
        } else if how.detach {
            detached::run(exec, &how, master, reconnect).await
        } else {
            attached::run(exec, &how, master, reconnect).await
        }
    });
    // A thread may still be blocked in a read of stdin; nothing is left to be done for it.
    runtime.shutdown_background();
    result
}
