//! Several questions over one connection: what a command needs that asks about many jobs, or asks again and again.

use std::collections::BTreeMap;

use limo_model::{Drawn, JobId, Time};
use limo_proto::{
    Answer, Asking, BackupPartQuery, BackupReport, Change, ClientToMaster, EnergyQuery, EnergyReport, ExplainQuery,
    Explanation, Finished, Frame, HistoryPage, JobFilter, JobQuery, JobReport, JobsPage, JobsQuery, JournalSizes,
    MasterToClient, NUMBERS_LIMIT, NodeReport, NodesQuery, ReadingsQuery, SelectQuery, Selector, Status, StatusQuery,
    WaitQuery,
};

use crate::hosts::in_order;
use crate::location::Master;
use crate::master::{AskError, ClientConnection, unexpected};

/// A connection on which questions are asked, one after the other. After an error it is of no more use.
pub struct Session {
    connection: ClientConnection,
}

impl Master {
    /// # Errors
    /// As [`Master::first_connect`].
    pub async fn session(&self) -> Result<Session, AskError> {
        Ok(Session { connection: self.first_connect().await? })
    }

    /// As [`Session::select`], over a connection of its own, where one is needed.
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

/// Errors as [`Master::ask`].
impl Session {
    /// Asks one question. Lists that come in several pieces are put together.
    pub async fn ask<Q: Asking>(&mut self, query: Q) -> Result<Q::Answer, AskError> {
        let found = self.exchange(ClientToMaster::Ask(Box::new(query.into()))).await?;
        Q::answer(found).map_err(|other| unexpected(&other))
    }

    /// Has a backup made, whose parts may be asked for until this session ends.
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

    /// Bytes of a file of the backup, from `offset` on.
    pub async fn backup_part(&mut self, file: u32, offset: u64) -> Result<Vec<u8>, AskError> {
        self.ask(BackupPartQuery { file, offset }).await
    }

    pub(crate) async fn exchange(&mut self, message: ClientToMaster) -> Result<Answer, AskError> {
        message.check()?;
        self.connection.writer.send(&Frame::Message(message)).await?;
        let mut pieces = Vec::new();
        loop {
            match self.connection.reader.next().await? {
                Some(Frame::Message(MasterToClient::Piece(piece))) => pieces.push(*piece),
                Some(Frame::Message(MasterToClient::Answer(last))) => return Ok(last.joined(pieces)),
                Some(Frame::Message(MasterToClient::Refused { reason, hint })) => {
                    return Err(AskError::Refused { reason, hint });
                }
                Some(other) => return Err(unexpected(&other)),
                None => return Err(AskError::Closed),
            }
        }
    }

    /// The numbers of the jobs that are meant, each once; with `live` those that are not over. Asks nothing where all of
    /// them are numbers.
    pub async fn select(&mut self, which: &[Selector], live: bool) -> Result<Vec<JobId>, AskError> {
        if let Some(jobs) = numbers(which) {
            return Ok(jobs);
        }
        self.ask(SelectQuery { selection: which.to_vec().into(), live }).await
    }

    /// One job, over or not. [`AskError::Refused`] if there is none of that number.
    pub async fn job(&mut self, job: JobId) -> Result<JobReport, AskError> {
        let mut found = self.ask(JobQuery(job)).await?;
        found.pop().ok_or_else(|| AskError::Refused { reason: format!("there is no job {job}"), hint: None })
    }

    /// Returns when every one of these jobs is over.
    pub async fn wait(&mut self, ids: Vec<JobId>) -> Result<Vec<JobReport>, AskError> {
        let mut reports = Vec::with_capacity(ids.len());
        for ids in ids.chunks(NUMBERS_LIMIT) {
            reports.extend(self.ask(WaitQuery(ids.to_vec())).await?);
        }
        Ok(reports)
    }

    /// Waiting and running jobs that pass the filter, and up to `ended` of the newest finished ones, by number.
    pub async fn jobs(&mut self, filter: JobFilter, ended: u32) -> Result<Vec<JobReport>, AskError> {
        Ok(self.jobs_up_to(filter, ended, usize::MAX).await?.0)
    }

    /// The same, until there are at least `enough`; and whether there are more.
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
            // A job that ended since it was told of is told of again.
            found.extend(jobs.into_iter().map(|job| (job.job, job)));
            match next.filter(|next| *next > from) {
                Some(next) if found.len() < enough => from = next,
                more => return Ok((found.into_values().collect(), more.is_some())),
            }
        }
    }

    /// Finished jobs, newest first, and whether there are more.
    pub async fn history(&mut self, finished: Finished) -> Result<(Vec<JobReport>, bool), AskError> {
        let HistoryPage { jobs, more } = self.ask(finished).await?;
        Ok((jobs, more))
    }

    /// Sums of what was used.
    pub async fn energy(&mut self, query: EnergyQuery) -> Result<EnergyReport, AskError> {
        self.ask(query).await
    }

    /// What the cluster drew in the intervals that begin in `[from, until)`.
    pub async fn readings(&mut self, (from, until): (Time, Time)) -> Result<Vec<Drawn>, AskError> {
        Ok(self.ask(ReadingsQuery { node: None, from, until }).await?.intervals)
    }

    /// Why a job waits, and what its candidates would cost.
    pub async fn explain(&mut self, job: JobId) -> Result<Explanation, AskError> {
        self.ask(ExplainQuery(job)).await
    }

    /// All nodes, in the order of their names, where a number in a name counts as a number.
    pub async fn nodes(&mut self) -> Result<Vec<NodeReport>, AskError> {
        Ok(in_order(self.ask(NodesQuery).await?, |node| &node.name))
    }

    /// The state of the cluster: limits, prices, policy, draw and counts.
    pub async fn status(&mut self) -> Result<Status, AskError> {
        self.ask(StatusQuery).await
    }
}

/// Where all of them are numbers: these, each once.
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
