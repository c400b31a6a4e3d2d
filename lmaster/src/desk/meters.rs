//! Meters that serve several nodes: what one shows is divided over its nodes by what each is believed to draw, and is their
//! reading. A node with a meter of its own is believed what that shows; while the shared meter works, that is all it is for.

use limo_model::{Meter, NodeId, NodeSpec, Power, Span, Time};
use limo_proto::{MeterReport, Sample};

use super::Desk;
use crate::meters::{Serves, Shared, split};

/// A meter, and what is known of it.
#[derive(Debug)]
pub(super) struct Metered {
    source: String,
    serves: Serves,
    /// What it showed last, and when.
    last: Option<(Time, Power)>,
    /// Why it shows nothing.
    failing: Option<String>,
    /// Since when it shows that what is held for lost nodes is gone.
    gone_since: Option<Time>,
}

/// A job may draw nothing for a moment: only after this time what is held for it is gone.
const GONE_FOR: Span = Span::from_secs(15);

/// What is left of it may be so small a part.
const HELD_PART: i64 = 10;

impl From<&Shared> for Metered {
    fn from(meter: &Shared) -> Self {
        Self { source: meter.source.clone(), serves: meter.serves.clone(), last: None, failing: None, gone_since: None }
    }
}

impl Desk {
    /// A meter shows something, or fails.
    pub(super) fn metered(&mut self, index: usize, shown: Result<Power, String>) {
        let now = self.now;
        let Some(meter) = self.meters.get_mut(index) else { return };
        match shown {
            Ok(draw) => {
                meter.last = Some((now, draw));
                if meter.failing.take().is_some() {
                    tracing::warn!(meter = meter.source, %draw, "the meter works again");
                }
                let serves = meter.serves.clone();
                if self.commits.is_open() {
                    self.divide(draw, &serves);
                    self.held_draw_seen(index, draw);
                }
            }
            Err(error) => {
                if meter.failing.replace(error.clone()).is_none() {
                    tracing::warn!(meter = meter.source, error, "the meter fails: its nodes are estimated");
                }
            }
        }
    }

    /// Nodes that are away still draw, as far as anybody knows, and the meter measures them, too.
    fn divide(&mut self, draw: Power, serves: &Serves) {
        let served = self.core.nodes().iter().filter(|node| serves.serves(&node.spec().name));
        let nodes: Vec<NodeId> = served.map(|node| node.id()).collect();
        let beliefs: Vec<Power> = nodes.iter().map(|node| self.belief(*node)).collect();
        for (node, part) in nodes.into_iter().zip(split(draw, &beliefs)) {
            self.keep_reading(node, &Sample::once(part));
        }
    }

    /// What its own meter shows, else what it is expected to draw. Never its part of last time: what that was off by would
    /// stay.
    fn belief(&self, node: NodeId) -> Power {
        let own = self.own_readings.get(&node).filter(|(at, _)| self.is_fresh(*at));
        own.map_or_else(|| self.core.node_estimate(node), |(_, draw)| *draw)
    }

    /// A node's own meter shows something. Returns whether that is its reading.
    pub(super) fn own_reading(&mut self, node: NodeId, draw: Power) -> bool {
        if self.meters.is_empty() {
            return true;
        }
        self.own_readings.insert(node, (self.now, draw));
        let Some(name) = self.core.node(node).map(|node| &node.spec().name) else { return false };
        !self.meters.iter().any(|meter| meter.serves.serves(name) && self.shown(meter).is_some())
    }

    /// Whether the meter shows for some time that what is held for lost nodes is gone. It can only tell where all its other
    /// nodes are measured by meters of their own: what is merely estimated of them may be wrong by as much.
    fn held_draw_seen(&mut self, index: usize, draw: Power) {
        let Some(meter) = self.meters.get(index) else { return };
        let served: Vec<&limo_sched::Node> =
            self.core.known_nodes().filter(|node| meter.serves.serves(&node.spec().name)).collect();
        let is_held = |node: &&&limo_sched::Node| node.held_draw() > Power::ZERO;
        let held: Power = served.iter().filter(is_held).map(|node| node.held_draw()).sum();
        if held.is_zero() {
            return;
        }
        let own = |node: &&limo_sched::Node| {
            let reading = self.own_readings.get(&node.id()).filter(|(at, _)| self.is_fresh(*at));
            reading.map(|(_, draw)| *draw)
        };
        let others: Option<Power> = served.iter().filter(|node| !is_held(node)).map(own).sum();
        let without: Power =
            served.iter().filter(is_held).map(|node| self.core.node_estimate(node.id()) - node.held_draw()).sum();
        let is_gone = others.is_some_and(|others| draw - others <= without + held.scaled(1, HELD_PART));
        let nodes: Vec<NodeId> = served.iter().filter(is_held).map(|node| node.id()).collect();
        let (now, source) = (self.now, meter.source.clone());
        let Some(meter) = self.meters.get_mut(index) else { return };
        let since = if is_gone { *meter.gone_since.get_or_insert(now) } else { return meter.gone_since = None };
        if now - since >= GONE_FOR {
            meter.gone_since = None;
            for node in nodes {
                self.release_draw(node, Vec::new(), &source);
            }
        }
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.now - at <= self.core.settings().options.stale_after
    }

    /// What a meter shows, as long as that counts.
    fn shown(&self, meter: &Metered) -> Option<Power> {
        let (at, draw) = meter.last.filter(|_| meter.failing.is_none())?;
        self.is_fresh(at).then_some(draw)
    }

    /// A node without a meter of its own may be served by one here.
    pub(super) fn with_meter(&self, spec: NodeSpec) -> NodeSpec {
        let served = || self.meters.iter().any(|meter| meter.serves.serves(&spec.name));
        let meter = if spec.meter == Meter::None && served() { Meter::Shared } else { spec.meter };
        NodeSpec { meter, ..spec }
    }

    pub(super) fn meter_reports(&self) -> Vec<MeterReport> {
        let report = |meter: &Metered| MeterReport {
            source: meter.source.clone(),
            serves: match &meter.serves {
                Serves::All => None,
                Serves::Nodes(nodes) => Some(nodes.clone()),
            },
            draw: self.shown(meter),
            failing: meter.failing.clone(),
        };
        self.meters.iter().map(report).collect()
    }
}
