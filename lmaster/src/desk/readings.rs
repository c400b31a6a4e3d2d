//! What nodes measure: the newest of it for the core, all of it for the table of what was drawn.

use limo_journal::Batch;
use limo_model::{Drawn, NodeId, Power, Span, Time};
use limo_proto::{Answer, Sample};
use limo_sched::Event;

use super::clients::Asked;
use super::commits::Phase;
use super::{Desk, Effect, PeerId, Question};

/// Most intervals in one answer: a month of minutes, and some 4 MB.
pub const READINGS_LIMIT: u32 = 50_000;

impl Desk {
    /// A node's own meter.
    pub(super) fn reading(&mut self, node: NodeId, sample: &Sample) {
        // On the way to sleep it does not draw what it did.
        let is_awake = self.core.node(node).is_some_and(limo_sched::Node::is_awake);
        if is_awake && self.own_reading(node, sample.draw) {
            self.keep_reading(node, sample);
        }
    }

    /// What counts as the draw of a node.
    pub(super) fn keep_reading(&mut self, node: NodeId, sample: &Sample) {
        // The room that is left on a full disk belongs to the ends of jobs.
        if self.commits.trouble.is_some() {
            return;
        }
        self.commits.readings.insert(node, sample.draw);
        self.commits.readings_due.get_or_insert(self.now + self.settings.readings_every);
        if let Some(node) = self.core.node(node) {
            self.ledger.sample(&node.spec().name, self.now, sample);
        }
    }

    pub(super) fn forget_reading(&mut self, node: NodeId) {
        self.commits.readings.remove(&node);
        self.own_readings.remove(&node);
        if let Some(node) = self.core.node(node) {
            self.ledger.interrupt(&node.spec().name);
        }
    }

    pub(super) fn record_readings(&mut self) {
        self.commits.readings_due = None;
        let draws: Vec<_> = std::mem::take(&mut self.commits.readings).into_iter().collect();
        if !draws.is_empty()
            && let Err(refused) = self.apply(Event::Readings { draws })
        {
            tracing::error!(%refused, "readings were refused");
        }
    }

    /// Time has passed, and the believed draw was what it is.
    pub(super) fn draw_goes_on(&mut self) {
        let draw = (!self.core.nodes().is_empty() && self.commits.is_open()).then(|| self.core.sums().drawn());
        self.ledger.pass(self.now, draw.map(Power::at_least_zero));
        if self.commits.trouble.is_some() {
            self.ledger.drop_rows();
        }
    }

    /// When the table is to be written, if nothing else is before.
    pub(super) fn rows_due(&self) -> Option<Time> {
        self.ledger.due()
    }

    pub(super) fn rows_are_due(&self) -> bool {
        self.ledger.has_rows() && self.rows_due().is_some_and(|due| due <= self.now)
    }

    /// Rows and texts by themselves: nothing has happened, so there is no round.
    pub(super) fn commit_rows(&mut self) {
        let (readings, forget_readings) = self.ledger.take(self.now);
        let kept = self.commits.open.take_texts();
        let batch = Batch { generation: self.commits.generation, readings, forget_readings, kept, ..Batch::default() };
        self.commits.phase = Phase::Committing(Vec::new());
        self.effects.push(Effect::Commit(Box::new(batch)));
    }

    /// What a node drew, or the cluster.
    pub(super) fn readings(&mut self, peer: PeerId, node: Option<String>, (from, until): (Time, Time)) {
        let emulated = |node: &limo_sched::Node| node.spec().meter == limo_model::Meter::Emulated;
        let emulated = match &node {
            None => self.core.nodes().iter().any(emulated),
            Some(name) => match self.node(name) {
                Ok(id) => self.core.node(id).is_some_and(emulated),
                Err(refused) => return self.refuse(peer, refused.to_string(), None),
            },
        };
        let node = node.unwrap_or_default();
        let question = Question::Readings(node.clone(), (from, until));
        self.ask(peer, question, Asked::Readings { peer, emulated, node, range: (from, until) });
    }

    /// To those on disk come those that are not, so that no time before now is missing.
    pub(super) fn readings_found(
        &mut self,
        peer: PeerId,
        emulated: bool,
        (node, (from, until)): (&str, (Time, Time)),
        mut intervals: Vec<Drawn>,
    ) {
        let newer = self.ledger.unwritten(node).into_iter().filter(|drawn| from <= drawn.at && drawn.at < until);
        newer.for_each(|drawn| add(&mut intervals, drawn));
        if intervals.len() > READINGS_LIMIT as usize {
            let reason = format!("that are more than {READINGS_LIMIT} intervals");
            return self.refuse(peer, reason, Some("ask for less time with --from and --until"));
        }
        self.say(peer, Answer::Readings { emulated, intervals });
    }
}

/// An interval after the others, or the rest of the last of them.
fn add(intervals: &mut Vec<Drawn>, drawn: Drawn) {
    let Some(last) = intervals.last_mut().filter(|last| last.at == drawn.at) else { return intervals.push(drawn) };
    last.low = last.low.min(drawn.low);
    last.high = last.high.max(drawn.high);
    last.energy += drawn.energy;
    last.seen = last.seen + drawn.seen;
    last.looks += drawn.looks;
    if last.seen > Span::ZERO {
        last.mean = last.energy.over(last.seen);
    }
}
