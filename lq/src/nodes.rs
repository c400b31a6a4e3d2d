//! `lq nodes`: lists the nodes, their draw and their jobs.

use limo_client::json::NodesJson;
use limo_client::{Failure, Master, answer, answer_json, exit, node_table};

/// Prints the list.
///
/// # Errors
/// If the master cannot be asked.
pub async fn run(json: bool, master: &Master) -> Result<u8, Failure> {
    let nodes = master.nodes().await?;
    if json {
        answer_json(&NodesJson::from(nodes.as_slice()))?;
    } else {
        answer(&node_table(&nodes))?;
    }
    Ok(exit::DONE)
}
