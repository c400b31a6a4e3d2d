//! `lconf node`: lists the nodes, shows one with its hardware, and takes nodes out of service and back.

use limo_client::json::{NodeDetailJson, NodesJson};
use limo_client::{Failure, Master, answer, answer_json, exit, node_table, plain};
use limo_proto::{NodeDetail, UnitReport};

use crate::args::NodeCommand;
use crate::service;

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked, or does not know the node.
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
        NodeCommand::Stop(stop) => return service::stop(stop, master).await,
        NodeCommand::Add(add) => return service::add(add, master).await,
        NodeCommand::Lost(lost) => return service::lost(lost, master).await,
        NodeCommand::Remove(remove) => return service::remove(remove, master).await,
        NodeCommand::Resume(resume) => return service::resume(resume, master).await,
    }
    Ok(exit::DONE)
}

/// Formats the node as in the list, the caps of its units, and its own report about its hardware.
fn in_words(detail: NodeDetail) -> String {
    let NodeDetail { report, probe } = detail;
    let caps = report.units.iter().map(|unit| format!("{:<11} {}\n", plain(&unit.name), caps_in_words(unit)));
    let caps: String = caps.collect();
    let probe: String = match probe {
        // The node chooses its lines, so control characters are escaped.
        Ok(probe) => probe.lines().map(|line| plain(line) + "\n").collect(),
        Err(reason) => format!("the node cannot report its hardware: {}\n", plain(&reason)),
    };
    format!("{}\n{caps}\n{probe}", node_table(&[report]))
}

fn caps_in_words(unit: &UnitReport) -> String {
    match (unit.caps, unit.cap) {
        (None, _) => "cannot be capped".to_owned(),
        (Some((low, high)), None) => format!("can be capped from {low} to {high}; not capped"),
        (Some((low, high)), Some(cap)) => format!("can be capped from {low} to {high}; capped at {cap}"),
    }
}
