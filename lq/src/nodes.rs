//! `lq nodes`: the nodes, what they draw and what runs on them.

use limo_client::json::{NodeJson, SCHEMA};
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, marked};
use limo_model::{Memory, Meter};
use limo_proto::{NodeReport, UnitReport};
use serde::Serialize;

#[derive(Serialize)]
struct NodesJson {
    schema: u32,
    nodes: Vec<NodeJson>,
}

/// # Errors
/// Where the master cannot be asked.
pub async fn run(json: bool, master: &Master) -> Result<u8, Failure> {
    let nodes = master.nodes().await?;
    if json {
        answer_json(&NodesJson { schema: SCHEMA, nodes: nodes.iter().map(NodeJson::from).collect() })?;
    } else {
        answer(&table(&nodes))?;
    }
    Ok(exit::DONE)
}

/// One line a unit; what is the node's stands on the line of its first unit.
fn table(nodes: &[NodeReport]) -> String {
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("DRAW", Align::Left),
        ("IDLE", Align::Right),
        ("MEMORY", Align::Right),
        ("UNIT", Align::Left),
        ("HARDWARE", Align::Left),
        ("CORES", Align::Right),
        ("JOBS", Align::Left),
    ]);
    for node in nodes {
        let mut own = own_cells(node).into_iter();
        for unit in &node.units {
            let own: Vec<String> = (0..5).map(|_| own.next().unwrap_or_default()).collect();
            table.row(own.into_iter().chain(unit_cells(unit)));
        }
    }
    let reasons =
        nodes.iter().filter_map(|node| node.reason.as_ref().map(|reason| format!("{}: {reason}\n", node.name)));
    let reasons: String = reasons.collect();
    let gap = if reasons.is_empty() { "" } else { "\n" };
    format!("{}{gap}{reasons}", table.render())
}

fn own_cells(node: &NodeReport) -> [String; 5] {
    let draw = marked(node.draw, node.meter == Meter::Emulated);
    let draw = if node.measured { draw } else { format!("{draw}, estimated") };
    let memory = if node.memory_used > Memory::ZERO {
        format!("{} of {}", node.memory_used, node.memory)
    } else {
        node.memory.to_string()
    };
    [node.name.clone(), node.state.name().to_owned(), draw, node.idle.to_string(), memory]
}

fn unit_cells(unit: &UnitReport) -> [String; 4] {
    let jobs: Vec<String> = unit.jobs.iter().map(ToString::to_string).collect();
    let cores = format!("{}/{}", unit.cores_used, unit.cores);
    [unit.name.clone(), unit.hardware.clone(), cores, if jobs.is_empty() { "-".into() } else { jobs.join(",") }]
}
