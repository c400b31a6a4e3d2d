//! `lconf queue`: shows the queues of the configuration, and takes them down and up.

use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, or_dash};
use limo_proto::{Change, QueueReport};
use serde::Serialize;

#[derive(Debug, clap::Subcommand)]
pub enum QueueCommand {
    /// List the queues, with `*` after the name of the default
    List,
    /// Let jobs of a queue start, whatever its state in the master's settings is
    Up { name: String },
    /// Let no further job of a queue start; running jobs go on
    Down { name: String },
}

#[derive(Serialize)]
struct QueuesJson {
    schema: u32,
    queues: Vec<QueueJson>,
}

#[derive(Serialize)]
struct QueueJson {
    name: String,
    default: bool,
    state: &'static str,
    expected_wait_s: Option<f64>,
    default_time_s: Option<f64>,
    max_time_s: Option<f64>,
    max_nodes: Option<u32>,
    /// Short list; `null` means all nodes.
    nodes: Option<String>,
    nodes_known: u32,
    nodes_available: u32,
    /// Users, separated by commas; `null` means all users, or the members of the groups.
    users: Option<String>,
    /// Groups of users, separated by commas; `null` if membership does not matter.
    groups: Option<String>,
}

/// Runs a command.
///
/// # Errors
/// If the master cannot be asked, or refuses.
pub async fn run(command: QueueCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    let change = |queue, is_down| Change::QueueState { queue, is_down };
    let state = match command {
        QueueCommand::List => None,
        QueueCommand::Up { name } => Some(change(name, false)),
        QueueCommand::Down { name } => Some(change(name, true)),
    };
    if let Some(state) = state {
        master.change(state).await?;
        return Ok(exit::DONE);
    }
    let queues = master.queues().await?;
    if json {
        let queues = queues.into_iter().map(as_json).collect();
        answer_json(&QueuesJson { schema: SCHEMA, queues })?;
    } else {
        answer(&table(&queues))?;
    }
    Ok(exit::DONE)
}

fn state(queue: &QueueReport) -> &'static str {
    if queue.is_down { "down" } else { "up" }
}

fn as_json(queue: QueueReport) -> QueueJson {
    let seconds = |span: Option<limo_model::Span>| span.map(|span| span.ms() as f64 / 1e3);
    QueueJson {
        state: state(&queue),
        default: queue.is_default,
        expected_wait_s: seconds(queue.expected_wait),
        default_time_s: seconds(queue.default_time),
        max_time_s: seconds(queue.max_time),
        max_nodes: queue.max_nodes,
        nodes: queue.nodes,
        nodes_known: queue.known,
        nodes_available: queue.available,
        users: Some(queue.users).filter(|users| !users.is_empty()),
        groups: Some(queue.groups).filter(|groups| !groups.is_empty()),
        name: queue.name,
    }
}

fn table(queues: &[QueueReport]) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("QUEUE", left),
        ("STATE", left),
        ("WAIT", right),
        ("DEFAULTTIME", right),
        ("MAXTIME", right),
        ("MAXNODES", right),
        ("AVAILABLE", right),
        ("NODELIST", left),
        ("USERS", left),
        ("GROUPS", left),
    ]);
    for queue in queues {
        let name = format!("{}{}", queue.name, if queue.is_default { "*" } else { "" });
        table.row([
            name,
            state(queue).to_owned(),
            or_dash(queue.expected_wait),
            or_dash(queue.default_time),
            or_dash(queue.max_time),
            or_dash(queue.max_nodes),
            format!("{}/{}", queue.available, queue.known),
            queue.nodes.clone().unwrap_or_else(|| "all".to_owned()),
            match (queue.users.is_empty(), queue.groups.is_empty()) {
                (true, true) => "all".to_owned(),
                (is_empty, _) => or_dash((!is_empty).then_some(&queue.users)),
            },
            or_dash((!queue.groups.is_empty()).then_some(&queue.groups)),
        ]);
    }
    table.render()
}
