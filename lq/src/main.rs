//! `lq`: looks at what was submitted, cancels it or holds it back. Changes nothing else.

mod args;
mod cancel;
mod explain;
mod hold;
mod list;
mod logs;
mod nodes;
mod show;
mod wait;

use std::process::ExitCode;

use limo_client::{Failure, finish, parse};
use limo_proto::Change;

use crate::args::{Args, Command, ListArgs};

const PROGRAM: &str = "lq";

fn main() -> ExitCode {
    match parse::<Args>(PROGRAM) {
        Ok(args) => finish(PROGRAM, run(args)),
        Err(code) => code,
    }
}

fn run(args: Args) -> Result<u8, Failure> {
    let Args { list, json, master, command } = args;
    if command.is_some() && list != ListArgs::default() {
        return Err(Failure::new("--all, --limit, --user and --states are for the table, not for a command"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format_args!("cannot start: {error}")))?;
    let master = &master.master;
    runtime.block_on(async {
        match command {
            None => list::run(&list, json, master).await,
            Some(Command::Show { ids }) => show::run(&ids, json, master).await,
            Some(Command::Explain { id }) => explain::run(id, json, master).await,
            Some(Command::Cancel { ids }) => cancel::run(ids, json, master).await,
            Some(Command::Wait { ids, reconnect }) => wait::run(ids, json, master, reconnect.reconnect_timeout).await,
            Some(Command::Nodes) => nodes::run(json, master).await,
            Some(Command::Logs { .. }) if json => Err(Failure::new("`lq logs` prints what the job wrote, not JSON")),
            Some(Command::Logs { follow, stderr, id, reconnect }) => {
                logs::run(id, logs::What { stderr, follow }, master, reconnect.reconnect_timeout).await
            }
            Some(Command::Hold { ids }) => hold::run((Change::Hold, "held"), ids, json, master).await,
            Some(Command::Release { ids }) => hold::run((Change::Release, "released"), ids, json, master).await,
            Some(Command::Requeue { ids }) => hold::run((Change::Requeue, "requeued"), ids, json, master).await,
        }
    })
}
