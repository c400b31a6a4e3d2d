//! Nodes out of service and back, known before they come and forgotten when they are gone: all that are named or none.

use limo_client::{Failure, Master, exit, parse_hosts};
use limo_model::{Memory, Meter, NodeSpec, Power, UnitKind, UnitSpec, check_name};
use limo_proto::Change;

/// Longest reason, in characters: it stands in a line of a table.
const REASON_LIMIT: usize = 200;

#[derive(Debug, clap::Args)]
pub struct Drain {
    /// Which nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Why, for whoever looks later
    #[arg(short, long, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

#[derive(Debug, clap::Args)]
pub struct Resume {
    /// Which nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
}

#[derive(Debug, clap::Args)]
pub struct AddNodes {
    /// Which nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
    /// Cores of each
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cores: u32,
    /// Memory of each, e.g. 64G
    #[arg(long, value_name = "SIZE")]
    mem: Memory,
    /// Type of their processors, by which profiles are shared, e.g. xeon-e3-1275v5
    #[arg(long, value_name = "TYPE", value_parser = hardware)]
    hardware: String,
}

#[derive(Debug, clap::Args)]
pub struct Remove {
    /// Which nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
}

#[derive(Debug, clap::Args)]
pub struct Lost {
    /// Which nodes, e.g. n1 or n[1-4,7]
    #[arg(value_name = "NODES", value_parser = nodes)]
    nodes: Nodes,
}

/// Names of nodes, each once.
#[derive(Debug, Clone)]
pub struct Nodes(pub Vec<String>);

pub fn nodes(text: &str) -> Result<Nodes, String> {
    parse_hosts(text).map(Nodes).map_err(|error| error.to_string())
}

/// A text of one line that says something.
pub fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err("say why in a few words".into()),
        length if length > REASON_LIMIT => {
            Err(format!("{length} characters are too many: {REASON_LIMIT} are possible"))
        }
        _ if text.contains(char::is_control) => Err("it has a control character".into()),
        _ => Ok(text.to_owned()),
    }
}

/// # Errors
/// Where the master cannot be asked, or does not know one of the nodes; then none is drained.
pub async fn drain(Drain { nodes, reason }: Drain, master: &Master) -> Result<u8, Failure> {
    master.change(Change::Drain { nodes: nodes.0, reason }).await?;
    Ok(exit::DONE)
}

/// # Errors
/// As [`drain`].
pub async fn resume(Resume { nodes }: Resume, master: &Master) -> Result<u8, Failure> {
    master.change(Change::Resume { nodes: nodes.0 }).await?;
    Ok(exit::DONE)
}

/// # Errors
/// Where the master cannot be asked, or knows one of the nodes already; then none is added.
pub async fn add(AddNodes { nodes, cores, mem, hardware }: AddNodes, master: &Master) -> Result<u8, Failure> {
    // What they draw they say themselves, when they register; until then they draw nothing.
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

/// # Errors
/// Where the master cannot be asked, or one of the nodes is not known, is up, reserved or has jobs; then none is removed.
pub async fn remove(Remove { nodes }: Remove, master: &Master) -> Result<u8, Failure> {
    master.change(Change::RemoveNodes(nodes.0)).await?;
    Ok(exit::DONE)
}

/// # Errors
/// Where the master cannot be asked, or one of the nodes is not known or is connected; then none is declared dead.
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
    fn a_reason_says_something_in_one_line() {
        assert_eq!(reason(" new fan "), Ok("new fan".into()));
        assert_eq!(reason(" "), Err("say why in a few words".into()));
        assert_eq!(reason("a\nb"), Err("it has a control character".into()));
        assert_eq!(reason(&"x".repeat(201)), Err("201 characters are too many: 200 are possible".into()));
    }
}
