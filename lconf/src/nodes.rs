//! `lconf node`: the nodes, and taking them out of service and back.

use limo_client::json::NodesJson;
use limo_client::{Failure, Master, answer, answer_json, exit, node_table};
use limo_proto::Change;

use crate::args::NodeCommand;

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
        NodeCommand::Drain { name, reason } => master.change(Change::Drain { node: name, reason }).await?,
        NodeCommand::Resume { name } => master.change(Change::Resume { node: name }).await?,
    }
    Ok(exit::DONE)
}
