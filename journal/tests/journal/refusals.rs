//! Directories and files on which a journal must not be opened.

use std::fs;
use std::path::Path;

use limo_journal::{History, Journal, OpenError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::{accepted, run};

async fn refusal(dir: &Path) -> OpenError {
    match Journal::open(dir).await {
        Ok(_) => panic!("{} was opened", dir.display()),
        Err(error) => error,
    }
}

/// Runs `sql` on the journal's file, as with the `sqlite3` shell.
async fn alter(dir: &Path, sql: &str) {
    let options = SqliteConnectOptions::new().filename(dir.join("journal.db")).create_if_missing(true);
    let mut conn = options.connect().await.expect("a database");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("executed");
    conn.close().await.expect("closed");
}

/// Writes a journal with three entries, and closes it.
async fn written(dir: &Path) {
    let (journal, recovered) = Journal::open(dir).await.expect("a new journal");
    for job in 1..=3 {
        journal.commit(accepted(recovered.generation, job)).await.expect("committed");
    }
    journal.close().await;
}

#[test]
fn a_second_master_is_refused_with_the_directory() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, _) = Journal::open(dir.path()).await.expect("a new journal");
        let text = refusal(dir.path()).await.to_string();
        assert!(text.contains(&dir.path().display().to_string()) && text.contains("another master"), "{text}");
        journal.close().await;
        let (journal, _) = Journal::open(dir.path()).await.expect("free again");
        journal.close().await;
    });
}

#[test]
fn a_newer_schema_is_refused_by_master_and_history() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        written(dir.path()).await;
        alter(dir.path(), "PRAGMA user_version = 9").await;
        let error = refusal(dir.path()).await;
        assert!(matches!(error, OpenError::Newer { found: 9, known: 8, .. }), "{error}");
        assert!(matches!(History::open(dir.path()), Err(OpenError::Newer { found: 9, .. })));
    });
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    run(async {
        for version in ["", "; PRAGMA user_version = 1"] {
            let dir = tempfile::tempdir().expect("a directory");
            alter(dir.path(), &format!("CREATE TABLE recipes (cake TEXT){version}")).await;
            let error = refusal(dir.path()).await;
            assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
            alter(dir.path(), "INSERT INTO recipes VALUES ('lemon')").await;
        }
    });
}

#[test]
fn a_damaged_file_is_refused() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("journal.db"), "this is no database. ".repeat(500)).expect("writable");
        let error = refusal(dir.path()).await;
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(matches!(History::open(dir.path()), Err(OpenError::Damaged { .. })));
    });
}

#[test]
fn an_entry_that_makes_no_sense_is_named() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        written(dir.path()).await;
        alter(dir.path(), r#"UPDATE entries SET body = '{"sang":{}}' WHERE seq = 2"#).await;
        let text = refusal(dir.path()).await.to_string();
        assert!(text.starts_with("entry 2 of the journal is invalid: unknown variant `sang`"), "{text}");
        let history = History::open(dir.path()).expect("opens").collect::<Vec<_>>();
        assert_eq!((history.len(), history[0].is_ok(), history[1].is_err()), (2, true, true));
    });
}

#[test]
fn history_of_a_directory_without_a_journal_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = History::open(dir.path()).map(|_| ()).expect_err("nothing there");
    assert!(error.to_string().contains("journal.db"), "{error}");
}
