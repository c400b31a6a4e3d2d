//! Finished jobs from which the predictor learns, and its newest model.

use std::sync::Arc;

use limo_model::{JobId, Power, Span, Time};
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row};

use super::{ProfileDb, StoreError, spawned};
use crate::predict::{Features, FinishedJob};

/// Most finished jobs that are kept: the newest ones.
pub const FINISHED_LIMIT: u32 = 100_000;

/// A trained model as it is kept. Its bytes may be of another version of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    /// Number of the model.
    pub number: u32,
    /// Time of the training.
    pub trained: Time,
    /// Number of jobs that it learned from.
    pub rows: u32,
    /// Ordinal of the newest of these jobs.
    pub newest: i64,
    /// The model, as [`crate::predict::Predictor::to_bytes`] wrote it.
    pub bytes: Vec<u8>,
}

impl ProfileDb {
    /// Keeps a finished job, once for each number, and removes those beyond the limit.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be written; then nothing has changed.
    pub async fn add_finished(&self, job: JobId, row: FinishedJob) -> Result<(), StoreError> {
        let number = i64::try_from(job.0).map_err(|_| StoreError::Job { job })?;
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let mut conn = conn.lock().await;
            let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
            let Features { user, queue, application, stem, array, requested_s, nodes, cores, .. } = row.features;
            let Features { accelerators, hardware, memory_mib, hour, .. } = row.features;
            let added = sqlx::query(
                "INSERT INTO finished VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                 ON CONFLICT DO NOTHING",
            );
            let added = added.bind(number).bind(user).bind(queue).bind(application).bind(stem).bind(array);
            let added = added.bind(requested_s).bind(nodes).bind(cores).bind(accelerators).bind(hardware);
            let added = added.bind(memory_mib).bind(hour).bind(row.mean.mw()).bind(row.peak.mw());
            let added = added.bind(row.nameplate.mw()).bind(row.duration.ms());
            let added = added.bind(row.submitted.unix_ms()).bind(row.ended.unix_ms());
            let added = added.execute(&mut *transaction).await?;
            // Ordinals have no gaps, because only the oldest rows are removed.
            let last = added.last_insert_rowid() - i64::from(FINISHED_LIMIT);
            sqlx::query("DELETE FROM finished WHERE ordinal <= ?").bind(last).execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(())
        })
        .await
    }

    /// Returns the kept jobs after this ordinal, in the order of their ends, and the ordinal of the last one.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read.
    pub async fn finished_after(&self, ordinal: i64) -> Result<(Vec<FinishedJob>, i64), StoreError> {
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let found = sqlx::query("SELECT * FROM finished WHERE ordinal > ? ORDER BY ordinal").bind(ordinal);
            let found = found.fetch_all(&mut *conn.lock().await).await?;
            let last = found.last().map_or(Ok(ordinal), |row| row.try_get("ordinal"))?;
            Ok((found.iter().map(job).collect::<Result<_, sqlx::Error>>()?, last))
        })
        .await
    }

    /// Keeps a model instead of the one before.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be written; then nothing has changed.
    pub async fn keep_model(&self, model: StoredModel) -> Result<(), StoreError> {
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let StoredModel { number, trained, rows, newest, bytes } = model;
            let kept = sqlx::query("INSERT OR REPLACE INTO model VALUES (1, ?, ?, ?, ?, ?)").bind(number);
            let kept = kept.bind(trained.unix_ms()).bind(rows).bind(newest).bind(bytes);
            kept.execute(&mut *conn.lock().await).await?;
            Ok(())
        })
        .await
    }

    /// Returns the newest model.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read.
    pub async fn model(&self) -> Result<Option<StoredModel>, StoreError> {
        let conn = Arc::clone(&self.conn);
        spawned(async move {
            let row = sqlx::query("SELECT * FROM model").fetch_optional(&mut *conn.lock().await).await?;
            Ok(row.as_ref().map(model).transpose()?)
        })
        .await
    }
}

fn model(row: &SqliteRow) -> Result<StoredModel, sqlx::Error> {
    Ok(StoredModel {
        number: row.try_get("number")?,
        trained: Time::from_unix_ms(row.try_get("trained_ms")?),
        rows: row.try_get("rows")?,
        newest: row.try_get("newest")?,
        bytes: row.try_get("bytes")?,
    })
}

fn job(row: &SqliteRow) -> Result<FinishedJob, sqlx::Error> {
    let features = Features {
        user: row.try_get("user")?,
        queue: row.try_get("queue")?,
        application: row.try_get("application")?,
        stem: row.try_get("stem")?,
        array: row.try_get("array")?,
        requested_s: row.try_get("requested_s")?,
        nodes: row.try_get("nodes")?,
        cores: row.try_get("cores")?,
        accelerators: row.try_get("accelerators")?,
        hardware: row.try_get("hardware")?,
        memory_mib: row.try_get("memory_mib")?,
        hour: row.try_get("hour")?,
    };
    Ok(FinishedJob {
        features,
        mean: Power::from_mw(row.try_get("mean_mw")?),
        peak: Power::from_mw(row.try_get("peak_mw")?),
        nameplate: Power::from_mw(row.try_get("nameplate_mw")?),
        duration: Span::from_ms(row.try_get("duration_ms")?),
        submitted: Time::from_unix_ms(row.try_get("submitted_ms")?),
        ended: Time::from_unix_ms(row.try_get("ended_ms")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::{ModelError, Predictor, Settings, train};

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(test)
    }

    /// A job with a different value in each field.
    fn finished(secs: i64) -> FinishedJob {
        let features = Features {
            user: u32::MAX,
            queue: 2,
            application: 3,
            stem: 4,
            array: true,
            requested_s: 5,
            nodes: 6,
            cores: 7,
            accelerators: 8,
            hardware: 9,
            memory_mib: 10,
            hour: 23,
        };
        let watts = Power::from_watts;
        let (mean, peak, nameplate) = (watts(40), watts(50), watts(90));
        let (submitted, ended) = (Time::from_unix_ms(100), Time::from_unix_ms(200));
        FinishedJob { features, mean, peak, nameplate, duration: Span::from_secs(secs), submitted, ended }
    }

    #[test]
    fn each_job_is_kept_once_also_after_reopening() {
        run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let db = ProfileDb::open(dir.path()).await.expect("a new database");
            assert_eq!(db.finished_after(0).await, Ok((vec![], 0)));
            for (job, secs) in [(7, 1), (3, 2), (7, 99), (8, 3)] {
                db.add_finished(JobId(job), finished(secs)).await.expect("kept");
            }
            drop(db);
            let db = ProfileDb::open(dir.path()).await.expect("opens again");
            assert_eq!(db.finished_after(0).await, Ok(([1, 2, 3].map(finished).to_vec(), 3)));
            assert_eq!(db.finished_after(2).await, Ok((vec![finished(3)], 3)));
            assert_eq!(db.finished_after(3).await, Ok((vec![], 3)));
        });
    }

    #[test]
    fn only_the_newest_jobs_are_kept() {
        run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let db = ProfileDb::open(dir.path()).await.expect("a new database");
            for job in 1..=3 {
                db.add_finished(JobId(job), finished(job as i64)).await.expect("kept");
            }
            // As if the last one had come after 99,998 others.
            let later = sqlx::query("UPDATE finished SET ordinal = 100001 WHERE ordinal = 3");
            later.execute(&mut *db.conn.lock().await).await.expect("later");
            db.add_finished(JobId(4), finished(4)).await.expect("kept");
            // The limit leaves ordinals 3 to 100,002.
            assert_eq!(db.finished_after(0).await, Ok(([3, 4].map(finished).to_vec(), 100_002)));
        });
    }

    #[test]
    fn a_model_replaces_the_one_before_and_one_of_another_version_is_refused_when_it_is_read() {
        run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let db = ProfileDb::open(dir.path()).await.expect("a new database");
            assert_eq!(db.model().await, Ok(None));
            let rows = vec![finished(1); 30];
            let trained = Time::from_unix_ms(1_700_000_000_000);
            for number in 1..=2 {
                let bytes = train(&rows, Settings { number, seed: 1 }).to_bytes();
                db.keep_model(StoredModel { number, trained, rows: 30, newest: 30, bytes }).await.expect("kept");
            }
            let mut kept = db.model().await.expect("readable").expect("a model");
            assert_eq!((kept.number, kept.trained, kept.rows, kept.newest), (2, trained, 30, 30));
            assert_eq!(Predictor::from_bytes(&kept.bytes), Ok(train(&rows, Settings { number: 2, seed: 1 })));
            kept.bytes[4] = 1;
            assert_eq!(Predictor::from_bytes(&kept.bytes), Err(ModelError::Version { found: 1 }));
        });
    }

    #[test]
    fn jobs_of_a_file_of_version_3_have_no_times() {
        run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join(super::super::FILE));
            let mut old = sqlx::ConnectOptions::connect(&options.create_if_missing(true)).await.expect("a file");
            for step in [super::super::TABLES, super::super::THIRD] {
                sqlx::raw_sql(step).execute(&mut old).await.expect("tables");
            }
            let row = "INSERT INTO finished VALUES (1, 7, 4294967295, 2, 3, 4, 1, 5, 6, 7, 8, 9, 10, 23, 40000, 50000, 90000, 1000)";
            sqlx::raw_sql(row).execute(&mut old).await.expect("a job");
            old.close().await.expect("closed");
            let db = ProfileDb::open(dir.path()).await.expect("opens");
            let none = Time::from_unix_ms(0);
            let before = FinishedJob { submitted: none, ended: none, ..finished(1) };
            db.add_finished(JobId(8), finished(2)).await.expect("kept");
            assert_eq!(db.finished_after(0).await, Ok((vec![before, finished(2)], 2)));
        });
    }

    #[test]
    fn a_file_of_version_2_keeps_its_profiles() {
        run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join(super::super::FILE));
            let mut old = sqlx::ConnectOptions::connect(&options.create_if_missing(true)).await.expect("a file");
            sqlx::raw_sql(super::super::TABLES).execute(&mut old).await.expect("tables");
            let key = "INSERT INTO keys VALUES (2, 'cg', 'C', 'xeon', 4, 65000, 1)";
            sqlx::raw_sql(key).execute(&mut old).await.expect("a key");
            let imported = "INSERT INTO imported VALUES (2, 10000, 40000, 400000, 0, 5)";
            sqlx::raw_sql(imported).execute(&mut old).await.expect("a profile");
            old.close().await.expect("closed");
            let db = ProfileDb::open(dir.path()).await.expect("opens");
            assert_eq!(db.all().await.map(|all| all.len()), Ok(1));
            db.add_finished(JobId(1), finished(1)).await.expect("kept");
        });
    }
}
