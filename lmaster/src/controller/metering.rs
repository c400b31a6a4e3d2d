//! What was measured and is not recorded: the newest reading of each node, the meters that serve several nodes, and the
//! intervals of what was drawn. Knows which node is measured by what; records nothing itself.

use std::collections::{BTreeMap, HashMap};

use limo_journal::ReadingRow;
use limo_model::{Drawn, Meter, NodeId, NodeSpec, Power, Span, Time};
use limo_proto::{MeterReport, Sample};
use limo_sched::{Core, Node};

use super::Settings;
use crate::meters::{Serves, Shared, split};
use crate::readings::Ledger;

/// A job may draw nothing for a moment: only after this time what is held for it is gone.
const GONE_FOR: Span = Span::from_secs(15);

/// What is left of it may be so small a part.
const HELD_PART: i64 = 10;

/// A meter that serves several nodes, and what is known of it.
#[derive(Debug)]
struct SharedMeter {
    source: String,
    serves: Serves,
    /// Its newest value, with the time.
    last: Option<(Time, Power)>,
    /// Why it shows nothing.
    failing: Option<String>,
    /// Since when it shows that what is held for lost nodes is gone.
    gone_since: Option<Time>,
}

impl From<&Shared> for SharedMeter {
    fn from(meter: &Shared) -> Self {
        Self { source: meter.source.clone(), serves: meter.serves.clone(), last: None, failing: None, gone_since: None }
    }
}

impl SharedMeter {
    /// Returns its newest value, unless it is too old.
    fn shown(&self, core: &Core, now: Time) -> Option<Power> {
        let (at, draw) = self.last.filter(|_| self.failing.is_none())?;
        is_fresh(core, at, now).then_some(draw)
    }
}

fn is_fresh(core: &Core, at: Time, now: Time) -> bool {
    now - at <= core.settings().options.stale_after
}

/// Everything that meters showed.
#[derive(Debug)]
pub(super) struct Metering {
    meters: Vec<SharedMeter>,
    /// Newest values of nodes' own meters, while there are meters that serve several.
    own: HashMap<NodeId, (Time, Power)>,
    ledger: Ledger,
    /// The newest reading of each node since the last that were recorded.
    readings: BTreeMap<NodeId, Power>,
    /// When they are to be recorded, if nothing else is before.
    due: Option<Time>,
}

impl Metering {
    pub(super) fn new(settings: &Settings, now: Time) -> Self {
        Self {
            meters: settings.meters.iter().map(SharedMeter::from).collect(),
            own: HashMap::new(),
            ledger: Ledger::new(now, settings.kept, settings.options.stale_after),
            readings: BTreeMap::new(),
            due: None,
        }
    }

    pub(super) fn configure(&mut self, settings: &Settings) {
        self.ledger.configure(settings.kept, settings.options.stale_after);
    }

    /// A shared meter shows something, or fails. Returns whether it shows something.
    pub(super) fn shown(&mut self, index: usize, shown: Result<Power, String>, now: Time) -> Option<Power> {
        let meter = self.meters.get_mut(index)?;
        match shown {
            Ok(draw) => {
                meter.last = Some((now, draw));
                if meter.failing.take().is_some() {
                    tracing::warn!(meter = meter.source, %draw, "the meter works again");
                }
                Some(draw)
            }
            Err(error) => {
                if meter.failing.replace(error.clone()).is_none() {
                    tracing::warn!(meter = meter.source, error, "the meter fails: its nodes are estimated");
                }
                None
            }
        }
    }

    /// Divides what a shared meter shows. Nodes that are away still draw, as far as anybody knows, and the meter measures them,
    /// too.
    pub(super) fn divided(&self, index: usize, draw: Power, core: &Core, now: Time) -> Vec<(NodeId, Power)> {
        let Some(meter) = self.meters.get(index) else { return Vec::new() };
        let served = core.nodes().iter().filter(|node| meter.serves.serves(&node.spec().name));
        let nodes: Vec<NodeId> = served.map(Node::id).collect();
        let beliefs: Vec<Power> = nodes.iter().map(|node| self.belief(*node, core, now)).collect();
        nodes.into_iter().zip(split(draw, &beliefs)).collect()
    }

    /// What its own meter shows, else what it is expected to draw. Never its part of last time: what that was off by would
    /// stay.
    fn belief(&self, node: NodeId, core: &Core, now: Time) -> Power {
        self.own_of(node, core, now).unwrap_or_else(|| core.node_estimate(node))
    }

    fn own_of(&self, node: NodeId, core: &Core, now: Time) -> Option<Power> {
        self.own.get(&node).filter(|(at, _)| is_fresh(core, *at, now)).map(|(_, draw)| *draw)
    }

    /// A node's own meter shows something. Returns whether that is its reading.
    pub(super) fn own_shown(&mut self, node: NodeId, draw: Power, core: &Core, now: Time) -> bool {
        if self.meters.is_empty() {
            return true;
        }
        self.own.insert(node, (now, draw));
        let Some(name) = core.node(node).map(|node| &node.spec().name) else { return false };
        !self.meters.iter().any(|meter| meter.serves.serves(name) && meter.shown(core, now).is_some())
    }

    /// The nodes for which draw is held that a meter has shown for some time to be gone, and the source of the meter. It can
    /// only tell if all its other nodes are measured by meters of their own: what is merely estimated of them may be wrong
    /// by as much.
    pub(super) fn held_is_gone(
        &mut self,
        index: usize,
        draw: Power,
        core: &Core,
        now: Time,
    ) -> Option<(Vec<NodeId>, String)> {
        let meter = self.meters.get(index)?;
        let served: Vec<&Node> = core.known_nodes().filter(|node| meter.serves.serves(&node.spec().name)).collect();
        let is_held = |node: &&&Node| node.held_draw() > Power::ZERO;
        let held: Power = served.iter().filter(is_held).map(|node| node.held_draw()).sum();
        if held.is_zero() {
            return None;
        }
        let own = |node: &&Node| self.own_of(node.id(), core, now);
        let others: Option<Power> = served.iter().filter(|node| !is_held(node)).map(own).sum();
        let without: Power =
            served.iter().filter(is_held).map(|node| core.node_estimate(node.id()) - node.held_draw()).sum();
        let is_gone = others.is_some_and(|others| draw - others <= without + held.scaled(1, HELD_PART));
        let nodes: Vec<NodeId> = served.iter().filter(is_held).map(|node| node.id()).collect();
        let meter = self.meters.get_mut(index)?;
        if !is_gone {
            meter.gone_since = None;
            return None;
        }
        let since = *meter.gone_since.get_or_insert(now);
        if now - since < GONE_FOR {
            return None;
        }
        meter.gone_since = None;
        Some((nodes, meter.source.clone()))
    }

    /// A node without a meter of its own may be served by a shared one.
    pub(super) fn with_meter(&self, spec: NodeSpec) -> NodeSpec {
        let served = || self.meters.iter().any(|meter| meter.serves.serves(&spec.name));
        let meter = if spec.meter == Meter::None && served() { Meter::Shared } else { spec.meter };
        NodeSpec { meter, ..spec }
    }

    pub(super) fn reports(&self, core: &Core, now: Time) -> Vec<MeterReport> {
        let report = |meter: &SharedMeter| MeterReport {
            source: meter.source.clone(),
            serves: match &meter.serves {
                Serves::All => None,
                Serves::Nodes(nodes) => Some(nodes.clone()),
            },
            draw: meter.shown(core, now),
            failing: meter.failing.clone(),
        };
        self.meters.iter().map(report).collect()
    }

    /// Takes what counts as the draw of a node, to be recorded within `every`.
    pub(super) fn take_sample(&mut self, node: &Node, sample: &Sample, (now, every): (Time, Span)) {
        self.readings.insert(node.id(), sample.draw);
        self.due.get_or_insert(now + every);
        self.ledger.sample(&node.spec().name, now, sample);
    }

    /// A node is not heard of any more.
    pub(super) fn forget(&mut self, id: NodeId, node: Option<&Node>) {
        self.readings.remove(&id);
        self.own.remove(&id);
        if let Some(node) = node {
            self.ledger.interrupt(&node.spec().name);
        }
    }

    /// The readings that are to be recorded now.
    pub(super) fn take_readings(&mut self) -> Vec<(NodeId, Power)> {
        self.due = None;
        std::mem::take(&mut self.readings).into_iter().collect()
    }

    /// When readings are to be recorded, if nothing else is before.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// The state goes back to what is on disk: nodes measure anew. Intervals are kept, they are of what was seen.
    pub(super) fn roll_back(&mut self) {
        self.readings.clear();
        self.own.clear();
        self.due = None;
    }

    /// The believed draw of the cluster was `draw` until `now`; `None` if there is nothing that could draw.
    pub(super) fn pass(&mut self, now: Time, draw: Option<Power>) {
        self.ledger.pass(now, draw);
    }

    /// Rows are not kept for a disk that has no room for them.
    pub(super) fn drop_rows(&mut self) {
        self.ledger.drop_rows();
    }

    /// When rows are to be written, if nothing else is before.
    pub(super) fn rows_due(&self) -> Option<Time> {
        self.ledger.due()
    }

    pub(super) fn rows_are_due(&self, now: Time) -> bool {
        self.ledger.has_rows() && self.rows_due().is_some_and(|due| due <= now)
    }

    /// The rows that are to be written, and before what time older ones are forgotten.
    pub(super) fn take_rows(&mut self, now: Time) -> (Vec<ReadingRow>, Option<Time>) {
        self.ledger.take(now)
    }

    /// Intervals of a node that are not on disk, or of the cluster (an empty name).
    pub(super) fn unwritten(&self, node: &str) -> Vec<Drawn> {
        self.ledger.unwritten(node)
    }

    pub(super) fn follow_clock(&mut self, offset: Span) {
        self.ledger.follow_clock(offset);
    }

    /// The process ends: so do intervals under way.
    pub(super) fn end(&mut self) {
        self.ledger.end_all();
    }
}
