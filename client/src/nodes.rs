//! Table of the nodes, for `lq nodes` and `lconf node list`.

use std::collections::BTreeMap;

use limo_model::{Containment, Memory, Meter, Power, host_list};
use limo_proto::{NodeReport, UnitReport};

use crate::table::{Align, Table, marked, or_dash, plain};

/// Renders a line for each unit. Columns of the node have values only on the line of its first unit.
pub fn node_table(nodes: &[NodeReport]) -> String {
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("GROUP", Align::Left),
        ("DRAW", Align::Figure),
        ("IDLE", Align::Figure),
        ("MEMORY", Align::Right),
        ("UNIT", Align::Left),
        ("HARDWARE", Align::Left),
        ("CORES", Align::Right),
        ("CAP", Align::Figure),
        ("JOBS", Align::Left),
    ]);
    for node in nodes {
        let mut own = own_cells(node).into_iter();
        for unit in &node.units {
            let own: Vec<String> = (0..6).map(|_| own.next().unwrap_or_default()).collect();
            table.row(own.into_iter().chain(unit_cells(unit)));
        }
    }
    let reasons = nodes.iter().filter_map(|node| {
        let reason = node.reason.as_ref()?;
        Some(format!("{}: {}\n", plain(&node.name), plain(reason)))
    });
    let held = nodes.iter().filter(|node| node.held > Power::ZERO).map(|node| {
        let (name, held) = (plain(&node.name), node.held);
        format!(
            "{name}: {held} held for jobs that may still run there; if the node is dead, type: lconf node lost {name}\n"
        )
    });
    let reasons: String = reasons.chain(held).chain(containments(nodes)).collect();
    let gap = if reasons.is_empty() { "" } else { "\n" };
    format!("{}{gap}{reasons}", table.render())
}

/// Names the nodes whose hold on the processes of jobs is not complete.
fn containments(nodes: &[NodeReport]) -> impl Iterator<Item = String> {
    let mut by_kind: BTreeMap<Containment, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let Some(containment) = node.containment.filter(|containment| *containment != Containment::FULL) {
            by_kind.entry(containment).or_default().push(&node.name);
        }
    }
    by_kind.into_iter().map(|(kind, names)| format!("{}: {kind}\n", plain(&host_list(names))))
}

fn own_cells(node: &NodeReport) -> [String; 6] {
    let draw = marked(node.draw, node.meter == Meter::Emulated);
    let draw = if node.measured { draw } else { format!("{draw}, estimated") };
    let memory = if node.memory_used > Memory::ZERO {
        format!("{} of {}", node.memory_used, node.memory)
    } else {
        node.memory.to_string()
    };
    let group = or_dash(node.group.as_ref());
    [node.name.clone(), node.state_in_words(), group, draw, node.idle.to_string(), memory]
}

fn unit_cells(unit: &UnitReport) -> [String; 5] {
    let jobs: Vec<String> = unit.jobs.iter().map(ToString::to_string).collect();
    let cores = format!("{}/{}", unit.cores_used, unit.cores);
    let cap = unit.cap.map_or_else(|| "-".into(), |cap| cap.to_string());
    let jobs = if jobs.is_empty() { "-".into() } else { jobs.join(",") };
    [unit.name.clone(), unit.hardware.clone(), cores, cap, jobs]
}
