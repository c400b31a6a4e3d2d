//! Intents in the first format, from before orders named their journal. Only read.

use limo_model::{Attempt, JobId, JournalId, Placement, Span};
use limo_proto::{DecodeError, DoExec, Launch, Share, Task, decode_stored};
use serde::Deserialize;

use super::Intent;

#[derive(Deserialize)]
struct First {
    exec: Exec,
    cookie: String,
    boot: String,
}

#[derive(Deserialize)]
struct Exec {
    job: JobId,
    attempt: Attempt,
    name: String,
    application: String,
    size: String,
    user: String,
    placement: Placement,
    launch: Launch,
    time_limit: Option<Span>,
    restarts: u32,
    task: Option<Task>,
    share: Option<Share>,
}

/// # Errors
/// If it is another format, or no intent.
pub(super) fn decode(bytes: &[u8]) -> Result<Intent, DecodeError> {
    let First { exec, cookie, boot } = decode_stored(bytes)?;
    let Exec { job, attempt, name, application, size, user, placement, launch, time_limit, restarts, task, share } =
        exec;
    let journal = JournalId::default();
    let exec = DoExec {
        journal,
        job,
        attempt,
        name,
        application,
        size,
        user,
        placement,
        launch,
        time_limit,
        warning: None,
        // The default of the masters that sent no other.
        kill_grace: Span::from_secs(30),
        restarts,
        task,
        share,
        lease: None,
    };
    Ok(Intent { exec, cookie, boot })
}
