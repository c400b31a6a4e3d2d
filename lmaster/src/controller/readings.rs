//! Draw of nodes: the newest readings are recorded for the core, and all samples go to the table of readings. The
//! value of a shared meter is divided over its nodes by their believed draws, and gives their readings. A node's own
//! meter then only gives its believed draw.

use limo_journal::Batch;
use limo_model::{Drawn, NodeId, Power, Span, Time};
use limo_proto::{Answer, ReadingsQuery, Sample};

use super::liveness::Liveness;
use super::lookup::Lookup;
use super::queries::Serve;
use super::tx::Tx;
use super::{Controller, Effect, PeerId};
use crate::database::Database;
use crate::readings::Rows;

/// Most intervals in one answer: a month of minutes, which take about 4 MB.
const READINGS_LIMIT: u32 = 50_000;

/// Energy of a node, or of the cluster (an empty name).
#[derive(Debug)]
struct ReadingsLookup {
    node: String,
    range: (Time, Time),
    emulated: bool,
}

impl Lookup for ReadingsLookup {
    type Found = Vec<Drawn>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.readings(&self.node, self.range, READINGS_LIMIT + 1).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, intervals: Self::Found) {
        controller.readings_found(peer, self.emulated, (&self.node, self.range), intervals);
    }
}

impl Serve for ReadingsQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let Self { node, from, until } = self;
        controller.readings(peer, node, (from, until));
    }
}

impl Controller {
    /// Handles a value or a failure of a shared meter.
    pub(super) fn metered(&mut self, index: usize, shown: Result<Power, String>) {
        let now = self.tx.now;
        let Some(draw) = self.tx.metering.shown(index, shown, now).filter(|_| self.tx.commits.is_open()) else {
            return;
        };
        for (node, part) in self.tx.metering.divided(index, draw, &self.tx.core, now) {
            self.keep_reading(node, &Sample::once(part));
        }
        if let Some((nodes, source)) = self.tx.metering.held_is_gone(index, draw, &self.tx.core, now) {
            for node in nodes {
                Liveness::release_draw(&mut self.tx, node, Vec::new(), &source);
            }
        }
    }

    /// Handles a value of a node's own meter.
    pub(super) fn shown(&mut self, node: NodeId, sample: &Sample) {
        let tx = &mut self.tx;
        // A node that falls asleep no longer has its earlier draw.
        let is_awake = tx.core.node(node).is_some_and(limo_sched::Node::is_awake);
        if is_awake && tx.metering.own_shown(node, sample.draw, &tx.core, tx.now) {
            self.keep_reading(node, sample);
        }
    }

    /// Keeps a node's draw for the table, and for the core. While a job has begun on this node but not on all of its
    /// nodes, the reading already includes the job and the core adds its estimate: then the core gets no reading.
    fn keep_reading(&mut self, node: NodeId, sample: &Sample) {
        let counts = !self.has_begun_early(node);
        let tx = &mut self.tx;
        // On a full disk, the remaining space is reserved for the ends of jobs.
        if tx.commits.trouble().is_none()
            && let Some(node) = tx.core.node(node)
        {
            tx.metering.take_sample(node, sample, (tx.now, tx.settings.readings_every), counts);
        }
    }
}

impl Tx {
    pub(super) fn forget_reading(&mut self, node: NodeId) {
        self.metering.forget(node, self.core.node(node));
    }

    /// Adds the believed draw up to now, before it changes.
    pub(super) fn draw_goes_on(&mut self) {
        let draw = (!self.core.nodes().is_empty() && self.commits.is_open()).then(|| self.core.sums().drawn());
        self.metering.pass(self.now, draw.map(Power::at_least_zero), &self.core);
        if self.commits.trouble().is_some() {
            self.metering.drop_rows();
        }
    }

    /// Commits rows and texts without a round, because no event happened.
    pub(super) fn commit_rows(&mut self) {
        let Rows { readings, states, forget: forget_readings } = self.metering.take_rows(self.now);
        let batch = Batch { readings, states, forget_readings, ..self.commits.close_texts() };
        self.effects.push(Effect::Commit(Box::new(batch)));
    }
}

impl Controller {
    /// Requests the energy of a node, or of the cluster.
    fn readings(&mut self, peer: PeerId, node: Option<String>, (from, until): (Time, Time)) {
        let emulated = |node: &limo_sched::Node| node.spec().meter == limo_model::Meter::Emulated;
        let emulated = match &node {
            None => self.tx.core.nodes().iter().any(emulated),
            Some(name) => match self.node(name) {
                Ok(id) => self.tx.core.node(id).is_some_and(emulated),
                Err(refused) => return self.refuse(peer, refused.to_string(), None),
            },
        };
        let node = node.unwrap_or_default();
        self.ask(peer, ReadingsLookup { node, range: (from, until), emulated });
    }

    /// Adds intervals that are not on disk, so that the time up to now is complete.
    fn readings_found(
        &mut self,
        peer: PeerId,
        emulated: bool,
        (node, (from, until)): (&str, (Time, Time)),
        mut intervals: Vec<Drawn>,
    ) {
        let newer = self.tx.metering.unwritten(node).into_iter().filter(|drawn| from <= drawn.at && drawn.at < until);
        newer.for_each(|drawn| add(&mut intervals, drawn));
        if intervals.len() > READINGS_LIMIT as usize {
            let reason = format!("these are more than {READINGS_LIMIT} intervals");
            return self.refuse(peer, reason, Some("ask for less time with --from and --until"));
        }
        self.say(peer, Answer::Readings { emulated, intervals });
    }
}

/// Adds a later interval, or the remaining part of the last one.
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
