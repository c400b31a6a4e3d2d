//! Clients that return for a job that may be over: a submission that is repeated, because its answer was lost, and an
//! attached client that has lost its connection.

use limo_model::JobId;
use limo_proto::{Io, JobReport, MasterToClient, SendExec, SubmissionKey};

use super::lookup::Lookup;
use super::submit::Attach;
use super::{Controller, Fault, PeerId, faults};
use crate::database::Database;

/// The journal's record of a submission.
#[derive(Debug)]
struct Known {
    job: JobId,
    uid: u32,
    /// Report, once the job is over.
    report: Option<Box<JobReport>>,
}

/// Returns the job that was submitted with a key, with its report if it is over.
async fn known(from: &dyn Database, key: &SubmissionKey) -> anyhow::Result<Option<Known>> {
    let Some((job, uid)) = from.job_of_key(key).await? else { return Ok(None) };
    Ok(Some(Known { job, uid, report: from.finished_job(job).await?.map(Box::new) }))
}

/// Looks up an earlier submission with the same key.
#[derive(Debug)]
struct SubmissionLookup {
    exec: Box<SendExec>,
    /// True if its job is certainly over.
    is_over: bool,
}

impl Lookup for SubmissionLookup {
    type Found = Option<Known>;

    // Submissions that are not on disk yet are found by their keys in memory.
    const AT_ONCE: bool = true;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        known(from, &self.exec.key).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, known: Self::Found) {
        controller.submission_looked_up(peer, self, known);
    }

    fn changes_something(&self) -> bool {
        true
    }
}

/// Looks up a job whose client has reconnected.
#[derive(Debug)]
struct AttachLookup(Attach);

impl Lookup for AttachLookup {
    type Found = Option<Known>;

    // The lookup runs at once, like that of a submission.
    const AT_ONCE: bool = true;
    // The database may be away, or this master at its end: the job goes on, and the next master knows it.
    const CLOSES: bool = true;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        known(from, &self.0.key).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, known: Self::Found) {
        controller.attach_looked_up(peer, self.0, known);
    }
}

impl Controller {
    pub(super) fn look_up_submission(&mut self, peer: PeerId, exec: Box<SendExec>, is_over: bool) {
        self.ask(peer, SubmissionLookup { exec, is_over });
    }

    fn submission_looked_up(&mut self, peer: PeerId, lookup: SubmissionLookup, known: Option<Known>) {
        let SubmissionLookup { exec, is_over } = lookup;
        match known.filter(|_| !faults::has(Fault::SubmissionForgotten)) {
            Some(known) => {
                let reads = (exec.launch.io == Io::Attached).then(Vec::new);
                self.finished_before(peer, known, reads);
            }
            None if is_over => self.refuse(peer, "the job of this submission is over, and no longer known", None),
            None => self.ask_hook(peer, exec),
        }
    }

    pub(super) fn look_up_attached(&mut self, peer: PeerId, attach: Attach) {
        self.ask(peer, AttachLookup(attach));
    }

    fn attach_looked_up(&mut self, peer: PeerId, attach: Attach, known: Option<Known>) {
        match known {
            Some(known) if known.job == attach.job => {
                self.finished_before(peer, known, Some(attach.read));
            }
            _ => self.refuse(peer, format!("job {} was not submitted by this client", attach.job), None),
        }
    }

    /// Answers for a submission whose job is over: sends all results at once. With offsets, the client wants the
    /// output.
    fn finished_before(&mut self, peer: PeerId, known: Known, reads: Option<Vec<(u64, u64)>>) {
        let Known { job, uid, report } = known;
        if self.caller(peer).is_none_or(|caller| caller.uid != uid) {
            return self.refuse(peer, "the submission key belongs to a job of another user", None);
        }
        let Some(report) = report else {
            // The job is on disk and not over, but unknown: a process that has lost the disk accepted it.
            return self.refuse(peer, format!("job {job} is no longer known"), None);
        };
        // The end is on disk, so nothing waits for a commit, whose failure would be taken for a refusal.
        self.tell_client(peer, MasterToClient::Accepted { job });
        let Some(read) = reads else { return };
        self.routes.attach(job, peer, &read);
        self.streams_of_finished(&report);
        self.connect_ends(job);
        self.tell_client(peer, MasterToClient::Finished { job, report });
    }
}
