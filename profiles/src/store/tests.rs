//! The profile database on real files.

use limo_model::EstimateSource;

use super::*;
use crate::statistics::WINDOW;

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(test)
}

fn key(application: &str, cap: Option<i64>) -> ProfileKey {
    ProfileKey {
        application: application.into(),
        size: "C".into(),
        hardware: "xeon".into(),
        cores: Some(4),
        nodes: None,
        cap: cap.map(Power::from_watts),
    }
}

fn measured(job: u64, key: ProfileKey, secs: i64) -> Run {
    let (duration, power) = (Span::from_secs(secs), Power::from_watts(40));
    Run { job: JobId(job), key, duration, power, energy: power * duration, confidence: 1_000 }
}

fn profile(secs: i64, runs: u32, source: EstimateSource) -> Profile {
    let (duration, power) = (Span::from_secs(secs), Power::from_watts(40));
    Profile { duration, power, energy: power * duration, spread_permille: 0, runs, source }
}

fn learned(secs: i64, runs: u32) -> Profile {
    profile(secs, runs, EstimateSource::Learned)
}

fn imported(secs: i64) -> Profile {
    profile(secs, 5, EstimateSource::Imported)
}

#[test]
fn each_job_teaches_once_also_after_reopening_and_after_the_window() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        let cg = || key("cg", None);
        assert_eq!(db.learn(measured(1, cg(), 10)).await, Ok(Some(learned(10, 1))));
        assert_eq!(db.learn(measured(1, cg(), 99)).await, Ok(None));
        // A known job is not learned from even for another key.
        assert_eq!(db.learn(measured(1, key("ft", None), 99)).await, Ok(None));
        for job in 2..=WINDOW as u64 + 5 {
            assert_eq!(db.learn(measured(job, cg(), 10)).await, Ok(Some(learned(10, job as u32))));
        }
        drop(db);
        let db = ProfileDb::open(dir.path()).await.expect("opens again");
        assert_eq!(db.learn(measured(1, cg(), 99)).await, Ok(None));
        assert_eq!(db.all().await, Ok(vec![(cg(), learned(10, WINDOW as u32 + 5))]));
    });
}

#[test]
fn only_the_newest_runs_of_a_key_count() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        let window = WINDOW as u64;
        // Runs of another key between them are not counted in the window.
        for job in 0..window {
            db.learn(measured(job, key("cg", None), 10)).await.expect("learned");
            db.learn(measured(1_000 + job, key("cg", Some(65)), 30)).await.expect("learned");
        }
        let mut last = None;
        for job in window..2 * window {
            last = db.learn(measured(job, key("cg", None), 20)).await.expect("learned");
        }
        // If half of the window were old runs, there would be a spread.
        assert_eq!(last, Some(learned(20, 2 * WINDOW as u32)));
        let all = vec![(key("cg", None), learned(20, 2 * WINDOW as u32)), (key("cg", Some(65)), learned(30, 32))];
        assert_eq!(db.all().await, Ok(all));
    });
}

#[test]
fn an_import_counts_until_three_runs_are_known_and_replaces_only_imports() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        let cg = || key("cg", None);
        assert_eq!(db.learn(measured(1, cg(), 10)).await, Ok(Some(learned(10, 1))));
        // The caller's source is ignored.
        let set = vec![(cg(), learned(50, 5)), (key("ft", None), imported(60))];
        let now = vec![(cg(), imported(50)), (key("ft", None), imported(60))];
        assert_eq!(db.set(set).await, Ok(now));
        assert_eq!(db.learn(measured(2, cg(), 10)).await, Ok(Some(imported(50))));
        assert_eq!(db.set(vec![(cg(), imported(55))]).await, Ok(vec![(cg(), imported(55))]));
        assert_eq!(db.learn(measured(3, cg(), 10)).await, Ok(Some(learned(10, 3))));
        assert_eq!(db.set(vec![(cg(), imported(70))]).await, Ok(vec![(cg(), learned(10, 3))]));
        let all = vec![(cg(), learned(10, 3)), (key("ft", None), imported(60))];
        assert_eq!(db.all().await, Ok(all));
    });
}

#[test]
fn forgetting_takes_both_and_teaches_nothing_twice() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        let cg = || key("cg", None);
        db.set(vec![(cg(), imported(50)), (key("cg", Some(65)), imported(60))]).await.expect("imported");
        db.learn(measured(1, cg(), 10)).await.expect("learned");
        assert_eq!(db.forget(&cg()).await, Ok(true));
        assert_eq!(db.forget(&cg()).await, Ok(false));
        assert_eq!(db.all().await, Ok(vec![(key("cg", Some(65)), imported(60))]));
        assert_eq!(db.learn(measured(1, cg(), 10)).await, Ok(None));
        assert_eq!(db.learn(measured(2, cg(), 12)).await, Ok(Some(learned(12, 1))));
    });
}

#[test]
fn wrong_runs_and_profiles_change_nothing() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        let refused = |result: Result<_, StoreError>| result.map(|_: Option<Profile>| ()).map_err(|e| e.to_string());
        let negative = Run { power: Power::from_mw(-1), ..measured(1, key("cg", None), 10) };
        let text = "profile of cg/C on xeon, 4 cores: the power is negative";
        assert_eq!(refused(db.learn(negative).await), Err(text.into()));
        let unnamed = refused(db.learn(measured(1, key("", None), 10)).await);
        assert_eq!(unnamed, Err("profile of /C on xeon, 4 cores: the application is empty".into()));
        let huge = refused(db.learn(measured(u64::MAX, key("cg", None), 10)).await);
        assert!(huge.is_err_and(|text| text.starts_with("job 18446744073709551615 has a number")));
        let half = vec![(key("cg", None), imported(1)), (key("ft", None), imported(-1))];
        assert!(matches!(db.set(half).await, Err(StoreError::Negative { quantity: "duration", .. })));
        assert_eq!(db.all().await, Ok(vec![]));
        // A later run of the refused job can be learned.
        assert_eq!(db.learn(measured(1, key("cg", None), 10)).await, Ok(Some(learned(10, 1))));
    });
}

#[test]
fn a_caller_who_stops_waiting_cancels_nothing() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        for job in 1..=20 {
            // The future is polled once, so that the work has begun, and then dropped.
            tokio::select! {
                biased;
                _ = db.learn(measured(job, key("cg", None), 10)) => {}
                () = std::future::ready(()) => {}
            }
        }
        let all = db.all().await;
        assert_eq!(all, Ok(vec![(key("cg", None), learned(10, 20))]));
    });
}

#[test]
fn other_files_are_refused() {
    run(async {
        let open = |sql: &'static str| async move {
            let dir = tempfile::tempdir().expect("a directory");
            let options = SqliteConnectOptions::new().filename(dir.path().join(FILE)).create_if_missing(true);
            let mut conn = options.connect().await.expect("a database");
            sqlx::raw_sql(sql).execute(&mut conn).await.expect("executed");
            conn.close().await.expect("closed");
            ProfileDb::open(dir.path()).await.map(|_| ()).expect_err("refused")
        };
        assert!(matches!(open("CREATE TABLE recipes (cake TEXT)").await, StoreError::Foreign { .. }));
        let newer = "CREATE TABLE keys (id); PRAGMA application_id = 1281977680; PRAGMA user_version = 9";
        assert!(matches!(open(newer).await, StoreError::Newer { found: 9, known: 4, .. }));
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(FILE), "no database at all ".repeat(100)).expect("writable");
        let error = ProfileDb::open(dir.path()).await.map(|_| ()).expect_err("refused");
        assert!(matches!(&error, StoreError::Open { detail, .. } if detail.contains("not a database")), "{error}");
    });
}

#[test]
fn runs_that_are_surely_their_own_count_once_there_are_enough() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("a new database");
        let of = |job, secs, confidence| Run { confidence, ..measured(job, key("cg", None), secs) };
        for (job, secs, confidence) in [(1, 30, 250), (2, 30, 250), (3, 30, 250), (4, 10, 800), (5, 10, 1_000)] {
            db.learn(of(job, secs, confidence)).await.expect("learned");
        }
        let middle =
            |learned: Result<Option<Profile>, StoreError>| learned.map(|learned| learned.map(|it| it.duration));
        // With fewer certain runs than needed, the median is that of all runs, among them an uncertain one.
        assert_eq!(db.all().await.expect("readable")[0].1.duration, Span::from_secs(30));
        assert_eq!(middle(db.learn(of(6, 12, 900)).await), Ok(Some(Span::from_secs(10))));
    });
}

#[test]
fn runs_on_another_number_of_nodes_have_a_profile_of_their_own() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let db = ProfileDb::open(dir.path()).await.expect("opens");
        for (job, nodes, seconds) in [(1, None, 10), (2, Some(4), 3)] {
            db.learn(measured(job, ProfileKey { nodes, ..key("cg", None) }, seconds)).await.expect("learned");
        }
        let known = || async {
            let all = db.all().await.expect("readable");
            all.into_iter().map(|(key, profile)| (key.nodes, profile.duration.secs())).collect::<Vec<_>>()
        };
        assert_eq!(known().await, [(None, 10.0), (Some(4), 3.0)]);
        db.forget(&ProfileKey { nodes: Some(4), ..key("cg", None) }).await.expect("forgotten");
        assert_eq!(known().await, [(None, 10.0)]);
    });
}

/// Uses a file of version 1, with a learned and an imported key.
#[test]
fn learned_profiles_of_version_1_are_dropped_and_imported_ones_hold_for_any_cores() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let options = SqliteConnectOptions::new().filename(dir.path().join(FILE)).create_if_missing(true);
        let mut old = options.connect().await.expect("a file");
        let tables =
            TABLES.replace("    cores INTEGER NOT NULL, cap_mw", "    cap_mw").replace("hardware, cores,", "hardware,");
        let tables =
            tables.replace(", confidence INTEGER NOT NULL", "").replace("user_version = 2", "user_version = 1");
        sqlx::raw_sql(sqlx::AssertSqlSafe(tables)).execute(&mut old).await.expect("tables");
        sqlx::raw_sql(
            "INSERT INTO keys VALUES (1, 'sleep', '', 'xeon', -1, 3), (2, 'cg', 'C', 'xeon', 65000, 1);
             INSERT INTO runs VALUES (1, 1, 1000, 4000, 4000), (2, 2, 1000, 4000, 4000);
             INSERT INTO imported VALUES (2, 10000, 40000, 400000, 0, 5);
             INSERT INTO jobs VALUES (7);",
        )
        .execute(&mut old)
        .await
        .expect("rows");
        old.close().await.expect("closed");
        for _ in 0..2 {
            let db = ProfileDb::open(dir.path()).await.expect("opens");
            let any = ProfileKey { cores: None, ..key("cg", Some(65)) };
            assert_eq!(db.all().await, Ok(vec![(any, imported(10))]));
            assert_eq!(db.learn(measured(7, key("cg", None), 10)).await, Ok(None), "it was learned from");
        }
    });
}
