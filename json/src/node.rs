//! A node as JSON.

use limo_model::{Containment, Currency, Meter, Time, UnitKind};
use limo_proto::{NodeDetail, NodeReport, UnitReport};
use serde::Serialize;

/// All nodes.
#[derive(Debug, Serialize)]
pub struct NodesJson {
    schema: u32,
    nodes: Vec<NodeJson>,
}

impl From<&[NodeReport]> for NodesJson {
    fn from(nodes: &[NodeReport]) -> Self {
        Self { schema: super::SCHEMA, nodes: nodes.iter().map(NodeJson::from).collect() }
    }
}

/// A node with its own report about its hardware.
#[derive(Debug, Serialize)]
pub struct NodeDetailJson {
    schema: u32,
    node: NodeJson,
    /// Report in lines for people; `null` if the node has not sent one.
    probe: Option<String>,
    /// Reason why `probe` is `null`.
    probe_error: Option<String>,
}

impl From<&NodeDetail> for NodeDetailJson {
    fn from(detail: &NodeDetail) -> Self {
        Self {
            schema: super::SCHEMA,
            node: NodeJson::from(&detail.report),
            probe: detail.probe.as_ref().ok().cloned(),
            probe_error: detail.probe.as_ref().err().cloned(),
        }
    }
}

/// Node with its units.
#[derive(Debug, Serialize)]
pub struct NodeJson {
    name: String,
    state: &'static str,
    /// Its group of nodes; `null` if it is in none.
    group: Option<String>,
    /// Reason of the drain, and its operator.
    reason: Option<String>,
    draw_w: f64,
    idle_w: f64,
    /// True if `draw_w` is a reading, false if it is an estimate.
    measured: bool,
    /// True if the watts are modelled by emulated hardware.
    emulated: bool,
    memory_bytes: u64,
    memory_used_bytes: u64,
    energy_j: f64,
    /// `null` if no price was ever known.
    currency: Currency,
    cost: Option<f64>,
    units: Vec<UnitJson>,
    /// True if the node is connected to the master. A drained node may be disconnected.
    connected: bool,
    unreachable_since_unix_ms: Option<i64>,
    /// Part of `draw_w` that jobs of the lost node may still draw.
    held_w: f64,
    /// `falling asleep`, `asleep` or `waking`; `null` if the node is awake.
    sleep: Option<&'static str>,
    /// Part of `energy_j` that the node used while asleep, falling asleep or waking.
    asleep_energy_j: f64,
    switching_energy_j: f64,
    /// `null` while the node is not connected.
    containment: Option<ContainmentJson>,
}

/// The hold of a node on the processes of its jobs.
#[derive(Debug, Serialize)]
pub struct ContainmentJson {
    /// True if each job has a control group; otherwise it can leave processes behind.
    groups: bool,
    /// True if the requested memory and cores, and the number of processes, are enforced.
    memory: bool,
    cores: bool,
    processes: bool,
}

/// Unit of a node.
#[derive(Debug, Serialize)]
pub struct UnitJson {
    name: String,
    hardware: String,
    /// `cpu` or `accelerator`.
    kind: &'static str,
    cores: u32,
    cores_used: u32,
    /// Cap in force.
    cap_w: Option<f64>,
    /// Lowest and highest cap of the unit, if it can be capped.
    least_cap_w: Option<f64>,
    most_cap_w: Option<f64>,
    jobs: Vec<u64>,
}

impl From<&NodeReport> for NodeJson {
    fn from(node: &NodeReport) -> Self {
        Self {
            name: node.name.clone(),
            state: node.state.name(),
            group: node.group.clone(),
            reason: node.reason.clone(),
            draw_w: node.draw.watts(),
            idle_w: node.idle.watts(),
            measured: node.measured,
            emulated: node.meter == Meter::Emulated,
            memory_bytes: node.memory.bytes(),
            memory_used_bytes: node.memory_used.bytes(),
            energy_j: node.energy.joules(),
            currency: Currency::agreed(),
            cost: node.cost.map(|cost| cost.whole()),
            units: node.units.iter().map(UnitJson::from).collect(),
            connected: node.connected,
            unreachable_since_unix_ms: node.unreachable_since.map(Time::unix_ms),
            held_w: node.held.watts(),
            sleep: node.sleep.map(|sleep| sleep.name()),
            asleep_energy_j: node.asleep_energy.joules(),
            switching_energy_j: node.switching_energy.joules(),
            containment: node.containment.map(|Containment { groups, memory, cpu, processes }| ContainmentJson {
                groups,
                memory,
                cores: cpu,
                processes,
            }),
        }
    }
}

impl From<&UnitReport> for UnitJson {
    fn from(unit: &UnitReport) -> Self {
        Self {
            name: unit.name.clone(),
            hardware: unit.hardware.clone(),
            kind: match unit.kind {
                UnitKind::Cpu => "cpu",
                UnitKind::Accelerator => "accelerator",
            },
            cores: unit.cores,
            cores_used: unit.cores_used,
            cap_w: unit.cap.map(|cap| cap.watts()),
            least_cap_w: unit.caps.map(|(low, _)| low.watts()),
            most_cap_w: unit.caps.map(|(_, high)| high.watts()),
            jobs: unit.jobs.iter().map(|job| job.0).collect(),
        }
    }
}
