//! The journal and the profile database behind the desk's effects: asks them, and brings their answers back as inputs.
//! Decides nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use limo_journal::{Batch, Compaction, FinishedFilter, FinishedQuery, FinishedRow, Journal, Recovered};
use limo_model::{JournalId, Time};
use limo_profiles::{ProfileDb, Run};
use limo_proto::{Finished, JobFilter, JobReport, JournalSizes};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::backup::{self, Copies};
use crate::desk::{Input, Known, Lesson, Question, READINGS_LIMIT, Reply, Ticket};
use crate::energy;
use crate::former::Former;
use crate::history;

pub struct Store {
    journal: Arc<Journal>,
    profiles: Arc<ProfileDb>,
    answers: UnboundedSender<Input>,
    asked: JoinSet<()>,
    state_dir: PathBuf,
    /// The backup that somebody is fetching.
    copies: Arc<Mutex<Option<Copies>>>,
}

impl Store {
    /// Opens both in `dir`. Answers go to `answers`.
    ///
    /// # Errors
    /// Where one of them cannot be opened.
    pub async fn open(dir: &Path, answers: UnboundedSender<Input>) -> Result<(Self, Recovered)> {
        let (journal, recovered) = Journal::open(dir).await.context("cannot open the journal")?;
        let recovered = take_up_files(dir, &journal, recovered).await?;
        let profiles = ProfileDb::open(dir).await.context("cannot open the profile database")?;
        let (journal, profiles) = (Arc::new(journal), Arc::new(profiles));
        backup::clean(dir);
        let (state_dir, copies) = (dir.to_owned(), Arc::default());
        Ok((Self { journal, profiles, answers, asked: JoinSet::new(), state_dir, copies }, recovered))
    }

    pub fn has_ballast(&self) -> bool {
        self.journal.has_ballast()
    }

    fn answer_with(&mut self, answer: impl Future<Output = Option<Input>> + Send + 'static) {
        let answers = self.answers.clone();
        // Those that are done leave their places.
        while self.asked.try_join_next().is_some() {}
        self.asked.spawn(async move {
            if let Some(input) = answer.await {
                // Nobody listens any more when the process ends.
                let _ = answers.send(input);
            }
        });
    }

    pub fn commit(&mut self, batch: Batch) {
        let pending = self.journal.commit(batch);
        self.answer_with(async move { Some(Input::Committed(pending.await)) });
    }

    pub fn recover(&mut self) {
        let journal = Arc::clone(&self.journal);
        self.answer_with(async move { Some(Input::Recovered(journal.recover().await)) });
    }

    pub fn restore_ballast(&mut self) {
        let journal = Arc::clone(&self.journal);
        self.answer_with(async move {
            Some(Input::Ballast(journal.restore_ballast().await.map_err(|error| error.to_string())))
        });
    }

    pub fn ask(&mut self, ticket: Ticket, question: Question) {
        let (journal, profiles) = (Arc::clone(&self.journal), Arc::clone(&self.profiles));
        let (state_dir, copies) = (self.state_dir.clone(), Arc::clone(&self.copies));
        self.answer_with(async move {
            let reply = match question {
                Question::Backup => make(&copies, Copies::make(&state_dir, &journal, &profiles).await),
                Question::BackupPart { file, offset } => part(&copies, file, offset),
                question => answer(&journal, &profiles, question).await,
            };
            Some(Input::Answered(ticket, reply.map_err(|error| format!("{error:#}"))))
        });
    }

    /// Nobody fetches the backup any more.
    pub fn drop_backup(&self) {
        *self.copies.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn learn(&mut self, lesson: Lesson) {
        let profiles = Arc::clone(&self.profiles);
        self.answer_with(async move {
            let Lesson { job, key, duration, energy, confidence } = lesson;
            let run = Run { job, key: key.clone(), duration, power: energy.over(duration), energy, confidence };
            match profiles.learn(run).await {
                Ok(learned) => learned.map(|profile| Input::Learned(key, profile)),
                Err(error) => {
                    tracing::warn!(%error, %job, "nothing was learned from a run");
                    None
                }
            }
        });
    }

    /// Waits for what is under way, then closes the journal.
    pub async fn close(self) {
        let Self { journal, asked, .. } = self;
        asked.join_all().await;
        if let Some(journal) = Arc::into_inner(journal) {
            journal.close().await;
        }
    }
}

/// Begins a new incarnation of the journal in a state directory that was restored from a copy.
///
/// # Errors
/// If it cannot be opened or written.
pub async fn begin_incarnation(dir: &Path) -> Result<JournalId> {
    let former = Former::read(dir);
    let (journal, recovered) = Journal::open_restored(dir).await.context("cannot open the journal")?;
    // What nodes had then proves nothing about what they have now.
    let batch = Batch { generation: recovered.generation, kept: former.kept.clone(), ..Batch::default() };
    let written = journal.commit(batch).await;
    journal.close().await;
    written.context("cannot write the journal")?;
    former.remove(dir);
    Ok(recovered.journal)
}

/// Takes into the journal what earlier programs kept in files beside it.
async fn take_up_files(dir: &Path, journal: &Journal, recovered: Recovered) -> Result<Recovered> {
    let former = Former::read(dir);
    if former.is_empty() {
        return Ok(recovered);
    }
    if let Some(reason) = recovered.read_only {
        anyhow::bail!("files of an earlier program have to be taken into the journal first: {reason}");
    }
    let nodes = former.nodes.iter().filter(|node| !recovered.nodes.contains_key(&node.name)).cloned().collect();
    let new = |(name, _): &(&String, &String)| !recovered.kept.contains_key(*name);
    let kept = former.kept.iter().filter(new).map(|(name, text)| (name.clone(), text.clone())).collect();
    let batch = Batch { generation: recovered.generation, nodes, kept, ..Batch::default() };
    match journal.commit(batch).await {
        Ok(_) => former.remove(dir),
        Err(error) => tracing::warn!(%error, "what earlier programs kept in files stays there"),
    }
    journal.recover().await.context("cannot read the journal")
}

fn make(copies: &Mutex<Option<Copies>>, made: Result<Copies>) -> Result<Reply> {
    let made = made?;
    let report = made.report();
    *copies.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    Ok(Reply::Backup(report))
}

fn part(copies: &Mutex<Option<Copies>>, file: u32, offset: u64) -> Result<Reply> {
    let copies = copies.lock().unwrap_or_else(PoisonError::into_inner);
    let copies = copies.as_ref().context("there is no backup to fetch")?;
    Ok(Reply::BackupPart(copies.part(file, offset)?))
}

async fn answer(journal: &Journal, profiles: &ProfileDb, question: Question) -> Result<Reply> {
    Ok(match question {
        Question::Key(key) => match journal.job_of_key(&key).await? {
            None => Reply::Key(None),
            Some((job, uid)) => {
                let row = journal.finished_job(job).await?;
                let report = row.map(|row| report(&row).map(Box::new)).transpose()?;
                Reply::Key(Some(Known { job, uid, report }))
            }
        },
        Question::Jobs(jobs) => {
            let mut reports = Vec::new();
            for job in jobs {
                reports.extend(journal.finished_job(job).await?.map(|row| report(&row)).transpose()?);
            }
            Reply::Jobs(reports)
        }
        Question::History(finished) => Reply::Jobs(finished_jobs(journal, finished).await?),
        Question::Energy(query) => Reply::Energy(Box::new(energy::sums(journal, query).await?)),
        Question::Backup | Question::BackupPart { .. } => {
            anyhow::bail!("the files of a backup are no question of the journal")
        }
        Question::Compact => {
            let Compaction { before, after } = journal.compact().await?;
            Reply::Compacted(JournalSizes { before, after })
        }
        Question::Changes(query) => Reply::Changes(journal.changes(query).await?),
        Question::Undo(number) => Reply::Undo(history::to_undo(journal, number).await?.map(Box::new)),
        Question::NewestOf(uid) => Reply::Newest(journal.newest_of(uid).await?),
        Question::Readings(node, range) => Reply::Readings(journal.readings(&node, range, READINGS_LIMIT + 1).await?),
        Question::Profiles => Reply::AllProfiles(profiles.all().await?),
        Question::Store(given) => {
            let stored = profiles.set(given).await?;
            Reply::Profiles(stored.into_iter().map(|(key, profile)| (key, Some(profile))).collect())
        }
        Question::Forget(key) => {
            anyhow::ensure!(profiles.forget(&key).await?, "there is no profile of {key}");
            Reply::Profiles(vec![(key, None)])
        }
    })
}

async fn finished_jobs(journal: &Journal, finished: Finished) -> Result<Vec<JobReport>> {
    let Finished { filter, since, until, after, limit } = finished;
    let rows = journal.finished(FinishedQuery { filter: row_filter(filter, since, until), after, limit }).await?;
    rows.iter().map(report).collect()
}

/// What of the jobs a client wants to see, in the words of the journal.
pub fn row_filter(filter: JobFilter, since: Option<Time>, until: Option<Time>) -> FinishedFilter {
    let JobFilter { users, states, names, nodes } = filter;
    let states = states.iter().map(|state| state.name().to_owned()).collect();
    FinishedFilter { users, states, names, nodes, since, until }
}

fn report(row: &FinishedRow) -> Result<JobReport> {
    serde_json::from_str(&row.report)
        .with_context(|| format!("the report of job {} in the journal is damaged", row.job))
}
