//! The open batch: events that are not yet being written, and messages that wait for them. All writes to the journal go
//! through it.

use std::collections::BTreeMap;

use limo_journal::{Batch, ChangeRow, Entry, NodeRow, Submission};
use limo_model::Time;
use limo_sched::{Event, Round};

use super::commit::After;

/// Most items in one change: an import of thousands of profiles makes several changes.
const ITEMS_LIMIT: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct OpenBatch {
    entries: Vec<(Time, Entry)>,
    submissions: Vec<Submission>,
    gated: Vec<After>,
    /// Changes of operators, each with the number of its input.
    changes: Vec<(u64, ChangeRow)>,
    nodes: Vec<NodeRow>,
    kept: BTreeMap<String, String>,
    /// Latest time of the write if no message waits for it.
    by: Option<Time>,
}

impl OpenBatch {
    /// Adds an event that was applied at `now`, to be written by `by`.
    pub(super) fn event(&mut self, now: Time, event: Event, by: Time) {
        self.entries.push((now, Entry::Event(event)));
        self.by = Some(self.by.map_or(by, |before| before.min(by)));
    }

    pub(super) fn submission(&mut self, submission: Submission) {
        self.submissions.push(submission);
    }

    /// Adds a new incarnation of a node, which begins with this batch.
    pub(super) fn incarnation(&mut self, node: NodeRow) {
        self.nodes.push(node);
    }

    /// Adds an operator's change. All changes of one input for one operator form one change.
    pub(super) fn change(&mut self, input: u64, row: ChangeRow) {
        let same = |(step, before): &&mut (u64, ChangeRow)| {
            *step == input && before.by == row.by && before.undo_of == row.undo_of && before.items.len() < ITEMS_LIMIT
        };
        match self.changes.last_mut().filter(same) {
            Some((_, before)) => before.items.extend(row.items),
            None => self.changes.push((input, row)),
        }
    }

    /// Replaces a kept text. Texts and entries do not wait for each other.
    pub(super) fn keep(&mut self, name: &str, text: &str) {
        self.kept.insert(name.to_owned(), text.to_owned());
    }

    /// Releases a message once everything in the batch is on disk.
    pub(super) fn gate(&mut self, after: After) {
        self.gated.push(after);
    }

    pub(super) fn gates(&self, is_meant: impl FnMut(&After) -> bool) -> bool {
        self.gated.iter().any(is_meant)
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn keeps_texts(&self) -> bool {
        !self.kept.is_empty()
    }

    pub(super) fn take_texts(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.kept)
    }

    /// Returns the time of the write: at once if a message waits for it.
    pub(super) fn due(&self) -> Option<Time> {
        let awaited = !(self.gated.is_empty() && self.submissions.is_empty());
        let due = if awaited { Time::default() } else { self.by.unwrap_or_default() };
        (!self.entries.is_empty()).then_some(due)
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Closes the batch with its round, and begins an empty one. Also returns the messages that wait for it.
    pub(super) fn close(&mut self, now: Time, round: Round) -> (Batch, Vec<After>) {
        let mut closed = std::mem::take(self);
        closed.entries.push((now, Entry::Round(round)));
        let batch = Batch {
            entries: closed.entries,
            submissions: closed.submissions,
            changes: closed.changes.into_iter().map(|(_, row)| row).collect(),
            nodes: closed.nodes,
            kept: closed.kept,
            ..Batch::default()
        };
        (batch, closed.gated)
    }

    /// Discards the batch. Returns the messages that waited for it.
    pub(super) fn abandon(&mut self) -> Vec<After> {
        std::mem::take(self).gated
    }
}
