//! `lconf drain` and `lconf resume`: nodes out of service and back, all that are named or none.

use limo_client::{Failure, Master, exit, parse_hosts};
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
