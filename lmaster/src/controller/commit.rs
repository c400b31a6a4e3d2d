//! Commits: from events to disk, and from disk to the receivers. One batch is being written at a time; later events
//! form the next one. If a commit fails, the state goes back to the one on disk, and clients that wait for an answer
//! get an error. Connections of nodes are closed, so that the nodes repeat their reports, which may have been in the
//! batch.

use std::collections::BTreeSet;

use limo_journal::{Batch, CommitError, FinishedRow, NoRoom, RecoverError, Recovered, Submission};
use limo_model::{Attempt, JobId, NodeId, Span, StopReason, Time, UsedUp, Wait};
use limo_proto::{Answer, JobReport, MasterToClient, MasterToNode, Registration};
use limo_sched::{Command, Event, Refused, Round};

use super::commits::SHORTEST_WAKE;
use super::finished::{lesson, row};
use super::node_peer::Welcome;
use super::submit::Attach;
use super::{Controller, Effect, Fault, Lesson, PeerId, Question, Ticket, faults};
use crate::{recover, report};

/// Longest delay before an event without a waiting message is written. The end of a short job is then written
/// together with its start. This saves a write to disk before the end is reported.
const UNAWAITED: Span = Span::from_ms(5);

/// An action after its precondition is on disk.
#[derive(Debug)]
pub(super) enum After {
    /// An answer; replaced by an error if the commit fails.
    Answer(PeerId, MasterToClient),
    Ask(Ticket, Question),
    ToNode(PeerId, MasterToNode),
    /// The old incarnation of a node that wants to register.
    Settled(PeerId, Box<Registration>),
    Welcome(Box<Welcome>),
    Assign(JobId, Attempt),
    Halt(JobId, Attempt),
    /// The last confirmation for which an attempt waited.
    Confirmed(JobId, Attempt),
    LimitReached(JobId, Attempt),
    /// The newest caps of a node.
    Caps(NodeId),
    /// A job is suspended, or resumes.
    Pause(JobId, Attempt, bool),
    Waiting(JobId, Wait),
    /// A job with its node and its unit.
    Running(JobId, String, String),
    /// A client that attaches to an unfinished job, with its offsets in stdout and stderr.
    Attach(PeerId, Attach),
    Finished(Box<JobReport>),
    Learn(Box<Lesson>),
    /// A job has used up its allowance and continues.
    UsedUp(JobId, UsedUp),
    /// Nodes that must sleep.
    Sleep(Vec<(NodeId, u32)>),
    /// Nodes that must wake.
    Wake(Vec<(NodeId, u32)>),
    /// The next slice of a client's action on many jobs. A batch holds one slice, to limit the wait of other
    /// requests.
    Slice(PeerId),
}

impl Controller {
    /// Applies an event and adds it to the open batch.
    ///
    /// # Errors
    /// [`Refused`]; nothing is changed then.
    pub(super) fn record(&mut self, event: Event) -> Result<(), Refused> {
        // A reading includes the jobs that were reported before it, so it must be recorded first.
        self.record_readings();
        self.apply(event)
    }

    pub(super) fn apply(&mut self, event: Event) -> Result<(), Refused> {
        debug_assert!(self.commits.is_open(), "there is no state to apply {event:?} to");
        let changed = self.changed_by(&event);
        self.stages.apply(&mut self.core, self.now, &event)?;
        self.remember_change(changed);
        // A start is on record at its node, which reports it again, so the write can wait.
        let by = if matches!(event, Event::Started { .. }) { self.now + UNAWAITED } else { self.now };
        self.commits.batch().event(self.now, event, by);
        Ok(())
    }

    /// Records an event that cannot be refused, because it was checked before.
    pub(super) fn must(&mut self, event: Event) {
        if let Err(refused) = self.record(event) {
            tracing::error!(%refused, "a valid event was refused");
        }
    }

    /// Returns the time of the next monitoring stage; `None` if nothing can be written.
    pub(super) fn stage_due(&self) -> Option<Time> {
        let every = self.core.settings().options.monitor_every.max(SHORTEST_WAKE);
        let writes = self.commits.is_open() && self.commits.trouble().is_none();
        self.stages.due(every).filter(|_| writes)
    }

    /// Records a monitoring stage: the master's believed use replaces the core's over-estimate.
    pub(super) fn stage(&mut self) {
        // Readings come first, because they replace the belief so far.
        self.record_readings();
        if let Some(energy) = self.stages.used(&self.core, self.now) {
            self.must(Event::Metered { energy });
        }
        self.stages.pass(self.now);
    }

    pub(super) fn submitted(&mut self, submission: Submission) {
        self.commits.batch().submission(submission);
    }

    /// Releases `after` once all events so far are on disk, and after all earlier releases.
    pub(super) fn after(&mut self, after: After) {
        if matches!(after, After::Answer(..)) && faults::has(Fault::AnsweredEarly) {
            return self.release(after);
        }
        if let Some(after) = self.commits.gate(after) {
            self.release(after);
        }
    }

    /// Releases an answer that only shows the state. It does not wait while writing is impossible.
    pub(super) fn after_read(&mut self, after: After) {
        let mine = |other: &After| matches!((other, &after), (After::Answer(a, _), After::Answer(b, _)) if a == b);
        if self.commits.is_pausing(self.now) && !self.commits.gates(mine) {
            self.release(after);
        } else {
            self.after(after);
        }
    }

    pub(super) fn release(&mut self, after: After) {
        match after {
            After::Answer(peer, message) => self.tell_client(peer, message),
            After::Ask(ticket, question) => self.effects.push(Effect::Ask(ticket, question)),
            After::ToNode(peer, message) => self.tell_node(peer, message),
            After::Settled(peer, registration) => self.settled(peer, *registration),
            After::Welcome(welcome) => self.welcome(*welcome),
            After::Assign(job, attempt) => self.assign(job, attempt),
            After::Halt(job, attempt) => self.halt(job, attempt),
            After::Confirmed(job, attempt) => self.confirmed(job, attempt),
            After::LimitReached(job, attempt) => self.limit_reached(job, attempt),
            After::Caps(node) => self.hold_caps(node),
            After::Pause(job, attempt, paused) => self.pause(job, attempt, paused),
            After::Waiting(job, wait) => self.notify(job, MasterToClient::Waiting { job, wait }),
            After::Running(job, node, unit) => {
                self.notify(job, MasterToClient::Running { job, node, unit });
                self.connect_ends(job);
            }
            After::Attach(peer, attach) => self.attached(peer, attach),
            After::Finished(report) => self.finished(report),
            After::UsedUp(job, used_up) => self.notify(job, MasterToClient::UsedUp { job, used_up }),
            After::Learn(lesson) => self.effects.push(Effect::Learn(lesson)),
            After::Sleep(nodes) => self.put_to_sleep(&nodes),
            After::Wake(nodes) => self.wake_nodes(&nodes),
            After::Slice(peer) => self.sessions.slice_written(peer),
        }
    }

    /// Runs a round and commits, if events are waiting and no commit is running.
    pub(super) fn close_batch(&mut self) {
        let now = self.now;
        if !self.commits.may_commit(now) {
            return;
        }
        if self.commits.batch().is_due(now) || self.metering.due().is_some_and(|at| at <= now) {
            self.record_readings();
        } else if !self.commits.is_due(now) {
            if self.metering.rows_are_due(now) || self.commits.keeps_texts() {
                self.commit_rows();
            }
            return;
        }
        let snapshot = self.snapshot_is_due();
        if snapshot {
            // The use since the last stage is not part of the state.
            self.stage();
        }
        let round = self.stages.round(&mut self.core, now);
        let finished = self.account(&round);
        let batch = self.commits.close(now, round);
        let (readings, forget_readings) = self.metering.take_rows(now);
        let snapshot = if snapshot { self.snapshot() } else { None };
        let batch = Batch { finished, readings, forget_readings, snapshot, ..batch };
        self.effects.push(Effect::Commit(Box::new(batch)));
    }

    /// A snapshot's cost grows with the state, so a large state is written less often.
    fn snapshot_is_due(&self) -> bool {
        let every = (self.settings.snapshot_every as usize).max(self.core.waiting() + self.core.active());
        self.commits.snapshot_is_due(every)
    }

    fn snapshot(&mut self) -> Option<String> {
        let made = serde_json::to_string(self.core.state());
        self.commits.snapshot_made(made.is_ok());
        made.inspect_err(|error| tracing::error!(%error, "the state cannot be written as a snapshot")).ok()
    }

    /// Gates the commands of a round on its commit, and returns the rows of finished jobs.
    fn account(&mut self, round: &Round) -> Vec<FinishedRow> {
        for violation in &round.violations {
            tracing::error!(?violation, "the plan broke a rule and was not executed");
        }
        let offset = self.core.clock().offset;
        for (job, wait) in &round.waits {
            let wait = self.core.still(self.now, *job, wait.clone());
            self.commits.batch().gate(After::Waiting(*job, wait.moved(offset)));
        }
        let mut rows = Vec::new();
        for finished in &round.finished {
            let Some(live) = self.live_of(finished.job) else {
                tracing::error!(job = %finished.job, "an unknown job ended");
                continue;
            };
            let report = report::finished(finished, live, (self.core.nodes(), self.core.clock()));
            match serde_json::to_string(&report) {
                Ok(text) => rows.push(row(finished, &report, text)),
                Err(error) => tracing::error!(%error, job = %finished.job, "a report cannot be written"),
            }
            let lesson = lesson(finished, &live.request, self.core.nodes());
            self.commits.batch().gate(After::Finished(Box::new(report)));
            if let Some(lesson) = lesson {
                self.commits.batch().gate(After::Learn(Box::new(lesson)));
            }
        }
        let command = |command: &Command| match command {
            Command::Start { job, attempt, .. } => Some(After::Assign(*job, *attempt)),
            Command::Release { job, attempt } => Some(After::Confirmed(*job, *attempt)),
            Command::Stop { job, attempt, why: StopReason::TimeLimit { .. } } => {
                Some(After::LimitReached(*job, *attempt))
            }
            Command::Stop { job, attempt, .. } => Some(After::Halt(*job, *attempt)),
            Command::Cap { node, .. } => Some(After::Caps(*node)),
            Command::Suspend { job, attempt } => Some(After::Pause(*job, *attempt, true)),
            Command::Resume { job, attempt } => Some(After::Pause(*job, *attempt, false)),
            Command::UsedUp { job, used_up, .. } => Some(After::UsedUp(*job, *used_up)),
            Command::Sleep { nodes } => Some(After::Sleep(nodes.clone())),
            Command::Wake { nodes } => Some(After::Wake(nodes.clone())),
            // The node itself warns the job.
            Command::Signal { .. } => None,
        };
        for after in round.commands.iter().filter_map(command) {
            self.commits.batch().gate(after);
        }
        rows
    }

    pub(super) fn committed(&mut self, result: Result<Option<NoRoom>, CommitError>) {
        let Some(after) = self.commits.ended() else { return };
        match result {
            Ok(no_room) => {
                self.commits.succeeded();
                for after in after {
                    self.release(after);
                }
                if let (Some(reason), None) = (no_room, self.commits.trouble()) {
                    tracing::warn!(%reason, "the disk is almost full: new jobs are refused");
                    self.commits.suffer(reason.to_string(), self.now);
                }
            }
            Err(error) => self.roll_back(after, &error),
        }
    }

    /// Undoes all events that are not on disk.
    fn roll_back(&mut self, under_way: Vec<After>, error: &CommitError) {
        let reason = error.to_string();
        let (pause, abandoned) = self.commits.roll_back(self.now, &reason);
        tracing::error!(reason, %pause, "the journal cannot be written: new jobs are refused");
        self.metering.roll_back();
        let refusal = not_written(&reason);
        let mut told = BTreeSet::new();
        for after in under_way.into_iter().chain(abandoned) {
            match after {
                After::Answer(peer, message) => {
                    if matches!(message, MasterToClient::Piece(_)) {
                        told.insert(peer);
                    }
                    self.tell_client(peer, refusal.clone());
                }
                After::Attach(peer, ..) => self.tell_client(peer, refusal.clone()),
                After::Ask(ticket, question) => {
                    self.answered(ticket, question.fail(format!("the journal cannot be written: {reason}")));
                }
                _ => {}
            }
        }
        self.drop_cursors(&told, &reason);
        self.drop_probes(&refusal);
        self.assignments.roll_back();
        self.effects.push(Effect::Recover);
    }

    pub(super) fn recovered(&mut self, result: Result<Recovered, RecoverError>) {
        let restored = match result {
            Ok(recovered) => recover::restore(recovered, self.now).map_err(|error| format!("{error:#}")),
            Err(error) => Err(error.to_string()),
        };
        match restored {
            Ok(restored) => {
                self.now = self.now.max(restored.last);
                let unwritten = self.unwritten_starts(&restored.core);
                self.core = restored.core;
                self.stages = restored.stages;
                self.nodes.take_up(restored.incarnations);
                self.kept = restored.kept;
                self.grid.forget_kept();
                self.commits.recovered(restored.generation, restored.entries);
                self.take_up(restored.live);
                match restored.read_only {
                    Some(reason) => {
                        self.become_read_only(&reason);
                        for (job, attempt) in unwritten {
                            self.show_started(job, attempt);
                        }
                    }
                    None => {
                        self.close_nodes();
                        self.commits.go_on();
                        self.begin(restored.fresh);
                        self.take_up_liveness();
                        self.take_up_sleep();
                    }
                }
                self.waiters_of_lost_jobs();
            }
            Err(error) => {
                self.close_nodes();
                let pause = self.commits.broken(self.now);
                tracing::error!(error, %pause, "the journal cannot be read back");
            }
        }
        self.serve_backlogs();
    }
}

/// Returns the answer to a request that could not be made durable.
pub(super) fn not_written(reason: &str) -> MasterToClient {
    let hint = "make room on the disk of the master's state directory, or make it writable, then try again".to_owned();
    MasterToClient::Refused { reason: format!("the journal cannot be written: {reason}"), hint: Some(hint) }
}

pub(super) fn done(peer: PeerId) -> After {
    After::Answer(peer, MasterToClient::Answer(Box::new(Answer::Done)))
}
