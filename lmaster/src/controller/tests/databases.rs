//! The databases of a controller in tests, as lists.

use async_trait::async_trait;
use limo_model::{Profile, ProfileKey};
use limo_profiles::predict::{Settings, train};
use limo_proto::{ChangesQuery, EnergyQuery, EnergyReport, Finished, SubmissionKey};

use super::*;
use crate::database::Database;
use crate::predictor::{Loaded, Model};

#[async_trait]
impl Database for Disk {
    async fn job_of_key(&self, key: &SubmissionKey) -> anyhow::Result<Option<(JobId, u32)>> {
        self.unreadable.map_or(Ok(()), |reason| Err(anyhow::anyhow!(reason)))?;
        Ok(self.keys.get(key).copied())
    }

    async fn finished_job(&self, job: JobId) -> anyhow::Result<Option<JobReport>> {
        Ok(self.finished.get(&job).cloned())
    }

    async fn finished(&self, query: Finished) -> anyhow::Result<Vec<JobReport>> {
        let place = |job: &JobReport| (job.ended.expect("over"), job.job);
        let passes = |job: &&JobReport| query.filter.passes(job) && query.after.is_none_or(|after| place(job) < after);
        let mut found: Vec<&JobReport> = self.finished.values().filter(passes).collect();
        found.sort_by_key(|job| std::cmp::Reverse(place(job)));
        Ok(found.into_iter().take(query.limit as usize).cloned().collect())
    }

    async fn newest_of(&self, uid: u32) -> anyhow::Result<Option<JobId>> {
        Ok(self.keys.values().filter(|(_, owner)| *owner == uid).map(|(job, _)| *job).max())
    }

    async fn readings(&self, node: &str, (from, until): (Time, Time), limit: u32) -> anyhow::Result<Vec<Drawn>> {
        let is_meant = |(at, name, _): &(Time, String, Time)| *name == node && from <= *at && *at < until;
        let found = self.readings.iter().filter(|(key, _)| is_meant(key)).map(|(_, drawn)| *drawn);
        Ok(found.take(limit as usize).collect())
    }

    async fn changes(&self, query: ChangesQuery) -> anyhow::Result<Vec<ChangeRow>> {
        Ok(self.changes.iter().rev().take(query.limit as usize).cloned().collect())
    }

    async fn to_undo(&self, number: Option<u64>) -> anyhow::Result<Option<Found>> {
        Ok(number.and_then(|number| self.found(number)))
    }

    // The journal computes the sums.
    async fn energy(&self, _: EnergyQuery) -> anyhow::Result<EnergyReport> {
        Ok(EnergyReport::default())
    }

    async fn profiles(&self) -> anyhow::Result<Vec<(ProfileKey, Profile)>> {
        Ok(Vec::new())
    }

    async fn store_profiles(&self, given: Vec<(ProfileKey, Profile)>) -> anyhow::Result<Vec<(ProfileKey, Profile)>> {
        Ok(given)
    }

    async fn forget_profile(&self, _: &ProfileKey) -> anyhow::Result<bool> {
        Ok(true)
    }

    async fn load_model(&self, _: Time) -> anyhow::Result<Loaded> {
        Ok(Loaded::default())
    }

    async fn train_model(&self, at: Time) -> anyhow::Result<Model> {
        anyhow::ensure!(!self.trains_on.is_empty(), "nothing has finished");
        let predictor = train(&self.trains_on, Settings { number: 1, seed: 1 });
        Ok(Model { predictor, trained: at, rows: self.trains_on.len() as u32 })
    }

    async fn make_backup(&self) -> anyhow::Result<BackupReport> {
        Ok(BackupReport { files: Vec::new(), uid: 0, gid: 0 })
    }

    async fn backup_part(&self, _: u32, _: u64) -> anyhow::Result<Vec<u8>> {
        Ok(b"part".to_vec())
    }

    async fn compact(&self) -> anyhow::Result<JournalSizes> {
        Ok(JournalSizes { before: 2, after: 1 })
    }
}
