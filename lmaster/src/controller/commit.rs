//! Commits: from events to disk, and from disk to the receivers. One batch is being written at a time; later events
//! form the next one. If a commit fails, the state goes back to the one on disk, and clients that wait for an answer
//! get an error. Connections of nodes are closed, so that the nodes repeat their reports, which may have been in the
//! batch.

use std::collections::BTreeSet;

use limo_journal::{Batch, CommitError, FinishedRow, NoRoom, RecoverError, Recovered};
use limo_model::{Attempt, JobId, MailEvent, NodeId, StopReason, UsedUp, Wait};
use limo_proto::{Answer, JobReport, JobState, MasterToClient, MasterToNode, Registration};
use limo_sched::{Command, Round};

use super::finished::{Observation, lesson, observed, row};
use super::node_peer::Welcome;
use super::submit::Attach;
use super::{Controller, Effect, Fault, Lesson, PeerId, Question, Ticket, faults};
use crate::messenger::Errand;
use crate::readings::Rows;
use crate::{recover, report};

/// An action after its precondition is on disk.
#[derive(Debug)]
pub(super) enum After {
    /// An answer; replaced by an error if the commit fails.
    Answer(PeerId, MasterToClient),
    Ask(Ticket, Question),
    ToNode(PeerId, MasterToNode),
    /// The end of an attempt that its node has reported.
    EndRecorded(PeerId, NodeId, JobId, Attempt),
    /// The old incarnation of a node that wants to register.
    Settled(PeerId, Box<Registration>),
    Welcome(Box<Welcome>),
    Assign(JobId, Attempt),
    Halt(JobId, Attempt),
    /// The last confirmation for which an attempt waited.
    Confirmed(JobId, Attempt),
    LimitReached(JobId, Attempt),
    /// A job has another time limit.
    TimeLimit(JobId),
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
    Observe(JobId, Box<Observation>),
    /// A job has used up its allowance and continues.
    UsedUp(JobId, UsedUp),
    /// An event of a job for the site.
    Tell(Box<Errand>),
    /// Nodes that must sleep.
    Sleep(Vec<(NodeId, u32)>),
    /// Nodes that must wake.
    Wake(Vec<(NodeId, u32)>),
    /// The next slice of a client's action on many jobs. A batch holds one slice, to limit the wait of other
    /// requests.
    Slice(PeerId),
}

impl Controller {
    /// Releases `after` once all events so far are on disk, and after all earlier releases.
    pub(super) fn after(&mut self, after: After) {
        if matches!(after, After::Answer(..)) && faults::has(Fault::AnsweredEarly) {
            return self.release(after);
        }
        if let Some(after) = self.tx.commits.gate(after) {
            self.release(after);
        }
    }

    /// Releases an answer that only shows the state. It does not wait while writing is impossible.
    pub(super) fn after_read(&mut self, after: After) {
        let mine = |other: &After| matches!((other, &after), (After::Answer(a, _), After::Answer(b, _)) if a == b);
        if self.tx.commits.is_pausing(self.tx.now) && !self.tx.commits.gates(mine) {
            self.release(after);
        } else {
            self.after(after);
        }
    }

    pub(super) fn release(&mut self, after: After) {
        match after {
            After::Answer(peer, message) => self.tell_client(peer, message),
            After::Ask(ticket, question) => self.tx.effects.push(Effect::Ask(ticket, question)),
            After::ToNode(peer, message) => self.tell_node(peer, message),
            After::EndRecorded(peer, node, job, attempt) => {
                self.tell_node(peer, MasterToNode::EndedAck { job, attempt });
                self.drop_stray_output(peer, node, job);
            }
            After::Settled(peer, registration) => self.settled(peer, *registration),
            After::Welcome(welcome) => self.welcome(*welcome),
            After::Assign(job, attempt) => self.assign(job, attempt),
            After::Halt(job, attempt) => self.halt(job, attempt),
            After::Confirmed(job, attempt) => self.confirmed(job, attempt),
            After::LimitReached(job, attempt) => {
                self.tx.tell_site(job, (MailEvent::TimeLimit, JobState::Running));
                self.limit_reached(job, attempt);
            }
            After::TimeLimit(job) => self.send_limit(job),
            After::Caps(node) => self.hold_caps(node),
            After::Pause(job, attempt, paused) => self.pause(job, attempt, paused),
            After::Waiting(job, wait) => self.notify(job, MasterToClient::Waiting { job, wait }),
            After::Running(job, node, unit) => {
                self.notify(job, MasterToClient::Running { job, node, unit });
                self.connect_ends(job);
            }
            After::Attach(peer, attach) => self.attached(peer, attach),
            After::Tell(errand) => self.tx.effects.push(Effect::Tell(errand)),
            After::Finished(report) => {
                self.tell_end(&report);
                self.ended.count(&report);
                self.finished(report);
            }
            After::UsedUp(job, used_up) => self.notify(job, MasterToClient::UsedUp { job, used_up }),
            After::Learn(lesson) => {
                self.learn_variation(&lesson);
                self.tx.effects.push(Effect::Learn(lesson));
            }
            After::Observe(job, observation) => self.observe(job, *observation),
            After::Sleep(nodes) => self.sleepers.put_to_sleep(&mut self.tx, &self.nodes, &nodes),
            After::Wake(nodes) => self.sleepers.wake_nodes(&mut self.tx, &nodes),
            After::Slice(peer) => self.sessions.slice_written(peer),
        }
    }

    /// Runs a round and commits, if events are waiting and no commit is running.
    pub(super) fn close_batch(&mut self) {
        let now = self.tx.now;
        if !self.tx.commits.may_commit(now) {
            return;
        }
        if self.tx.commits.batch().is_due(now) || self.tx.metering.due().is_some_and(|at| at <= now) {
            self.tx.record_readings();
        } else if !self.tx.commits.is_due(now) {
            if self.tx.metering.rows_are_due(now) || self.tx.commits.keeps_texts() {
                self.tx.commit_rows();
            }
            return;
        }
        let snapshot = self.snapshot_is_due();
        if snapshot {
            // The use since the last stage is not part of the state.
            self.tx.stage();
        }
        let round = self.tx.stages.round(&mut self.tx.core, now);
        let finished = self.account(&round);
        let batch = self.tx.commits.close(now, round);
        let Rows { readings, states, forget: forget_readings } = self.tx.metering.take_rows(now);
        let snapshot = if snapshot { self.snapshot() } else { None };
        let batch = Batch { finished, readings, states, forget_readings, snapshot, ..batch };
        self.tx.effects.push(Effect::Commit(Box::new(batch)));
    }

    /// A snapshot's cost grows with the state, so a large state is written less often.
    fn snapshot_is_due(&self) -> bool {
        let every = (self.tx.settings.snapshot_every as usize).max(self.tx.core.waiting() + self.tx.core.active());
        self.tx.commits.snapshot_is_due(every)
    }

    fn snapshot(&mut self) -> Option<String> {
        let made = serde_json::to_string(self.tx.core.state());
        self.tx.commits.snapshot_made(made.is_ok());
        made.inspect_err(|error| tracing::error!(%error, "the state cannot be written as a snapshot")).ok()
    }

    /// Gates the commands of a round on its commit, and returns the rows of finished jobs.
    fn account(&mut self, round: &Round) -> Vec<FinishedRow> {
        for violation in &round.violations {
            tracing::error!(?violation, "the plan broke a rule and was not executed");
        }
        let offset = self.tx.core.clock().offset;
        for (job, wait) in &round.waits {
            let wait = self.tx.core.still(self.tx.now, *job, wait.clone());
            self.tx.commits.batch().gate(After::Waiting(*job, wait.moved(offset)));
        }
        let mut rows = Vec::new();
        for finished in &round.finished {
            let Some(live) = self.live_of(finished.job) else {
                tracing::error!(job = %finished.job, "an unknown job ended");
                continue;
            };
            let report = report::finished(finished, live, (self.tx.core.nodes(), self.tx.core.clock()));
            match serde_json::to_string(&report) {
                Ok(text) => rows.push(row(finished, &report, text)),
                Err(error) => tracing::error!(%error, job = %finished.job, "a report cannot be written"),
            }
            let lesson = lesson(finished, &live.request.on(&finished.placement), self.tx.core.nodes());
            let observation = observed(finished, live, (&report, self.tx.core.nodes()));
            self.tx.commits.batch().gate(After::Finished(Box::new(report)));
            if let Some(lesson) = lesson {
                self.tx.commits.batch().gate(After::Learn(Box::new(lesson)));
            }
            if let Some(observation) = observation {
                self.tx.commits.batch().gate(After::Observe(finished.job, Box::new(observation)));
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
            // The node itself warns the job. No job of a cluster is malleable.
            Command::Signal { .. } | Command::Resize { .. } => None,
        };
        self.assignments.confirm(round.commands.iter().filter_map(|command| match command {
            Command::Release { job, .. } => Some(*job),
            _ => None,
        }));
        for after in round.commands.iter().filter_map(command) {
            self.tx.commits.batch().gate(after);
        }
        rows
    }

    pub(super) fn committed(&mut self, result: Result<Option<NoRoom>, CommitError>) {
        let Some(after) = self.tx.commits.ended() else { return };
        match result {
            Ok(no_room) => {
                self.tx.commits.succeeded();
                for after in after {
                    self.release(after);
                }
                if let (Some(reason), None) = (no_room, self.tx.commits.trouble()) {
                    tracing::warn!(%reason, "the disk is almost full: new jobs are refused");
                    self.tx.commits.suffer(reason.to_string(), self.tx.now);
                }
            }
            Err(error) => self.roll_back(after, &error),
        }
    }

    /// Undoes all events that are not on disk.
    fn roll_back(&mut self, under_way: Vec<After>, error: &CommitError) {
        let reason = error.to_string();
        let (pause, abandoned) = self.tx.commits.roll_back(self.tx.now, &reason);
        tracing::error!(reason, %pause, "the journal cannot be written: new jobs are refused");
        self.tx.metering.roll_back();
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
                After::Attach(peer, ..) => self.returns_later(peer),
                After::Ask(ticket, question) => {
                    self.answered(ticket, question.fail(format!("the journal cannot be written: {reason}")));
                }
                _ => {}
            }
        }
        self.drop_cursors(&told, &reason);
        self.drop_probes(&refusal);
        self.drop_measures(&refusal);
        self.assignments.roll_back();
        self.tx.effects.push(Effect::Recover);
    }

    pub(super) fn recovered(&mut self, result: Result<Recovered, RecoverError>) {
        let restored = match result {
            Ok(recovered) => recover::restore(recovered, self.tx.now).map_err(|error| format!("{error:#}")),
            Err(error) => Err(error.to_string()),
        };
        match restored {
            Ok(restored) => {
                self.tx.now = self.tx.now.max(restored.last);
                let unwritten = self.unwritten_starts(&restored.core);
                self.tx.core = restored.core;
                self.tx.stages = restored.stages;
                self.nodes.take_up(restored.incarnations);
                self.signals.rolled_back(restored.kept);
                self.tx.commits.recovered(restored.generation, restored.entries);
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
                        self.tx.commits.go_on();
                        self.begin(restored.fresh);
                        self.liveness.take_up(&self.tx);
                        self.sleepers.take_up(&mut self.tx, &mut self.assignments);
                        self.reboots_in_force();
                    }
                }
                self.waiters_of_lost_jobs();
            }
            Err(error) => {
                self.close_nodes();
                let pause = self.tx.commits.broken(self.tx.now);
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
