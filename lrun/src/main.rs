//! `lrun`: submits a job and passes on its stdin, stdout, stderr, signals and exit code. The master decides where and
//! when it runs.

mod accounting;
mod args;
mod array;
mod attached;
mod dependency;
mod detached;
mod dry_run;
mod export;
mod farewell;
mod files;
mod foreign;
mod gres;
mod labels;
mod lines;
mod link;
mod login;
mod mail;
mod priority;
mod pumps;
mod resources;
mod restart;
mod script;
mod session;
mod signals;
mod step;
mod streams;
mod submission;
mod taking;
mod tasks;
mod terminal;
mod voice;
mod warning;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use limo_client::{Failure, finish, in_runtime, parse};

use crate::args::Args;
use crate::login::LoginLine;
use crate::script::Script;
use crate::submission::Surroundings;
use crate::work::Work;

const PROGRAM: &str = "lrun";

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == login::LOGIN) {
        // A job can have a command of this name behind `--`.
        return match parse::<LoginLine>(PROGRAM, |_| None) {
            Ok(line) => finish(PROGRAM, in_runtime(login::run(line))),
            Err(code) => code,
        };
    }
    match parse::<Args>(PROGRAM, foreign::instead) {
        Ok(args) if args.how.as_srun => {
            let action = match std::env::var("LIMO_JOB_ID") {
                Ok(job) => format!("Unable to create step for job {job}"),
                Err(_) => "Unable to allocate resources".to_owned(),
            };
            finish("srun", run(args).map_err(|failure| failure.as_slurm("srun", &action)))
        }
        Ok(args) => finish(PROGRAM, run(args)),
        Err(code) => code,
    }
}

/// Merges the command line with the options of its script.
fn with_script(args: Args) -> Result<(Args, Option<Script>), Failure> {
    let Some(path) = &args.script.script else { return Ok((args, None)) };
    let script = Script::read(path)?;
    let line: Vec<OsString> = std::env::args_os().collect();
    Ok((script.with_command_line(args, &line)?, Some(script)))
}

/// Checks combinations of options, from both sources.
fn check(args: &Args) -> Result<(), Failure> {
    let how = &args.how;
    if how.json && !how.is_detached() && !how.dry_run {
        return Err(Failure::new("--json is for --detach and --dry-run: otherwise standard output is the job's own")
            .hint("`lq show ID --json` prints a job as JSON"));
    }
    let is_array = args.array.array.is_some() || args.array.each_line.is_some();
    if is_array && !how.is_detached() && !how.dry_run {
        return Err(Failure::new("an array cannot run attached to lrun")
            .hint("add `--detach`, or `--wait` to wait until all tasks are over"));
    }
    if args.power.requeue && !how.is_detached() && !how.dry_run {
        return Err(Failure::new("--requeue is for --detach: a job that runs again would write its output twice")
            .hint("lrun --detach --requeue ..."));
    }
    Ok(())
}

fn run(args: Args) -> Result<u8, Failure> {
    if let Some(job) = args.taking.attach {
        let Args { taking, how, master, reconnect, .. } = args;
        return in_runtime(taking::run((job, taking.take), &how, master, reconnect));
    }
    let (mut args, script) = with_script(args)?;
    check(&args)?;
    let step = step::of_job(&mut args, |name| std::env::var(name).ok())?;
    let mut around = Surroundings::of_this_process()?;
    if args.files.pty {
        around.terminal = Some(terminal::size()?);
    }
    let exec = submission::build(&args, Work::of(&args, script, &around)?, around, step)?;
    let Args { mut how, steps, master, reconnect, .. } = args;
    how.detach |= steps.no_shell;
    in_runtime(async {
        if how.dry_run {
            dry_run::run(exec.request, how.json, &master.master()).await
        } else if how.is_detached() {
            detached::run(exec, &how, master, reconnect).await
        } else {
            attached::run(exec, &how, master, reconnect).await
        }
    })
}
