//! A journal on a PostgreSQL server: one master has the lease, a master that lost it cannot write, and connections that
//! are cut lose and double nothing.

use std::time::{Duration, Instant};

use limo_journal::{CommitError, Journal, LEASE, OpenError, Opening, RecoverError, Recovered};
use limo_requirements::PostgresServer;

use crate::place::Database;
use crate::{accepted, entry, run, submission};

async fn open(database: &Database, dir: &tempfile::TempDir) -> (Journal, Recovered) {
    Journal::open_on(&database.server(), dir.path(), Opening::default()).await.expect("the journal opens")
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Runs a test with a database of the server for tests.
fn on_server(test: impl AsyncFn(&Database)) {
    let Some(address) = limo_requirements::postgres() else { return };
    run(async {
        let database = Database::new(&address).await;
        test(&database).await;
        database.drop_it().await;
    });
}

#[test]
fn a_second_master_waits_and_takes_over_at_once_when_the_first_ends() {
    on_server(async |database| {
        let (places, begin) = ([dir(), dir()], Instant::now());
        let (first, recovered) = open(database, &places[0]).await;
        first.commit(accepted(recovered.generation, 1)).await.expect("committed");
        let mut second = std::pin::pin!(open(database, &places[1]));
        // The lease is renewed, so it is still held after its length.
        let waited = tokio::time::timeout(LEASE + Duration::from_secs(1), &mut second).await;
        assert!(waited.is_err() && first.lease().is_some_and(|lease| lease.is_certain()));
        first.close().await;
        let (second, taken) = tokio::time::timeout(Duration::from_secs(3), second).await.expect("the lease is free");
        assert!(taken.generation > recovered.generation && begin.elapsed() > LEASE);
        assert_eq!(
            (taken.journal, taken.entries, taken.live),
            (recovered.journal, vec![entry(1)], vec![submission(1)])
        );
        second.close().await;
    });
}

#[test]
fn a_master_that_lost_the_lease_writes_nothing_more() {
    on_server(async |database| {
        let places = [dir(), dir()];
        let (first, old) = open(database, &places[0]).await;
        first.commit(accepted(old.generation, 1)).await.expect("committed");
        // As after a pause of the first master that is longer than the lease.
        database.alter("UPDATE lease SET renewed_at = to_timestamp(0)").await;
        let (second, new) = open(database, &places[1]).await;
        let refused = first.commit(accepted(old.generation, 2)).await;
        assert!(matches!(&refused, Err(CommitError::Lost(_))), "{refused:?}");
        let refused = first.recover().await;
        assert!(matches!(&refused, Err(RecoverError::Lost(_))), "{refused:?}");
        let lease = first.lease().expect("a lease");
        assert!(!lease.is_certain() && lease.confirmed().await.is_err());
        second.commit(accepted(new.generation, 3)).await.expect("committed");
        first.close().await;
        assert_eq!(second.recover().await.expect("readable").entries, [entry(1), entry(3)]);
        assert!(
            second.lease().is_some_and(|lease| lease.is_certain()),
            "the first did not give back a lease of others"
        );
        second.close().await;
    });
}

/// The keeper of the lease notices the loss, even if nothing is written.
#[test]
fn an_idle_master_learns_that_it_lost_the_lease() {
    on_server(async |database| {
        let place = dir();
        let (journal, _) = open(database, &place).await;
        let lease = journal.lease().expect("a lease");
        database.alter("UPDATE lease SET epoch = epoch + 1, holder = 'm2'").await;
        let end = Instant::now() + LEASE;
        let mut clock = tokio::time::interval(Duration::from_millis(20));
        while lease.is_certain() {
            assert!(Instant::now() < end, "nothing was noticed");
            clock.tick().await;
        }
        assert_eq!(lease.confirmed().await.expect_err("lost").detail, "m2 took it");
        journal.close().await;
    });
}

/// Cuts the connections of the journal at any moment, also during its commits.
#[test]
fn cut_connections_lose_and_double_nothing() {
    on_server(async |database| {
        let place = dir();
        let (journal, Recovered { generation, .. }) = open(database, &place).await;
        let (mut job, mut cuts) = (0, 0);
        while cuts < 30 {
            let pending: Vec<_> = (0..5).map(|more| journal.commit(accepted(generation, job + more + 1))).collect();
            job += 5;
            cuts += database
                .alter(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'limo'",
                )
                .await;
            for pending in pending {
                pending.await.expect("committed in spite of it");
            }
        }
        let recovered = journal.recover().await.expect("readable");
        assert_eq!(recovered.entries, (1..=job).map(entry).collect::<Vec<_>>());
        assert_eq!(recovered.live, (1..=job).map(submission).collect::<Vec<_>>());
        journal.close().await;
    });
}

#[test]
fn a_server_that_restarts_delays_commits_and_loses_none() {
    let place = dir();
    let Some(server) = PostgresServer::for_test(&place.path().join("server")) else { return };
    run(async {
        let database = Database::new(&server.address("postgres")).await;
        let (journal, Recovered { generation, .. }) = open(&database, &place).await;
        journal.commit(accepted(generation, 1)).await.expect("committed");
        server.stop().expect("stopped");
        let mut pending: Vec<_> = (2..=20).map(|job| journal.commit(accepted(generation, job))).collect();
        let waited = tokio::time::timeout(Duration::from_secs(1), &mut pending[0]).await;
        assert!(waited.is_err(), "there is no server: {waited:?}");
        server.start().expect("started");
        for pending in pending {
            pending.await.expect("committed");
        }
        let lease = journal.lease().expect("a lease");
        lease.confirmed().await.expect("no other master took it");
        let recovered = journal.recover().await.expect("readable");
        assert_eq!(recovered.entries, (1..=20).map(entry).collect::<Vec<_>>());
        journal.close().await;
    });
    server.stop().expect("stopped");
}

/// Cuts the connection after the server has committed, and before it says so: it waits for a replica that does not
/// exist.
#[test]
fn a_commit_whose_answer_is_lost_is_not_repeated() {
    let place = dir();
    let Some(server) = PostgresServer::for_test(&place.path().join("server")) else { return };
    run(async {
        let database = Database::new(&server.address("postgres")).await;
        let (journal, Recovered { generation, .. }) = open(&database, &place).await;
        journal.commit(accepted(generation, 1)).await.expect("committed");
        let set = async |statement: &'static str| {
            let mut admin = database.admin().await;
            sqlx::raw_sql(statement).execute(&mut admin).await.expect("set");
            sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut admin).await.expect("in force");
        };
        set("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
        let mut clock = tokio::time::interval(Duration::from_millis(20));
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";
        // It waits too, and has locked the row of the lease, which a commit needs.
        let cut_renewal = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE wait_event = 'SyncRep' AND query <> 'COMMIT'";
        // The setting is not in force at once, so that the first commits may be answered.
        let mut jobs = 1;
        let pending = 'cut: loop {
            jobs += 1;
            let mut pending = journal.commit(accepted(generation, jobs));
            loop {
                tokio::select! {
                    told = &mut pending => {
                        told.expect("committed");
                        break;
                    }
                    _ = clock.tick() => {
                        database.alter(cut_renewal).await;
                        if database.alter(cut).await > 0 {
                            break 'cut pending;
                        }
                    }
                }
            }
        };
        set("ALTER SYSTEM RESET synchronous_standby_names").await;
        pending.await.expect("it is on disk");
        let recovered = journal.recover().await.expect("readable");
        assert_eq!(recovered.entries, (1..=jobs).map(entry).collect::<Vec<_>>());
        journal.close().await;
    });
    server.stop().expect("stopped");
}

#[test]
fn databases_of_others_and_of_newer_programs_are_refused() {
    on_server(async |database| {
        let place = dir();
        database.alter("CREATE TABLE recipes (cake TEXT)").await;
        let refusal = async || match Journal::open_on(&database.server(), place.path(), Opening::default()).await {
            Ok(_) => panic!("the database was opened"),
            Err(error) => error,
        };
        let error = refusal().await;
        assert!(matches!(&error, OpenError::ForeignServer { .. }), "{error}");
        database.alter("DROP TABLE recipes").await;
        open(database, &place).await.0.close().await;
        database.alter("UPDATE meta SET version = 2").await;
        let error = refusal().await;
        assert!(matches!(&error, OpenError::NewerServer { found: 2, known: 1, .. }), "{error}");
    });
}

/// A restored database is like a restored file: jobs are known, and what nodes had is not.
#[test]
fn a_restored_database_begins_a_new_incarnation() {
    on_server(async |database| {
        let place = dir();
        let (journal, first) = open(database, &place).await;
        journal.commit(accepted(first.generation, 1)).await.expect("committed");
        journal.close().await;
        let opening = Opening { restored: true, cluster: None };
        let (journal, restored) = Journal::open_on(&database.server(), place.path(), opening).await.expect("opens");
        assert_eq!((restored.journal.cluster, restored.live.len()), (first.journal.cluster, 1));
        assert_ne!(restored.journal.incarnation, first.journal.incarnation);
        journal.close().await;
    });
}
