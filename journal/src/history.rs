//! Reads a journal from its first entry, even while a master writes it: for replays and figures. Never writes.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use limo_model::Time;
use sqlx::{ConnectOptions, SqliteConnection};

use crate::batch::Entry;
use crate::db::Db;
use crate::error::{OpenError, ReadError};
use crate::{read, schema};

/// Entries that are read ahead of the reader, besides one page.
const AHEAD: usize = 64;

/// An entry of a [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Place in the journal: 1, 2 and so on.
    pub seq: i64,
    /// Time at which the master recorded the entry, by its clock.
    pub at: Time,
    /// The recorded entry.
    pub entry: Entry,
}

/// All entries that were in the journal when it was opened, in order. Ends after the first error.
pub struct History {
    entries: Receiver<Result<HistoryEntry, ReadError>>,
}

impl History {
    /// Opens a journal for reading: the one in the state directory `place`, or the file `place`. Takes no lock and does
    /// not disturb the master.
    ///
    /// # Errors
    /// [`OpenError`] if the journal does not exist, is damaged, not a journal, or newer than this program.
    pub fn open(place: &Path) -> Result<Self, OpenError> {
        let path = if place.is_file() { place.to_owned() } else { place.join(schema::FILE) };
        let failed = |source| OpenError::Directory { dir: place.to_owned(), source };
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(failed)?;
        let (sender, entries) = sync_channel(AHEAD);
        let (opened, opening) = sync_channel(1);
        let file = path.clone();
        // The caller may be inside a runtime already, or have none, so this runs on a separate thread.
        let work = move || match runtime.block_on(begin(&file)) {
            Ok((conn, last)) => {
                let _ = opened.send(Ok(()));
                runtime.block_on(send_all(conn, last, &sender));
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        thread::Builder::new().name("history".into()).spawn(work).map_err(failed)?;
        let gone = |_| OpenError::Database { path: path.clone(), detail: "its thread ended".into() };
        opening.recv().map_err(gone)??;
        Ok(Self { entries })
    }
}

impl Iterator for History {
    type Item = Result<HistoryEntry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.recv().ok()
    }
}

async fn begin(path: &Path) -> Result<(SqliteConnection, i64), OpenError> {
    let failed = |error: sqlx::Error| OpenError::from_sqlite(&error, path);
    let mut conn = schema::reading(path).connect().await.map_err(failed)?;
    if schema::version(&mut conn, path).await? == 0 {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let last = read::last_seq(&mut Db::File(&mut conn)).await;
    let last = last.map_err(|error| OpenError::Database { path: path.to_owned(), detail: error.to_string() })?;
    Ok((conn, last))
}

/// Sends page after page. Blocks this thread, which has no other work, while the receiver is slow.
async fn send_all(mut conn: SqliteConnection, last: i64, sender: &SyncSender<Result<HistoryEntry, ReadError>>) {
    let mut after = 0;
    while after < last {
        let rows = match read::page(&mut Db::File(&mut conn), after, last).await {
            Ok(rows) if rows.is_empty() => return,
            Ok(rows) => rows,
            Err(error) => {
                let _ = sender.send(Err(error));
                return;
            }
        };
        for row in &rows {
            let entry = read::entry(row).map(|(seq, at, entry)| HistoryEntry { seq, at, entry });
            let ends = entry.is_err();
            after = entry.as_ref().map_or(after, |entry| entry.seq);
            if sender.send(entry).is_err() || ends {
                return;
            }
        }
    }
}
