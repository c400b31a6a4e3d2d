//! `lsim replay`: checks that the journal of a master gives the same rounds again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use crate::history::replay::{Replay, RoundDifference};
use crate::history::shown;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// State directory of a master, which may be running, or the file journal.db
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Replays a journal.
///
/// # Errors
/// If the journal cannot be read, or is empty.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut replay = Replay::open(&arguments.journal)?;
    let mut difference = None;
    while difference.is_none()
        && let Some(entry) = replay.read()?
    {
        difference = replay.run(&entry);
    }
    let Some((first, last)) = replay.extent else {
        bail!("{}: the journal has no entries", arguments.journal.display());
    };
    if arguments.json {
        println!("{}", as_json(&replay, difference.as_ref()));
    } else {
        let Replay { entries, events, rounds, .. } = replay;
        println!("{entries} entries from {} to {}: {events} events, {rounds} rounds", shown(first), shown(last));
        match &difference {
            None => println!("equal: every round is the recorded one, byte for byte"),
            Some(difference) => println!("different: {difference}"),
        }
    }
    Ok(if difference.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(replay: &Replay, difference: Option<&RoundDifference>) -> serde_json::Value {
    let (first, last) = replay.extent.unzip();
    let difference = difference.map(|difference| {
        let RoundDifference { seq, at, recorded, now } = difference;
        json!({"entry": seq, "at": shown(*at), "recorded": recorded, "now": now})
    });
    json!({
        "schema": 1,
        "equal": difference.is_none(),
        "entries": replay.entries,
        "events": replay.events,
        "rounds": replay.rounds,
        "first": first.map(shown),
        "last": last.map(shown),
        "difference": difference,
    })
}
