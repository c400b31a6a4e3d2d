//! `lq cancel`: ends jobs, waiting or running, or sends them a signal.

use limo_client::json::SCHEMA;
use limo_client::{Failure, Master, answer_json, exit, resolve};
use limo_proto::Selection;
use serde::Serialize;

use crate::args::CancelArgs;

#[derive(Serialize)]
struct CancelledJson {
    schema: u32,
    cancelled: Vec<u64>,
}

#[derive(Serialize)]
struct SignalledJson {
    schema: u32,
    signal: i32,
    signalled: Vec<u64>,
}

/// Cancels the jobs; returns when the request is on the master's disk. A running job may take its grace to end. Prints
/// nothing.
///
/// # Errors
/// If the master refuses: the job is unknown, over, or another user's.
pub async fn run(args: &CancelArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    if let Some(state) = args.filter.states.iter().find(|state| state.is_over()) {
        return Err(Failure::new(format_args!("a job that is {} is over and cannot be ended", state.name())));
    }
    let selection = Selection { which: resolve(&args.jobs, master).await?, filter: args.filter.filter() };
    let jobs = master.cancel(selection, args.signal).await?.iter().map(|job| job.0).collect();
    match args.signal {
        _ if !json => {}
        None => answer_json(&CancelledJson { schema: SCHEMA, cancelled: jobs })?,
        Some(signal) => answer_json(&SignalledJson { schema: SCHEMA, signal, signalled: jobs })?,
    }
    Ok(exit::DONE)
}
