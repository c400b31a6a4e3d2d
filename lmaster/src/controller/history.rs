//! Changes by operators: they are recorded with their events, listed, and undone by new events.

use limo_journal::ChangeRow;
use limo_model::JobId;
use limo_proto::{Answer, ChangeReport, ChangesQuery, ItemReport, MasterToClient, Undo, UndoReport};
use limo_sched::Event;

use super::commit::After;
use super::lookup::Lookup;
use super::queries::Serve;
use super::{Controller, PeerId};
use crate::changed::{self, Back, Changed};
use crate::database::Database;
use crate::history;

/// Most changes in one answer; a client asks for a longer list in parts.
const CHANGES_PAGE: u32 = 500;

/// Most items of one change in a list.
const ITEMS_SHOWN: usize = 20;

/// The operator behind an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) by: String,
    pub(super) undo_of: Option<u64>,
}

/// A change to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub row: ChangeRow,
    pub items: Vec<Changed>,
    /// For each item, the newest later change of the same subject.
    pub since: Vec<Option<u64>>,
}

/// Changes of operators.
#[derive(Debug)]
struct ChangesLookup {
    /// Query for one more change than `limit`.
    query: ChangesQuery,
    limit: u32,
}

impl Lookup for ChangesLookup {
    type Found = Vec<ChangeRow>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.changes(self.query.clone()).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, rows: Self::Found) {
        controller.changes_found(peer, self.limit, &rows);
    }
}

/// The change to undo.
#[derive(Debug)]
pub(super) struct UndoLookup(pub(super) Undo);

impl Lookup for UndoLookup {
    type Found = Option<Found>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.to_undo(self.0.number).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, found: Self::Found) {
        controller.undo_found(peer, self.0, found);
    }

    fn changes_something(&self) -> bool {
        true
    }
}

impl Serve for ChangesQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.changes(peer, self);
    }
}

impl Controller {
    fn changes(&mut self, peer: PeerId, query: ChangesQuery) {
        let limit = query.limit.min(CHANGES_PAGE);
        // One more change shows that further ones follow.
        let query = ChangesQuery { limit: limit + 1, ..query };
        self.ask(peer, ChangesLookup { query, limit });
    }

    fn changes_found(&mut self, peer: PeerId, limit: u32, rows: &[ChangeRow]) {
        let more = rows.len() > limit as usize;
        let reports = rows.iter().take(limit as usize).map(|row| Ok(report(row, &history::items(row)?)));
        match reports.collect::<anyhow::Result<Vec<ChangeReport>>>() {
            Ok(changes) => self.say(peer, Answer::Changes { changes, more }),
            Err(error) => self.refuse(peer, format!("{error:#}"), None),
        }
    }

    /// Undoes a whole change, or nothing.
    fn undo_found(&mut self, peer: PeerId, undo: Undo, found: Option<Found>) {
        let Some(found) = found else {
            let hint = "`lconf history` lists the changes";
            return match undo.number {
                Some(number) => self.refuse(peer, format!("there is no change {number}"), Some(hint)),
                None => self.refuse(peer, "there is no change that can be undone", Some(hint)),
            };
        };
        let Some(by) = self.caller(peer).map(|caller| caller.user.clone()) else { return };
        let number = found.row.number;
        let backs = match backs(&found) {
            Ok(backs) => backs,
            Err(reason) => return self.refuse(peer, reason, Some("`lconf history` lists the changes")),
        };
        if let Some((back, since)) =
            backs.iter().find(|(back, _)| !undo.force && !back.holds(&self.tx.core, self.tx.wall()))
        {
            let hint = format!("lconf undo {number} --force");
            return self.refuse(peer, changed_since(number, &found, back, *since), Some(&hint));
        }
        // The order is reversed, so that a value that was changed twice gets its first value.
        let events = backs.iter().rev().map(|(back, _)| back.event(&self.tx.core, self.tx.wall(), &by));
        let events = match events.collect::<Result<Vec<Event>, String>>() {
            Ok(events) => events,
            Err(reason) => return self.refuse(peer, format!("change {number} cannot be undone: {reason}"), None),
        };
        let becomes =
            |event| changed::of(&self.tx.core, self.tx.wall(), event, Some(&by)).map(|(_, changed)| item(&changed));
        let items = events.iter().filter_map(becomes).take(ITEMS_SHOWN).collect();
        let answer = Answer::Undone(Box::new(UndoReport { change: report(&found.row, &found.items), items }));
        if undo.dry_run {
            return self.say(peer, answer);
        }
        self.tx.actor = Some(Actor { by, undo_of: Some(number) });
        let limited: Vec<JobId> = events.iter().filter_map(limited_job).collect();
        let refused = events.into_iter().find_map(|event| self.tx.record(event).err());
        self.tx.actor = None;
        limited.into_iter().for_each(|job| self.after(After::TimeLimit(job)));
        self.tx.options_in_force();
        self.signals.feeds_in_force(&mut self.tx);
        self.signals.follow_grid(&mut self.tx);
        match refused {
            Some(refused) => self.refuse(peer, format!("change {number} is only partly undone: {refused}"), None),
            None => self.answer(peer, MasterToClient::Answer(Box::new(answer))),
        }
    }
}

fn limited_job(event: &Event) -> Option<JobId> {
    match event {
        Event::TimeLimitSet { job, .. } => Some(*job),
        _ => None,
    }
}

/// Returns the undo of each item, with the newest later change of its subject.
fn backs(found: &Found) -> Result<Vec<(&Back, Option<u64>)>, String> {
    match found.items.iter().find(|item| item.back.is_none()) {
        Some(Changed { subject, new, .. }) => {
            Err(format!("change {} by {} cannot be undone: {subject}: {new}", found.row.number, found.row.by))
        }
        None => {
            let pairs = found.items.iter().zip(&found.since);
            Ok(pairs.filter_map(|(item, since)| Some((item.back.as_ref()?, *since))).collect())
        }
    }
}

fn changed_since(number: u64, found: &Found, back: &Back, since: Option<u64>) -> String {
    let subject = found.items.iter().find(|item| item.back.as_ref() == Some(back)).map(|item| item.subject.as_str());
    let subject = subject.unwrap_or_default();
    match since {
        Some(since) => format!("change {number} of {subject} was overwritten by change {since}"),
        None => format!("change {number} of {subject} is no longer in force"),
    }
}

fn item(changed: &Changed) -> ItemReport {
    let Changed { subject, old, new, back } = changed;
    ItemReport { subject: subject.clone(), old: old.clone(), new: new.clone(), can_undo: back.is_some() }
}

fn report(row: &ChangeRow, items: &[Changed]) -> ChangeReport {
    let more = u32::try_from(items.len().saturating_sub(ITEMS_SHOWN)).unwrap_or(u32::MAX);
    let items = items.iter().take(ITEMS_SHOWN).map(item).collect();
    ChangeReport { number: row.number, at: row.at, by: row.by.clone(), undo_of: row.undo_of, items, more }
}
