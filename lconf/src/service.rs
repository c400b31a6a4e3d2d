//! Takes nodes out of service and back, adds and removes them. Each command changes all named nodes or none.

use limo_client::{Failure, Master, exit};
use limo_model::{Memory, Meter, NodeSpec, Power, UnitKind, UnitSpec, check_name, parse_hosts};
use limo_proto::Change;

/// Longest reason, in characters: tables show it on one line.
const REASON_LIMIT: usize = 200;

#[derive(Debug, clap::Args)]
pub struct Drain {
    /// Nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Reason, shown in listings
    #[arg(short, long, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

#[derive(Debug, clap::Args)]
pub struct Stop {
    /// Nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Reason, shown in listings
    #[arg(short, long, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

#[derive(Debug, clap::Args)]
pub struct Resume {
    /// Nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
}

#[derive(Debug, clap::Args)]
pub struct AddNodes {
    /// Nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Cores of each node
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cores: u32,
    /// Memory of each node, e.g. 64G
    #[arg(long, value_name = "SIZE")]
    mem: Memory,
    /// Type of their processors, e.g. xeon-e3-1275v5; nodes of one type share profiles
    #[arg(long, value_name = "TYPE", value_parser = hardware)]
    hardware: String,
}

#[derive(Debug, clap::Args)]
pub struct Remove {
    /// Nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
}

#[derive(Debug, clap::Args)]
pub struct Lost {
    /// Nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
}

/// Names of nodes, each once.
#[derive(Debug, Clone)]
pub struct Nodes(pub Vec<String>);

pub fn nodes(text: &str) -> Result<Nodes, String> {
    parse_hosts(text).map(Nodes).map_err(|error| error.to_string())
}

/// Checks a reason: one line that is not empty.
pub fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err("the reason is empty: give it in a few words".into()),
        length if length > REASON_LIMIT => {
            Err(format!("{length} characters are too many; the limit is {REASON_LIMIT}"))
        }
        _ if text.contains(char::is_control) => Err("the reason has a control character".into()),
        _ => Ok(text.to_owned()),
    }
}

/// Drains nodes.
///
/// # Errors
/// If the master cannot be asked, or does not know one of the nodes; then none is drained.
pub async fn drain(Drain { nodes, reason }: Drain, master: &Master) -> Result<u8, Failure> {
    master.change(Change::Drain { nodes: nodes.0, reason }).await?;
    Ok(exit::DONE)
}

/// Drains nodes and ends their jobs.
///
/// # Errors
/// The same as for [`drain`].
pub async fn stop(Stop { nodes, reason }: Stop, master: &Master) -> Result<u8, Failure> {
    master.change(Change::StopNodes { nodes: nodes.0, reason }).await?;
    Ok(exit::DONE)
}

/// Gives drained nodes jobs again.
///
/// # Errors
/// The same as for [`drain`].
pub async fn resume(Resume { nodes }: Resume, master: &Master) -> Result<u8, Failure> {
    master.change(Change::Resume { nodes: nodes.0 }).await?;
    Ok(exit::DONE)
}

/// Adds nodes.
///
/// # Errors
/// If the master cannot be asked, or knows one of the nodes already; then none is added.
pub async fn add(AddNodes { nodes, cores, mem, hardware }: AddNodes, master: &Master) -> Result<u8, Failure> {
    // Nodes report their draw when they register; before that they draw nothing.
    let spec = |name: String| NodeSpec {
        name,
        units: vec![UnitSpec {
            name: "cpu".into(),
            hardware: hardware.clone(),
            kind: UnitKind::Cpu,
            cores,
            nameplate: Power::ZERO,
            caps: None,
        }],
        memory: mem,
        idle: Power::ZERO,
        meter: Meter::None,
        rest: None,
    };
    master.change(Change::AddNodes(nodes.0.into_iter().map(spec).collect())).await?;
    Ok(exit::DONE)
}

/// Removes nodes.
///
/// # Errors
/// If the master cannot be asked, or one of the nodes is unknown, connected, reserved or has jobs; then none is
/// removed.
pub async fn remove(Remove { nodes }: Remove, master: &Master) -> Result<u8, Failure> {
    master.change(Change::RemoveNodes(nodes.0)).await?;
    Ok(exit::DONE)
}

/// Declares nodes dead.
///
/// # Errors
/// If the master cannot be asked, or one of the nodes is unknown or connected; then none is declared dead.
pub async fn lost(Lost { nodes }: Lost, master: &Master) -> Result<u8, Failure> {
    master.change(Change::NodesLost(nodes.0)).await?;
    Ok(exit::DONE)
}

fn hardware(text: &str) -> Result<String, String> {
    check_name("hardware", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_that_is_not_empty() {
        assert_eq!(reason(" new fan "), Ok("new fan".into()));
        assert_eq!(reason(" "), Err("the reason is empty: give it in a few words".into()));
        assert_eq!(reason("a\nb"), Err("the reason has a control character".into()));
        assert_eq!(reason(&"x".repeat(201)), Err("201 characters are too many; the limit is 200".into()));
    }
}
