//! Long answers, sent page by page: the next page is made when the connection has taken the previous one. So a list
//! takes no more memory than a page, regardless of its length and the reader's speed.

use limo_model::JobId;
use limo_proto::{Answer, Finished, JobReport, MasterToClient, NodeReport, encoded_len};
use limo_sched::Node;

use super::commit::After;
use super::deeds::{Deed, Doing};
use super::listing::Listing;
use super::lookup::Lookup;
use super::numbers::Numbers;
use super::select::Selecting;
use super::sift::Sifting;
use super::{Controller, PeerId};
use crate::database::Database;
use crate::report;

/// Most encoded bytes in one page.
pub(super) const PAGE: usize = 256 * 1024;

/// Numbers that are added to a page at a time.
const NUMBERS: usize = 10_000;

/// Reports that are read from the journal at a time.
const ROWS: u32 = 64;

/// The unsent part of an answer.
#[derive(Debug)]
pub(super) struct Cursor {
    made: Answer,
    more: More,
    /// True if the answer confirms a change: then it waits until the change is on disk, however long that takes.
    changed: bool,
}

/// The next step after a page.
#[derive(Debug)]
enum More {
    Nothing,
    /// The nodes from this number on.
    Nodes(u32),
    /// The finished jobs among these.
    Numbers(Numbers),
    /// Finished jobs of the query; `limit` is the number of remaining ones.
    Finished(Finished),
    /// Finished jobs, with one more than requested. This one is not sent, and shows that more follow.
    History(Finished),
    /// The numbers of these jobs.
    Selected(Numbers),
    /// An action on jobs, then the list of their numbers.
    Deeds(Doing, Numbers),
    /// The filter of a selection. The result leads to another answer.
    Sift(Box<Sifting>),
    /// The search for the first jobs of an order.
    List(Box<Listing>),
}

impl Cursor {
    fn of(made: Answer, more: More) -> Self {
        Self { made, more, changed: false }
    }

    /// Makes the list of all nodes.
    pub(super) fn nodes() -> Self {
        Self::of(Answer::Nodes(Vec::new()), More::Nodes(0))
    }

    /// Returns reports of the finished ones among these jobs.
    pub(super) fn reports(jobs: Numbers) -> Self {
        Self::of(Answer::Jobs(Vec::new()), More::Numbers(jobs))
    }

    /// Makes the list of these reports and those of finished jobs.
    pub(super) fn jobs(reports: Vec<JobReport>, finished: Finished) -> Self {
        Self::of(Answer::Jobs(reports), More::Finished(finished))
    }

    /// Makes the list of the numbers of these jobs.
    pub(super) fn selected(jobs: Numbers) -> Self {
        Self::of(Answer::Selected(Vec::new()), More::Selected(jobs))
    }

    /// Filters these jobs by the selection's filter.
    pub(super) fn sift(selecting: Selecting, jobs: Numbers) -> Self {
        Self::of(Answer::Done, More::Sift(Box::new(Sifting::new(selecting, jobs))))
    }

    /// Lists unfinished jobs in an order.
    pub(super) fn listing(listing: Listing) -> Self {
        Self::of(Answer::Done, More::List(Box::new(listing)))
    }

    pub(super) fn history(mut finished: Finished) -> Self {
        finished.limit = finished.limit.saturating_add(1);
        Self::of(Answer::History { jobs: Vec::new(), more: false }, More::History(finished))
    }

    fn take_rows(&mut self, rows: Vec<JobReport>) {
        let (Answer::Jobs(made) | Answer::History { jobs: made, .. }) = &mut self.made else { return };
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let last = rows.last().and_then(|row| Some((row.ended?, row.job)));
        made.extend(rows);
        let (More::Finished(query) | More::History(query)) = &mut self.more else { return };
        let was_asked = query.limit.min(ROWS);
        query.limit -= count.min(query.limit);
        query.after = last;
        if count >= was_asked && query.limit > 0 && last.is_some() {
            return;
        }
        let is_surplus = matches!(self.more, More::History(_)) && count == was_asked;
        self.more = More::Nothing;
        if let Answer::History { jobs, more } = &mut self.made
            && is_surplus
        {
            jobs.pop();
            *more = true;
        }
    }
}

/// Finished jobs for the next page.
#[derive(Debug)]
enum PageLookup {
    Jobs(Vec<JobId>),
    Finished(Finished),
}

impl Lookup for PageLookup {
    type Found = Vec<JobReport>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        match self {
            Self::Jobs(jobs) => from.finished_jobs(jobs).await,
            Self::Finished(query) => from.finished(query.clone()).await,
        }
    }

    fn found(self, controller: &mut Controller, peer: PeerId, rows: Self::Found) {
        controller.page_read(peer, rows);
    }
}

impl Controller {
    /// Sends an answer as soon as its content is on disk; a long list page by page.
    pub(super) fn say(&mut self, peer: PeerId, answer: Answer) {
        self.tell_pages(peer, Cursor::of(answer, More::Nothing));
    }

    pub(super) fn tell_pages(&mut self, peer: PeerId, cursor: Cursor) {
        if let Some(client) = self.sessions.get_mut(peer) {
            client.cursor = Some(cursor);
            self.next_page(peer);
        }
    }

    /// Acts on jobs in slices, then confirms the action.
    pub(super) fn do_all(&mut self, peer: PeerId, deed: Deed, jobs: Numbers) {
        self.do_all_and_answer(peer, deed, jobs, Answer::Done);
    }

    /// Acts on jobs in slices, then sends another answer.
    pub(super) fn do_all_and_answer(&mut self, peer: PeerId, deed: Deed, jobs: Numbers, answer: Answer) {
        self.audit_deed(peer, deed, &jobs);
        let more = More::Deeds(Doing::new(deed, jobs), Numbers::default());
        self.tell_pages(peer, Cursor { changed: true, ..Cursor::of(answer, more) });
    }

    /// Acts on jobs in slices, then lists them.
    pub(super) fn do_all_selected(&mut self, peer: PeerId, deed: Deed, jobs: Numbers) {
        self.audit_deed(peer, deed, &jobs);
        let more = More::Deeds(Doing::new(deed, jobs.clone()), jobs);
        self.tell_pages(peer, Cursor { changed: true, ..Cursor::of(Answer::Selected(Vec::new()), more) });
    }

    /// Sends the next page of an answer, or queries the journal for it.
    pub(super) fn next_page(&mut self, peer: PeerId) {
        let cursor = self.sessions.get_mut(peer).and_then(|client| client.cursor.take());
        let Some(mut cursor) = cursor else { return };
        loop {
            let changed = cursor.changed;
            cursor.more = match cursor.more {
                More::Deeds(mut doing, told) => {
                    if !self.go_on_with(peer, &mut doing) {
                        self.keep_cursor(peer, Cursor { more: More::Deeds(doing, told), ..cursor });
                        return self.after(After::Slice(peer));
                    }
                    More::Selected(told)
                }
                More::Sift(sifting) => {
                    let Some(sifting) = self.sift(peer, sifting) else { return };
                    self.keep_cursor(peer, Cursor { more: More::Sift(sifting), ..cursor });
                    return self.sessions.ready(peer);
                }
                More::List(mut listing) => {
                    if !self.list(&mut listing) {
                        self.keep_cursor(peer, Cursor { more: More::List(listing), ..cursor });
                        return self.sessions.ready(peer);
                    }
                    cursor.made = self.listed(&listing);
                    More::Nothing
                }
                more => more,
            };
            if let Some(page) = cursor.made.cut(PAGE) {
                self.keep_cursor(peer, cursor);
                return self.tell_page(peer, MasterToClient::Piece(Box::new(page)), changed);
            }
            let lookup = match &mut cursor.more {
                More::Nothing | More::Deeds(..) | More::Sift(_) | More::List(_) => {
                    let answer = MasterToClient::Answer(Box::new(tidied(cursor.made)));
                    return self.tell_page(peer, answer, changed);
                }
                More::Nodes(from) => {
                    let next = self.more_nodes(*from, &mut cursor.made);
                    cursor.more = next.map_or(More::Nothing, More::Nodes);
                    continue;
                }
                More::Selected(numbers) => {
                    let part = numbers.take(NUMBERS);
                    match &mut cursor.made {
                        Answer::Selected(made) if !part.is_empty() => made.extend(part),
                        _ => cursor.more = More::Nothing,
                    }
                    continue;
                }
                More::Numbers(numbers) => {
                    let part = numbers.take(ROWS as usize);
                    if part.is_empty() {
                        cursor.more = More::Nothing;
                        continue;
                    }
                    PageLookup::Jobs(part)
                }
                More::Finished(query) | More::History(query) => {
                    PageLookup::Finished(Finished { limit: query.limit.min(ROWS), ..query.clone() })
                }
            };
            self.keep_cursor(peer, cursor);
            return self.ask(peer, lookup);
        }
    }

    fn tell_page(&mut self, peer: PeerId, page: MasterToClient, changed: bool) {
        let after = After::Answer(peer, page);
        if changed { self.after(after) } else { self.after_read(after) }
    }

    fn keep_cursor(&mut self, peer: PeerId, cursor: Cursor) {
        if let Some(client) = self.sessions.get_mut(peer) {
            client.cursor = Some(cursor);
        }
    }

    /// Handles the journal's rows for the next page.
    fn page_read(&mut self, peer: PeerId, rows: Vec<JobReport>) {
        let client = self.sessions.get_mut(peer);
        if let Some(cursor) = client.and_then(|client| client.cursor.as_mut()) {
            cursor.take_rows(rows);
            self.next_page(peer);
        }
    }

    /// Returns a node with these active jobs as clients see it.
    pub(super) fn node_report(&self, node: &Node, jobs: &[JobId]) -> NodeReport {
        let containment = self.nodes.containment(node.id());
        let report = report::node(&self.tx.core, (node, jobs), self.tx.now);
        let reason =
            report.reason.clone().or_else(|| self.reboot_in_words(node.id())).or_else(|| self.without_owner(node.id()));
        NodeReport { containment, reason, ..report }
    }

    /// Adds a page of nodes from this number on. Returns the first remaining number.
    fn more_nodes(&self, from: u32, made: &mut Answer) -> Option<u32> {
        let Answer::Nodes(made) = made else { return None };
        let mut size = made.iter().map(encoded_len).sum::<usize>();
        let occupants = self.tx.core.occupants();
        for node in self.tx.core.known_nodes().filter(|node| node.id().0 >= from) {
            if size > PAGE {
                return Some(node.id().0);
            }
            let report = self.node_report(node, occupants.of(node.id()));
            size += encoded_len(&report);
            made.push(report);
        }
        None
    }
}

/// Sorts jobs by number without duplicates. If a job ended during the query, it is listed twice; the later report is
/// right.
fn tidied(mut answer: Answer) -> Answer {
    if let Answer::Jobs(jobs) = &mut answer {
        jobs.sort_by_key(|report| report.job);
        jobs.dedup_by(|later, earlier| {
            let is_same = later.job == earlier.job;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
    }
    answer
}
