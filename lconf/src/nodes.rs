//! `lconf node`: the nodes, one of them with what it has, and taking them out of service and back.

use limo_client::json::{NodeDetailJson, NodesJson};
use limo_client::{Failure, Master, answer, answer_json, exit, node_table, plain};
use limo_proto::{NodeDetail, UnitReport};

use crate::args::NodeCommand;
use crate::service;

/// # Errors
/// Where the master cannot be asked, or does not know the node.
pub async fn run(command: NodeCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    match command {
        NodeCommand::List => {
            let nodes = master.nodes().await?;
            if json {
                answer_json(&NodesJson::from(nodes.as_slice()))?;
            } else {
                answer(&node_table(&nodes))?;
            }
        }
        NodeCommand::Show { name } => {
            let detail = master.node(name).await?;
            if json {
                answer_json(&NodeDetailJson::from(&detail))?;
            } else {
                answer(&in_words(detail))?;
            }
        }
        NodeCommand::Drain(drain) => return service::drain(drain, master).await,
        NodeCommand::Add(add) => return service::add(add, master).await,
        NodeCommand::Lost(lost) => return service::lost(lost, master).await,
        NodeCommand::Remove(remove) => return service::remove(remove, master).await,
        NodeCommand::Resume(resume) => return service::resume(resume, master).await,
    }
    Ok(exit::DONE)
}

/// The node as in the list, the caps that its units obey, and what it says of itself.
fn in_words(detail: NodeDetail) -> String {
    let NodeDetail { report, probe } = detail;
    let caps = report.units.iter().map(|unit| format!("{:<11} {}\n", plain(&unit.name), caps_in_words(unit)));
    let caps: String = caps.collect();
    let probe: String = match probe {
        // Its lines are its own; its control characters are not.
        Ok(probe) => probe.lines().map(|line| plain(line) + "\n").collect(),
        Err(reason) => format!("the node does not say what it has: {}\n", plain(&reason)),
    };
    format!("{}\n{caps}\n{probe}", node_table(&[report]))
}

fn caps_in_words(unit: &UnitReport) -> String {
    match (unit.caps, unit.cap) {
        (None, _) => "cannot be capped".to_owned(),
        (Some((low, high)), None) => format!("can be capped from {low} to {high}; has no cap"),
        (Some((low, high)), Some(cap)) => format!("can be capped from {low} to {high}; capped at {cap}"),
    }
}
