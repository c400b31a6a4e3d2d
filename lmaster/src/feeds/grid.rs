//! The sources of limits as tasks, and their state over a restart: a text in the journal. An unreadable text counts
//! as missing, so that obligatory sources begin in failsafe.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use limo_feeds::config::AUTHORITIES_LIMIT;
use limo_feeds::fetch::{Fetcher, TIMEOUT};
use limo_feeds::file::read;
use limo_feeds::grid::{Kept, Limit, Source, Teller, Word, contact, file, openadr, pull, push, schedule};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::config::grid::SourceKind;

/// Returns the record of an earlier process in the journal; empty if `text` cannot be read.
pub fn kept(text: Option<&String>) -> Kept {
    let read = |text: &String| {
        serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::warn!(%error, "the grid's limits are no longer known");
            Kept::default()
        })
    };
    text.map(read).unwrap_or_default()
}

/// Starts a task for each source. Messages go to `words` with the index of the source. The tasks end when the set is
/// dropped.
///
/// # Errors
/// If an address cannot be listened on, or the authorities of a source cannot be read.
pub async fn start(
    sources: &[(Source, SourceKind)],
    kept: &Kept,
    state_dir: &Path,
    words: Sender<(usize, Word)>,
) -> Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    for (index, (source, kind)) in sources.iter().enumerate() {
        let teller = Teller::new(index, words.clone());
        let place = || format!("[[grid]] {}", source.name);
        match kind.clone() {
            SourceKind::OpenAdr(ven, authorities) => {
                let fetcher = fetcher(authorities.as_deref()).with_context(place)?;
                tasks.spawn(openadr::run(ven, fetcher, teller));
            }
            SourceKind::Pull(pull, authorities) => {
                let fetcher = fetcher(authorities.as_deref()).with_context(place)?;
                tasks.spawn(pull::run(pull, fetcher, teller));
            }
            SourceKind::Push(push, address) => {
                let listener = push::bind(address).await;
                let listener = listener.with_context(|| format!("{}: cannot listen on {address}", place()))?;
                let bound = listener.local_addr().context("cannot find the own address")?;
                let path = state_dir.join(format!("grid-{}.address", source.name));
                match fs::write(&path, format!("{bound}\n")) {
                    Err(error) if error.kind() == ErrorKind::StorageFull => {
                        tracing::warn!(path = %path.display(), "the disk is full: the address is only in this log");
                    }
                    written => written.with_context(|| format!("cannot write {}", path.display()))?,
                }
                tracing::info!(source = source.name, address = %bound, "listening for limits");
                tasks.spawn(push::run(push, listener, said(kept, &source.name), teller));
            }
            SourceKind::File(watched) => drop(tasks.spawn(file::run(watched, teller))),
            SourceKind::Contact(contact) => drop(tasks.spawn(contact::run(contact, teller))),
            SourceKind::Schedule(schedule) => drop(tasks.spawn(schedule::run(schedule, teller))),
        }
    }
    Ok(tasks)
}

fn said(kept: &Kept, name: &str) -> Vec<Limit> {
    kept.sources.iter().find(|kept| kept.name == name).map(|kept| kept.limits.clone()).unwrap_or_default()
}

fn fetcher(authorities: Option<&Path>) -> Result<Fetcher> {
    let pem = authorities.map(|path| read(path, AUTHORITIES_LIMIT)).transpose()?.map(|(pem, _)| pem);
    Ok(Fetcher::new(TIMEOUT, pem.as_deref())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_feeds::grid::KeptSource;

    #[test]
    fn kept_limits_are_read_and_damaged_ones_dropped() {
        let source = KeptSource { name: "dso".into(), limits: Vec::new(), failsafe_since: None };
        let given = Kept { sources: vec![source] };
        let text = serde_json::to_string(&given).expect("written");
        assert_eq!((kept(None), kept(Some(&text))), (Kept::default(), given));
        assert_eq!(kept(Some(&"{\"sour".to_owned())), Kept::default());
    }
}
