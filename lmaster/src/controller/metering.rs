//! Measurements that are not recorded yet: the newest reading of each node, the meters that serve several nodes, and
//! the intervals of energy. Has the meter of each node, but records nothing.

use std::collections::{BTreeMap, HashMap};

use limo_model::{Drawn, Meter, NodeId, NodeSpec, Power, Span, Time};
use limo_proto::{MeterReport, Sample};
use limo_sched::{Core, Node};

use super::Settings;
use crate::meters::{Serves, Shared, split};
use crate::readings::{Ledger, Rows};

/// Time after which the held draw counts as gone, because a job may draw nothing for a moment.
const GONE_FOR: Span = Span::from_secs(15);

/// The held draw counts as gone if at most one part in this many remains.
const HELD_PART: i64 = 10;

/// A meter that serves several nodes, with its state.
#[derive(Debug)]
struct SharedMeter {
    source: String,
    serves: Serves,
    /// Newest value, with its time.
    last: Option<(Time, Power)>,
    /// Reason why it has no value.
    failing: Option<String>,
    /// Time since which it shows that the held draw of lost nodes has ended.
    gone_since: Option<Time>,
}

impl From<&Shared> for SharedMeter {
    fn from(meter: &Shared) -> Self {
        Self { source: meter.source.clone(), serves: meter.serves.clone(), last: None, failing: None, gone_since: None }
    }
}

impl SharedMeter {
    /// Returns its newest value, unless that is too old.
    fn shown(&self, core: &Core, now: Time) -> Option<Power> {
        let (at, draw) = self.last.filter(|_| self.failing.is_none())?;
        is_fresh(core, at, now).then_some(draw)
    }
}

fn is_fresh(core: &Core, at: Time, now: Time) -> bool {
    now - at <= core.settings().options.stale_after
}

/// All measured values.
#[derive(Debug)]
pub(super) struct Metering {
    meters: Vec<SharedMeter>,
    /// Newest values of nodes' own meters, if shared meters exist.
    own: HashMap<NodeId, (Time, Power)>,
    ledger: Ledger,
    /// The newest unrecorded reading of each node.
    readings: BTreeMap<NodeId, Power>,
    /// Time at which they must be recorded, if nothing else is recorded before.
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

    /// Handles a value or a failure of a shared meter. Returns true for a value.
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

    /// Divides the value of a shared meter. Unreachable nodes are included, because they probably still draw power.
    pub(super) fn divided(&self, index: usize, draw: Power, core: &Core, now: Time) -> Vec<(NodeId, Power)> {
        let Some(meter) = self.meters.get(index) else { return Vec::new() };
        let served = core.nodes().iter().filter(|node| meter.serves.serves(&node.spec().name));
        let nodes: Vec<NodeId> = served.map(Node::id).collect();
        let beliefs: Vec<Power> = nodes.iter().map(|node| self.belief(*node, core, now)).collect();
        nodes.into_iter().zip(split(draw, &beliefs)).collect()
    }

    /// Returns the value of the node's own meter, or else its expected draw. The node's part of the last division is
    /// not used, because errors of it would persist.
    fn belief(&self, node: NodeId, core: &Core, now: Time) -> Power {
        self.own_of(node, core, now).unwrap_or_else(|| core.node_estimate(node))
    }

    fn own_of(&self, node: NodeId, core: &Core, now: Time) -> Option<Power> {
        self.own.get(&node).filter(|(at, _)| is_fresh(core, *at, now)).map(|(_, draw)| *draw)
    }

    /// Handles a value of a node's own meter. Returns true if it counts as the node's reading.
    pub(super) fn own_shown(&mut self, node: NodeId, draw: Power, core: &Core, now: Time) -> bool {
        if self.meters.is_empty() {
            return true;
        }
        self.own.insert(node, (now, draw));
        let Some(name) = core.node(node).map(|node| &node.spec().name) else { return false };
        !self.meters.iter().any(|meter| meter.serves.serves(name) && meter.shown(core, now).is_some())
    }

    /// Returns the nodes whose held draw has ended according to a shared meter, with the source of the meter. This needs
    /// own meters on all its other nodes, because their estimates could be wrong by as much.
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

    /// Marks a node without its own meter as served by a shared one, if it is.
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

    /// Records a sample of a node. If it counts as the draw of the node, it is committed within `every`.
    pub(super) fn take_sample(&mut self, node: &Node, sample: &Sample, (now, every): (Time, Span), counts: bool) {
        if counts {
            self.readings.insert(node.id(), sample.draw);
            self.due.get_or_insert(now + every);
        }
        self.ledger.sample((node.id(), &node.spec().name), now, sample);
    }

    /// Handles a node that no longer reports.
    pub(super) fn forget(&mut self, id: NodeId, node: Option<&Node>) {
        self.readings.remove(&id);
        self.own.remove(&id);
        if let Some(node) = node {
            self.ledger.interrupt(&node.spec().name);
        }
    }

    /// Takes the readings to record now.
    pub(super) fn take_readings(&mut self) -> Vec<(NodeId, Power)> {
        self.due = None;
        std::mem::take(&mut self.readings).into_iter().collect()
    }

    /// Returns the time to record readings, if nothing else is recorded before.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Goes back to the state on disk; nodes measure again. Intervals are kept, because they are real measurements.
    pub(super) fn roll_back(&mut self) {
        self.readings.clear();
        self.own.clear();
        self.due = None;
    }

    /// Adds the believed draw of the cluster until `now`; `None` if nothing could draw. Adds the time to the states of the
    /// nodes.
    pub(super) fn pass(&mut self, now: Time, draw: Option<Power>, core: &Core) {
        self.ledger.pass(now, draw);
        if self.ledger.wants_states(now) {
            let name = |id: NodeId| core.node(id).map(|node| node.spec().name.clone()).unwrap_or_default();
            self.ledger.look(now, &core.state().activities(), name);
        }
    }

    /// Drops rows that a full disk cannot store.
    pub(super) fn drop_rows(&mut self) {
        self.ledger.drop_rows();
    }

    /// Returns the time to write rows, if nothing else is written before.
    pub(super) fn rows_due(&self) -> Option<Time> {
        self.ledger.due()
    }

    pub(super) fn rows_are_due(&self, now: Time) -> bool {
        self.ledger.has_rows() && self.rows_due().is_some_and(|due| due <= now)
    }

    /// Takes the rows to write.
    pub(super) fn take_rows(&mut self, now: Time) -> Rows {
        self.ledger.take(now)
    }

    /// Returns the intervals of a node, or of the cluster (empty name), that are not on disk.
    pub(super) fn unwritten(&self, node: &str) -> Vec<Drawn> {
        self.ledger.unwritten(node)
    }

    pub(super) fn follow_clock(&mut self, offset: Span) {
        self.ledger.follow_clock(offset);
    }

    /// Closes open intervals at the end of the process.
    pub(super) fn end(&mut self) {
        self.ledger.end_all();
    }
}
