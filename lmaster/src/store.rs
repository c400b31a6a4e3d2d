//! The journal and the profile database behind the controller's effects: queries them and returns their answers as
//! inputs. Decides nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow, bail};
use limo_journal::{Batch, Journal, LeaseLost, Opening, Place, Recovered, Server, transfer};
use limo_model::{ClusterId, JobId, JournalId};
use limo_profiles::predict::FinishedJob;
use limo_profiles::{ProfileDb, Run};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::backup;
use crate::controller::{Input, Lesson, Question, Ticket};
use crate::database::Databases;
use crate::former::Former;

pub struct Store {
    databases: Databases,
    answers: UnboundedSender<Input>,
    asked: JoinSet<()>,
}

impl Store {
    /// Opens both databases in `dir`, or the journal on `server`: waits then while another master has the lease. An empty
    /// journal gets the id of the `cluster`. Results go to `answers`.
    ///
    /// # Errors
    /// If one of them cannot be opened, or the journal is of another cluster.
    pub async fn open(
        (dir, server): (&Path, Option<&Server>),
        cluster: Option<ClusterId>,
        answers: UnboundedSender<Input>,
    ) -> Result<(Self, Recovered)> {
        let (journal, recovered) = open_journal(dir, server, Opening { cluster, restored: false }).await?;
        let own = recovered.journal.cluster;
        if let Some(other) = cluster.filter(|cluster| *cluster != own) {
            bail!(
                "the certificates are of cluster {other}, and the journal is of cluster {own}: make an authority for it by \
                 `lconf cluster init --cluster {own}` in an empty directory"
            );
        }
        let recovered = take_up_files(dir, &journal, recovered).await?;
        let profiles = ProfileDb::open(dir).await.context("cannot open the profile database")?;
        let (journal, profiles) = (Arc::new(journal), Arc::new(profiles));
        backup::clean(dir);
        let databases = Databases {
            journal,
            profiles,
            state_dir: dir.to_owned(),
            copies: Arc::default(),
            stopping: Arc::default(),
        };
        Ok((Self { databases, answers, asked: JoinSet::new() }, recovered))
    }

    pub fn has_ballast(&self) -> bool {
        self.databases.journal.has_ballast()
    }

    /// Waits until the master certainly has the lease on its journal; at once if it is in the state directory.
    ///
    /// # Errors
    /// [`LeaseLost`] if another master has it.
    pub async fn confirmed(&self) -> Result<(), LeaseLost> {
        match self.databases.journal.lease() {
            Some(lease) => lease.confirmed().await,
            None => Ok(()),
        }
    }

    fn answer_with(&mut self, answer: impl Future<Output = Option<Input>> + Send + 'static) {
        let answers = self.answers.clone();
        // This removes finished tasks.
        while self.asked.try_join_next().is_some() {}
        self.asked.spawn(async move {
            if let Some(input) = answer.await {
                // The receiver no longer exists when the process ends.
                let _ = answers.send(input);
            }
        });
    }

    pub fn commit(&mut self, batch: Batch) {
        let pending = self.databases.journal.commit(batch);
        self.answer_with(async move { Some(Input::Committed(pending.await)) });
    }

    pub fn recover(&mut self) {
        let journal = Arc::clone(&self.databases.journal);
        self.answer_with(async move { Some(Input::Recovered(journal.recover().await)) });
    }

    pub fn restore_ballast(&mut self) {
        let journal = Arc::clone(&self.databases.journal);
        self.answer_with(async move {
            Some(Input::Ballast(journal.restore_ballast().await.map_err(|error| error.to_string())))
        });
    }

    pub fn ask(&mut self, ticket: Ticket, question: Question) {
        let databases = self.databases.clone();
        self.answer_with(async move { Some(Input::Answered(ticket, question.answer(&databases).await)) });
    }

    /// Drops the backup when no client fetches it.
    pub fn drop_backup(&self) {
        self.databases.drop_backup();
    }

    pub fn learn(&mut self, lesson: Lesson) {
        let profiles = Arc::clone(&self.databases.profiles);
        self.answer_with(async move {
            let Lesson { job, key, duration, energy, confidence, unit: _ } = lesson;
            let run = Run { job, key: key.clone(), duration, power: energy.over(duration), energy, confidence };
            match profiles.learn(run).await {
                Ok(learned) => learned.map(|profile| Input::Learned(key, profile)),
                Err(error) => {
                    tracing::warn!(%error, %job, "a run was not added to the profiles");
                    None
                }
            }
        });
    }

    pub fn observe(&mut self, job: JobId, row: FinishedJob) {
        let profiles = Arc::clone(&self.databases.profiles);
        self.answer_with(async move {
            if let Err(error) = profiles.add_finished(job, row).await {
                tracing::warn!(%error, %job, "a run was not kept for the predictor");
            }
            None
        });
    }

    /// Stops a training, waits for running queries, then closes the journal.
    pub async fn close(self) {
        let Self { databases, asked, .. } = self;
        databases.stopping.store(true, Ordering::Relaxed);
        asked.join_all().await;
        if let Some(journal) = Arc::into_inner(databases.journal) {
            journal.close().await;
        }
    }
}

/// Begins a new incarnation of the journal in a state directory that was restored from a copy.
///
/// # Errors
/// If the journal cannot be opened or written.
pub async fn begin_incarnation(dir: &Path, server: Option<&Server>) -> Result<JournalId> {
    let former = Former::read(dir);
    let (journal, recovered) = open_journal(dir, server, Opening { cluster: None, restored: true }).await?;
    // Earlier reports of nodes prove nothing about their present jobs.
    let batch = Batch { generation: recovered.generation, kept: former.kept.clone(), ..Batch::default() };
    let written = journal.commit(batch).await;
    journal.close().await;
    written.context("cannot write the journal")?;
    former.remove(dir);
    Ok(recovered.journal)
}

async fn open_journal(dir: &Path, server: Option<&Server>, opening: Opening) -> Result<(Journal, Recovered)> {
    let opened = match server {
        Some(server) => Journal::open_on(server, dir, opening).await,
        None => Journal::open_as(dir, opening).await,
    };
    opened.context("cannot open the journal")
}

/// Moves a journal to the state directory `dir`, or to `server`. Returns the number of rows.
///
/// # Errors
/// If one of the journals cannot be used, or the new one is not empty.
pub async fn import_journal(from: &str, dir: &Path, server: Option<Server>) -> Result<u64> {
    let from = Place::read(from).map_err(|reason| anyhow!("the place of the journal is invalid: {reason}"))?;
    let to = server.map_or_else(|| Place::Directory(dir.to_owned()), Place::Server);
    transfer(&from, &to).await.context("cannot move the journal")
}

/// Imports the files of earlier versions into the journal.
async fn take_up_files(dir: &Path, journal: &Journal, recovered: Recovered) -> Result<Recovered> {
    let former = Former::read(dir);
    if former.is_empty() {
        return Ok(recovered);
    }
    if let Some(reason) = recovered.read_only {
        anyhow::bail!("files of an earlier version must first be imported into the journal: {reason}");
    }
    let nodes = former.nodes.iter().filter(|node| !recovered.nodes.contains_key(&node.name)).cloned().collect();
    let new = |(name, _): &(&String, &String)| !recovered.kept.contains_key(*name);
    let kept = former.kept.iter().filter(new).map(|(name, text)| (name.clone(), text.clone())).collect();
    let batch = Batch { generation: recovered.generation, nodes, kept, ..Batch::default() };
    match journal.commit(batch).await {
        Ok(_) => former.remove(dir),
        Err(error) => tracing::warn!(%error, "files of earlier versions stay unread"),
    }
    journal.recover().await.context("cannot read the journal")
}
