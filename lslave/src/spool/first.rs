//! Reads intents of the first format, in which orders did not name their journal, and ends without a confidence of
//! their energy.

use limo_model::{Attempt, Energy, JobId, JournalId, Memory, Outcome, Placement, Span, Usage};
use limo_proto::{DecodeError, DoExec, LaunchWithoutHold, Share, Task, decode_stored};
use serde::Deserialize;

use limo_node::{End, Intent};

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
    launch: LaunchWithoutHold,
    time_limit: Option<Span>,
    restarts: u32,
    task: Option<Task>,
    share: Option<Share>,
}

/// Reads an intent.
///
/// # Errors
/// If the format differs, or the bytes are not an intent.
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
        launch: launch.into(),
        time_limit,
        warning: None,
        checkpoint: None,
        step: None,
        // Masters that sent no grace had this default.
        kill_grace: Span::from_secs(30),
        restarts,
        task,
        share,
        lease: None,
    };
    Ok(Intent { exec, cookie, boot })
}

#[derive(Deserialize)]
struct FirstEnd {
    outcome: Outcome,
    usage: FirstUsage,
}

#[derive(Deserialize)]
struct FirstUsage {
    elapsed: Span,
    user_cpu: Span,
    system_cpu: Span,
    max_rss: Memory,
    energy: Option<Energy>,
}

/// Reads an end.
///
/// # Errors
/// If the format differs, or the bytes are not an end.
pub(super) fn decode_end(bytes: &[u8]) -> Result<End, DecodeError> {
    let FirstEnd { outcome, usage } = decode_stored(bytes)?;
    let FirstUsage { elapsed, user_cpu, system_cpu, max_rss, energy } = usage;
    // Only emulated hardware reported an energy, and it knew the exact value.
    let confidence = energy.map_or(0, |_| 1_000);
    Ok(End { outcome, usage: Usage { elapsed, user_cpu, system_cpu, max_rss, energy, confidence } })
}
