//! Several queries over one connection, for commands that query many jobs or repeatedly.

use std::collections::BTreeMap;

use limo_model::{Drawn, JobId, Time};
use limo_proto::{
    Answer, Asking, BackupPartQuery, BackupReport, Change, ClientToMaster, EnergyQuery, EnergyReport, ExplainQuery,
    Explanation, Finished, HistoryPage, JobFilter, JobQuery, JobReport, JobsPage, JobsQuery, JournalSizes,
    NUMBERS_LIMIT, NodeReport, NodesQuery, ReadingsQuery, SelectQuery, Selector, Status, StatusQuery, WaitQuery,
};

use crate::hosts::in_order;
use crate::location::Master;
use crate::master::{AskError, ClientConnection, unexpected};

/// Most finished steps in a list.
const STEPS_SHOWN: u32 = 10_000;

/// Connection for successive queries. Cannot be used after an error.
pub struct Session {
    connection: ClientConnection,
}

impl Master {
    /// Opens a session.
    ///
    /// # Errors
    /// The same as for [`Master::first_connect`].
    pub async fn session(&self) -> Result<Session, AskError> {
        Ok(Session { connection: self.first_connect().await? })
    }

    /// Calls [`Session::select`], over a new connection if one is needed.
    pub async fn select(&self, which: &[Selector], live: bool) -> Result<Vec<JobId>, AskError> {
        match numbers(which) {
            Some(jobs) => Ok(jobs),
            None => self.session().await?.select(which, live).await,
        }
    }
}

impl From<ClientConnection> for Session {
    fn from(connection: ClientConnection) -> Self {
        Self { connection }
    }
}

/// Errors are as for [`Master::ask`].
impl Session {
    /// Makes one query. Lists that come in several pieces are joined.
    pub async fn ask<Q: Asking>(&mut self, query: Q) -> Result<Q::Answer, AskError> {
        Ok(self.connection.ask(query).await?)
    }

    /// Makes a backup, whose parts can be read until this session ends.
    pub async fn backup(&mut self) -> Result<BackupReport, AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(Change::Backup))).await? {
            Answer::Backup(report) => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns unused space of the journal to the file system.
    pub async fn compact_journal(&mut self) -> Result<JournalSizes, AskError> {
        match self.exchange(ClientToMaster::ChangeConf(Box::new(Change::CompactJournal))).await? {
            Answer::Compacted(sizes) => Ok(sizes),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns bytes of a file of the backup, from `offset` on.
    pub async fn backup_part(&mut self, file: u32, offset: u64) -> Result<Vec<u8>, AskError> {
        self.ask(BackupPartQuery { file, offset }).await
    }

    pub(crate) async fn exchange(&mut self, message: ClientToMaster) -> Result<Answer, AskError> {
        Ok(self.connection.exchange(message).await?)
    }

    /// Returns the numbers of the selected jobs, each once; with `live` only unfinished ones. Sends no query if all
    /// selectors are numbers.
    pub async fn select(&mut self, which: &[Selector], live: bool) -> Result<Vec<JobId>, AskError> {
        if let Some(jobs) = numbers(which) {
            return Ok(jobs);
        }
        self.ask(SelectQuery { selection: which.to_vec().into(), live }).await
    }

    /// Returns one job, finished or not. [`AskError::Refused`] if the number is unknown.
    pub async fn job(&mut self, job: JobId) -> Result<JobReport, AskError> {
        let mut found = self.ask(JobQuery(job)).await?;
        found.pop().ok_or_else(|| AskError::Refused { reason: format!("there is no job {job}"), hint: None })
    }

    /// Waits until all these jobs are over.
    pub async fn wait(&mut self, ids: Vec<JobId>) -> Result<Vec<JobReport>, AskError> {
        let mut reports = Vec::with_capacity(ids.len());
        for ids in ids.chunks(NUMBERS_LIMIT) {
            reports.extend(self.ask(WaitQuery(ids.to_vec())).await?);
        }
        Ok(reports)
    }

    /// Returns waiting and running jobs that pass the filter, and up to `ended` of the newest finished ones, by number.
    pub async fn jobs(&mut self, filter: JobFilter, ended: u32) -> Result<Vec<JobReport>, AskError> {
        Ok(self.jobs_up_to(filter, ended, usize::MAX).await?.0)
    }

    /// Returns the steps of a job, over or not, in order.
    ///
    /// # Errors
    /// If the master cannot be asked.
    pub async fn steps(&mut self, job: &JobReport) -> Result<Vec<JobReport>, AskError> {
        if job.steps == 0 {
            return Ok(Vec::new());
        }
        let filter = JobFilter { steps_of: Some(job.job), ..JobFilter::default() };
        let mut steps = self.jobs(filter, STEPS_SHOWN).await?;
        steps.sort_by_key(|step| step.step);
        Ok(steps)
    }

    /// Returns a step of a job, over or not, by its number.
    ///
    /// # Errors
    /// If the step does not exist, or the master cannot be asked.
    pub async fn step(&mut self, job: JobId, number: u32) -> Result<JobReport, AskError> {
        let report = self.job(job).await?;
        let found = self.steps(&report).await?.into_iter().find(|step| step.step == Some((job, number)));
        let reason = || format!("job {job} has no step {number}: it has had {}", report.steps);
        found.ok_or_else(|| AskError::Refused { reason: reason(), hint: Some(format!("lq show {job}")) })
    }

    /// Returns the same jobs as [`Session::jobs`], until there are at least `enough`; also returns true if there are
    /// more.
    pub async fn jobs_up_to(
        &mut self,
        filter: JobFilter,
        ended: u32,
        enough: usize,
    ) -> Result<(Vec<JobReport>, bool), AskError> {
        let (mut found, mut from) = (BTreeMap::new(), JobId(0));
        loop {
            let query = JobsQuery { filter: filter.clone(), from, ended };
            let JobsPage { jobs, next } = self.ask(query).await?;
            // A later report of a job that has ended meanwhile replaces the earlier one.
            found.extend(jobs.into_iter().map(|job| (job.job, job)));
            match next.filter(|next| *next > from) {
                Some(next) if found.len() < enough => from = next,
                more => return Ok((found.into_values().collect(), more.is_some())),
            }
        }
    }

    /// Returns finished jobs, newest first, and true if there are more.
    pub async fn history(&mut self, finished: Finished) -> Result<(Vec<JobReport>, bool), AskError> {
        let HistoryPage { jobs, more } = self.ask(finished).await?;
        Ok((jobs, more))
    }

    /// Returns all finished jobs of the query, up to its limit, newest first.
    pub async fn finished(&mut self, query: Finished) -> Result<Vec<JobReport>, AskError> {
        let mut jobs: Vec<JobReport> = Vec::new();
        loop {
            let after = jobs.last().and_then(|job| Some((job.ended?, job.job))).or(query.after);
            let limit = query.limit - u32::try_from(jobs.len()).unwrap_or(query.limit);
            let (found, more) = self.history(Finished { after, limit, ..query.clone() }).await?;
            let ends = !more || found.is_empty();
            jobs.extend(found);
            if ends || jobs.len() >= query.limit as usize {
                jobs.truncate(query.limit as usize);
                return Ok(jobs);
            }
        }
    }

    /// Returns sums of the energy used.
    pub async fn energy(&mut self, query: EnergyQuery) -> Result<EnergyReport, AskError> {
        self.ask(query).await
    }

    /// Returns the draw of the cluster in the intervals that begin in `[from, until)`.
    pub async fn readings(&mut self, (from, until): (Time, Time)) -> Result<Vec<Drawn>, AskError> {
        Ok(self.ask(ReadingsQuery { node: None, from, until }).await?.intervals)
    }

    /// Returns the reason why a job waits, and the costs of its candidates.
    pub async fn explain(&mut self, job: JobId) -> Result<Explanation, AskError> {
        self.ask(ExplainQuery(job)).await
    }

    /// Returns all nodes by name, with numbers in names as numbers.
    pub async fn nodes(&mut self) -> Result<Vec<NodeReport>, AskError> {
        Ok(in_order(self.ask(NodesQuery).await?, |node| &node.name))
    }

    /// Returns the state of the cluster: limits, prices, policy, draw and counts.
    pub async fn status(&mut self) -> Result<Status, AskError> {
        self.ask(StatusQuery).await
    }
}

/// Returns the numbers, each once; `None` if a selector is not a number.
fn numbers(which: &[Selector]) -> Option<Vec<JobId>> {
    let number = |selector: &Selector| match selector {
        Selector::Job(job) => Some(*job),
        _ => None,
    };
    let mut jobs = which.iter().map(number).collect::<Option<Vec<JobId>>>()?;
    let mut seen = std::collections::BTreeSet::new();
    jobs.retain(|job| seen.insert(*job));
    Some(jobs)
}
