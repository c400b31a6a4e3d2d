//! The journal on real files, with real processes and a really full disk.

mod backup;
mod changes;
mod compact;
mod durability;
mod full_disk;
mod history;
mod identity;
mod kill;
mod place;
mod readings;
mod refusals;
mod sequences;
mod server;
mod transfer;

use limo_journal::{Batch, Entry, FinishedRow, Journal, Recovered, Submission};
use limo_model::{Energy, JobId, Money, Time};
use limo_sched::Event;
use place::{Place, on_both};
use sqlx::{ConnectOptions, Connection};

/// Runs a test on a runtime of one thread, shared with the journal.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test)
}

fn at(ms: i64) -> Time {
    Time::from_unix_ms(ms)
}

/// Makes an entry identified by `number`.
fn entry(number: u64) -> (Time, Entry) {
    (at(number.cast_signed()), Entry::Event(Event::CancelRequested { job: JobId(number), by: "ann".into() }))
}

fn key(job: u64) -> [u8; 16] {
    let mut key = [0xA5; 16];
    key[..8].copy_from_slice(&job.to_le_bytes());
    key
}

fn submission(job: u64) -> Submission {
    Submission { job: JobId(job), key: key(job), uid: 1000, launch: vec![job as u8; 300] }
}

fn finished(job: u64) -> FinishedRow {
    FinishedRow {
        job: JobId(job),
        user: "ann".into(),
        name: "cg".into(),
        application: "cg".into(),
        state: "exited 0".into(),
        submitted: at(1),
        started: job.is_multiple_of(2).then(|| at(2)),
        ended: at(job.cast_signed()),
        energy: Energy::from_mj(5),
        cost: Some(Money::from_micro(-7)),
        start_now_cost: Some(Money::from_micro(9)),
        emulated: false,
        measured: Some(true),
        report: r#"{"name":"cg"}"#.into(),
        step_of: None,
    }
}

/// Makes a batch of one entry and one new job.
fn accepted(generation: u64, job: u64) -> Batch {
    Batch { generation, entries: vec![entry(job)], submissions: vec![submission(job)], ..Batch::default() }
}

/// Closes the journal and opens it again.
async fn reopen(journal: Journal, dir: &std::path::Path) -> (Journal, Recovered) {
    journal.close().await;
    Journal::open(dir).await.expect("the journal opens again")
}

/// Converts the file to the format before version 3, then runs `more`.
async fn set_back(dir: &std::path::Path, more: &'static str) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.join("journal.db"));
    let mut conn = options.connect().await.expect("a database");
    let undone = "
        UPDATE finished SET cost_micro = coalesce(cost, 0);
        ALTER TABLE finished DROP COLUMN cost;
        ALTER TABLE finished DROP COLUMN start_now_cost;
        DROP TABLE nodes;
        DROP TABLE kept;
        ALTER TABLE meta DROP COLUMN cluster;
        ALTER TABLE meta DROP COLUMN incarnation;
        ALTER TABLE meta DROP COLUMN begun;
        ALTER TABLE meta DROP COLUMN writer;
        DROP TABLE states;
        DROP TABLE changes;
        DROP INDEX finished_by_user;
        DROP INDEX finished_steps;
        ALTER TABLE finished DROP COLUMN step_of;
        ALTER TABLE finished DROP COLUMN name;
        ALTER TABLE finished DROP COLUMN application;
        ALTER TABLE finished DROP COLUMN start_now_micro;
        ALTER TABLE finished DROP COLUMN emulated;
        ALTER TABLE finished DROP COLUMN measured;
        PRAGMA user_version = 2;";
    sqlx::raw_sql(undone).execute(&mut conn).await.expect("as of version 2");
    sqlx::raw_sql(more).execute(&mut conn).await.expect("as asked for");
    conn.close().await.expect("closed");
}
