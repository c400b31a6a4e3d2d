//! Reads from disk for clients: the journal, the profile database and the copies of a backup. Changes only profiles and
//! copies.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use limo_journal::{ChangeQuery, ChangeRow, Compaction, FinishedFilter, FinishedQuery, FinishedRow, Journal};
use limo_model::{Drawn, JobId, Profile, ProfileKey, Time};
use limo_profiles::ProfileDb;
use limo_proto::{
    BackupReport, ChangesQuery, EnergyQuery, EnergyReport, Finished, JobFilter, JobReport, JournalSizes, SubmissionKey,
};

use crate::backup::Copies;
use crate::controller::Found;
use crate::predictor::{self, Loaded, Model};
use crate::{energy, history};

/// Databases that the master can read. Each method fails if its database cannot be read. Tests have a model of it.
#[async_trait]
pub trait Database: Send + Sync {
    /// Returns the job that was submitted with a key, and the uid of its submitter.
    async fn job_of_key(&self, key: &SubmissionKey) -> Result<Option<(JobId, u32)>>;

    /// Returns a finished job.
    async fn finished_job(&self, job: JobId) -> Result<Option<JobReport>>;

    /// Returns finished jobs, in the order of `jobs`; omits jobs that are not found.
    async fn finished_jobs(&self, jobs: &[JobId]) -> Result<Vec<JobReport>> {
        let mut reports = Vec::new();
        for job in jobs {
            reports.extend(self.finished_job(*job).await?);
        }
        Ok(reports)
    }

    /// Returns finished jobs, newest first.
    async fn finished(&self, query: Finished) -> Result<Vec<JobReport>>;

    /// Returns the newest job of a uid, finished or not.
    async fn newest_of(&self, uid: u32) -> Result<Option<JobId>>;

    /// Returns the draw of a node, or of the cluster if `node` is empty, in the intervals that begin in `[from,
    /// until)`; at most `limit`.
    async fn readings(&self, node: &str, range: (Time, Time), limit: u32) -> Result<Vec<Drawn>>;

    /// Returns changes of operators, newest first.
    async fn changes(&self, query: ChangesQuery) -> Result<Vec<ChangeRow>>;

    /// Returns the change with this number, or the newest one that can be undone.
    async fn to_undo(&self, number: Option<u64>) -> Result<Option<Found>>;

    /// Returns sums of energy and cost.
    async fn energy(&self, query: EnergyQuery) -> Result<EnergyReport>;

    /// Returns everything in the profile database.
    async fn profiles(&self) -> Result<Vec<(ProfileKey, Profile)>>;

    /// Imports profiles; returns the resulting ones.
    async fn store_profiles(&self, given: Vec<(ProfileKey, Profile)>) -> Result<Vec<(ProfileKey, Profile)>>;

    /// Deletes a profile; returns true if it existed.
    async fn forget_profile(&self, key: &ProfileKey) -> Result<bool>;

    /// Returns the newest model of the predictor at this wall time.
    async fn load_model(&self, at: Time) -> Result<Loaded>;

    /// Trains the predictor at this wall time.
    async fn train_model(&self, at: Time) -> Result<Model>;

    /// Copies the databases.
    async fn make_backup(&self) -> Result<BackupReport>;

    /// Returns a part of a file of the copies.
    async fn backup_part(&self, file: u32, offset: u64) -> Result<Vec<u8>>;

    /// Returns unused space of the journal to the file system.
    async fn compact(&self) -> Result<JournalSizes>;
}

/// The databases of a state directory.
#[derive(Clone)]
pub struct Databases {
    pub journal: Arc<Journal>,
    pub profiles: Arc<ProfileDb>,
    pub state_dir: PathBuf,
    /// The backup that a client is fetching.
    pub copies: Arc<Mutex<Option<Copies>>>,
    /// True once the master stops: a training ends before its next tree.
    pub stopping: Arc<AtomicBool>,
}

impl Databases {
    /// Drops the backup when no client fetches it.
    pub fn drop_backup(&self) {
        *self.copies.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[async_trait]
impl Database for Databases {
    async fn job_of_key(&self, key: &SubmissionKey) -> Result<Option<(JobId, u32)>> {
        Ok(self.journal.job_of_key(key).await?)
    }

    async fn finished_job(&self, job: JobId) -> Result<Option<JobReport>> {
        self.journal.finished_job(job).await?.map(|row| report(&row)).transpose()
    }

    async fn finished(&self, query: Finished) -> Result<Vec<JobReport>> {
        let Finished { filter, since, until, after, limit } = query;
        let query = FinishedQuery { filter: row_filter(filter, since, until), after, limit };
        self.journal.finished(query).await?.iter().map(report).collect()
    }

    async fn newest_of(&self, uid: u32) -> Result<Option<JobId>> {
        Ok(self.journal.newest_of(uid).await?)
    }

    async fn readings(&self, node: &str, range: (Time, Time), limit: u32) -> Result<Vec<Drawn>> {
        Ok(self.journal.readings(node, range, limit).await?)
    }

    async fn changes(&self, query: ChangesQuery) -> Result<Vec<ChangeRow>> {
        let ChangesQuery { since, by, before, limit } = query;
        Ok(self.journal.changes(ChangeQuery { since, by, before, limit }).await?)
    }

    async fn to_undo(&self, number: Option<u64>) -> Result<Option<Found>> {
        history::to_undo(&self.journal, number).await
    }

    async fn energy(&self, query: EnergyQuery) -> Result<EnergyReport> {
        energy::sums(&self.journal, query).await
    }

    async fn profiles(&self) -> Result<Vec<(ProfileKey, Profile)>> {
        Ok(self.profiles.all().await?)
    }

    async fn store_profiles(&self, given: Vec<(ProfileKey, Profile)>) -> Result<Vec<(ProfileKey, Profile)>> {
        Ok(self.profiles.set(given).await?)
    }

    async fn forget_profile(&self, key: &ProfileKey) -> Result<bool> {
        Ok(self.profiles.forget(key).await?)
    }

    async fn load_model(&self, at: Time) -> Result<Loaded> {
        predictor::loaded(&self.profiles, &self.stopping, at).await
    }

    async fn train_model(&self, at: Time) -> Result<Model> {
        predictor::trained(&self.profiles, &self.stopping, at).await
    }

    async fn make_backup(&self) -> Result<BackupReport> {
        let made = Copies::make(&self.state_dir, &self.journal, &self.profiles).await?;
        let report = made.report();
        *self.copies.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(report)
    }

    async fn backup_part(&self, file: u32, offset: u64) -> Result<Vec<u8>> {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.as_ref().context("there is no backup to fetch")?.part(file, offset)
    }

    async fn compact(&self) -> Result<JournalSizes> {
        let Compaction { before, after } = self.journal.compact().await?;
        Ok(JournalSizes { before, after })
    }
}

/// Translates a client's selection of jobs into a filter of the journal.
pub fn row_filter(filter: JobFilter, since: Option<Time>, until: Option<Time>) -> FinishedFilter {
    let JobFilter { users, states, names, nodes, queues, steps_of } = filter;
    let states = states.iter().map(|state| state.name().to_owned()).collect();
    FinishedFilter { users, states, names, nodes, queues, steps_of, since, until }
}

fn report(row: &FinishedRow) -> Result<JobReport> {
    serde_json::from_str(&row.report)
        .with_context(|| format!("the report of job {} in the journal is damaged", row.job))
}
