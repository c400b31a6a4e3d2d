//! `sinfo`: lists partitions and nodes.

use std::collections::BTreeSet;

use limo_client::{Clock, Failure, Master, answer_screen, exit};
use limo_model::{Span, host_list, parse_hosts};
use limo_proto::{NodeReport, NodeState, QueueReport};

use crate::call::Call;
use crate::format::{Part, letters, line};
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both, long};
use crate::partitions::{ONLY, Partitions};
use crate::submit::JobOptions;
use crate::values;

const USUAL: &str = "%9P %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
const NODES: &str = "%9N %.6D %.9P %6t";
const SUMMARY: &str = "%9P %.5a %.10l %.16F %N";
const REASONS: &str = "%20E %9u %19H %N";

const OPTIONS: [OptionRow; 23] = [
    both('a', "all", Nothing),
    both('d', "dead", Nothing),
    both('e', "exact", Nothing),
    both('h', "noheader", Nothing),
    both('i', "iterate", Value),
    both('l', "long", Nothing),
    both('M', "clusters", Value),
    both('N', "Node", Nothing),
    both('n', "nodes", Value),
    both('o', "format", Value),
    both('p', "partition", Value),
    both('R', "list-reasons", Nothing),
    both('r', "responding", Nothing),
    both('S', "sort", Value),
    both('s', "summarize", Nothing),
    both('t', "states", Value),
    both('v', "verbose", Nothing),
    both('V', "version", Nothing),
    long("federation", Nothing),
    long("help", Nothing),
    long("hide", Nothing),
    long("local", Nothing),
    long("usage", Nothing),
];

/// States of nodes, in Slurm's long and short words; no node of Limo has the last ones.
const STATES: [&str; 24] = [
    "idle",
    "mixed",
    "mix",
    "allocated",
    "alloc",
    "down",
    "drained",
    "drain",
    "draining",
    "drng",
    "reserved",
    "resv",
    "completing",
    "comp",
    "fail",
    "failing",
    "future",
    "maint",
    "no_respond",
    "perfctrs",
    "power_down",
    "power_up",
    "reboot",
    "unknown",
];

/// Fields that add up, or list, the nodes of a line. All others are equal for the nodes of a line.
const OF_GROUP: [&str; 6] = ["D", "N", "n", "F", "C", "A"];

/// Prints the list.
///
/// # Errors
/// If an option is wrong, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let options = match call.options(&OPTIONS, true) {
        Ok((given, _)) => JobOptions(given),
        Err(code) => return Ok(code),
    };
    let usual = match () {
        () if options.has("list-reasons") => REASONS,
        () if options.has("summarize") => SUMMARY,
        () if options.has("Node") => NODES,
        () if options.has("long") => LONG,
        () => USUAL,
    };
    let parts = letters(options.get("format").unwrap_or(usual));
    let mut cluster = ClusterView::ask(&call.master()?).await?;
    cluster.select(&options)?;
    let mut text = String::new();
    if options.has("long") && !options.has("noheader") {
        text += &format!("{}\n", crate::moment::long_date(&Clock::system()));
    }
    if !options.has("noheader") {
        text += &line(&parts, |key| title(key).to_owned());
    }
    let apart = options.has("Node");
    let mut groups = cluster.groups(&parts, apart);
    groups.retain(|group| !options.has("list-reasons") || !group.nodes.is_empty());
    for group in groups {
        text += &line(&parts, |key| cell(key, &group));
    }
    answer_screen(&text)?;
    Ok(exit::DONE)
}

/// The partitions and nodes of a cluster.
pub struct ClusterView {
    pub queues: Vec<QueueReport>,
    pub nodes: Vec<NodeReport>,
}

impl ClusterView {
    /// Asks the master. A cluster without queues has one partition.
    ///
    /// # Errors
    /// If the master cannot be asked.
    pub async fn ask(master: &Master) -> Result<Self, Failure> {
        let (mut queues, nodes) = (Partitions::ask(master).await?.0, master.nodes().await?);
        if queues.is_empty() {
            let known = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            queues.push(only(ONLY.to_owned(), known));
        }
        Ok(Self { queues, nodes })
    }

    fn select(&mut self, options: &JobOptions) -> Result<(), Failure> {
        if let Some(list) = options.get("partition") {
            self.queues.retain(|queue| list.split(',').any(|name| name == queue.name));
        }
        if let Some(list) = options.get("nodes") {
            let names = parse_hosts(list).map_err(|error| Failure::new(format_args!("Invalid node name: {error}")))?;
            self.nodes.retain(|node| names.contains(&node.name));
        }
        if let Some(list) = options.get("states").filter(|list| !list.eq_ignore_ascii_case("all")) {
            let is = |node: &NodeReport, word: &str| {
                let (long, short) = state(node);
                let long = long.trim_end_matches(['*', '~', '#', '%']);
                word.eq_ignore_ascii_case(long)
                    || word.eq_ignore_ascii_case(short.trim_end_matches(['*', '~', '#', '%']))
            };
            if let Some(word) = list.split(',').find(|word| !STATES.contains(&word.to_ascii_lowercase().as_str())) {
                return Err(Failure::new(format_args!("Bad state string: \"{word}\"")));
            }
            self.nodes.retain(|node| list.split(',').any(|word| is(node, word)));
        }
        if options.has("list-reasons") {
            self.nodes.retain(|node| node.reason.is_some());
        }
        if options.has("dead") || options.has("responding") {
            self.nodes.retain(|node| node.connected == options.has("responding"));
        }
        Ok(())
    }

    /// Returns the nodes of a partition.
    pub fn of(&self, queue: &QueueReport) -> Vec<&NodeReport> {
        let named = queue.nodes.as_ref().and_then(|list| parse_hosts(list).ok());
        self.nodes.iter().filter(|node| named.as_ref().is_none_or(|names| names.contains(&node.name))).collect()
    }

    /// Returns the lines: nodes of a partition whose other fields are equal.
    fn groups(&self, parts: &[Part], apart: bool) -> Vec<Group<'_>> {
        let mut groups: Vec<(String, Group)> = Vec::new();
        for queue in &self.queues {
            let own = self.of(queue);
            if own.is_empty() {
                groups.push((String::new(), Group { queue, nodes: Vec::new() }));
            }
            for node in own {
                let single = Group { queue, nodes: vec![node] };
                let of_node = |key: &str| if OF_GROUP.contains(&key) { String::new() } else { cell(key, &single) };
                let mut id = line(parts, of_node) + &queue.name;
                if apart {
                    id += &node.name;
                }
                match groups.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, group)) => group.nodes.push(node),
                    None => groups.push((id, single)),
                }
            }
        }
        let mut groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
        if apart {
            groups.sort_by_key(|group| group.nodes.first().map(|node| node.name.clone()));
        }
        groups
    }
}

/// Makes a partition of all nodes without limits.
fn only(name: String, known: u32) -> QueueReport {
    QueueReport {
        name,
        is_default: true,
        is_down: false,
        expected_wait: None,
        default_time: None,
        max_time: None,
        max_nodes: None,
        nodes: None,
        known,
        available: known,
        users: String::new(),
        groups: String::new(),
    }
}

/// Nodes on a line.
struct Group<'a> {
    queue: &'a QueueReport,
    nodes: Vec<&'a NodeReport>,
}

/// Returns the state of a node: its name and its short form. Marks: `*` not reached, `~` asleep, `#` waking, `%` falling
/// asleep.
pub fn state(node: &NodeReport) -> (String, String) {
    use limo_proto::NodeSleep::{Asleep, FallingAsleep, Waking};
    let (used, all) = (cores(node).0, cores(node).1);
    let busy = match used {
        0 => ("idle", "idle"),
        _ if used < all => ("mixed", "mix"),
        _ => ("allocated", "alloc"),
    };
    let drain = if used > 0 { ("draining", "drng") } else { ("drained", "drain") };
    let mark = match (node.sleep, node.connected) {
        (Some(Asleep), _) => "~",
        (Some(Waking), _) => "#",
        (Some(FallingAsleep), _) => "%",
        (None, false) => "*",
        (None, true) => "",
    };
    let (long, short) = match node.state {
        NodeState::Up | NodeState::Suspect | NodeState::Sleeps(_) => busy,
        NodeState::Unreachable | NodeState::Lost => ("down", "down"),
        NodeState::Drained => drain,
        NodeState::Owner => ("reserved", "resv"),
    };
    (format!("{long}{mark}"), format!("{short}{mark}"))
}

/// Returns the used cores and all cores of the node's processors.
pub fn cores(node: &NodeReport) -> (u32, u32) {
    let cpus = node.units.iter().filter(|unit| unit.kind == limo_model::UnitKind::Cpu);
    cpus.fold((0, 0), |(used, all), unit| (used + unit.cores_used, all + unit.cores))
}

/// Returns the accelerators of a node, as `gpu:TYPE:2`.
pub fn gres(node: &NodeReport) -> String {
    let accelerators = node.units.iter().filter(|unit| unit.kind == limo_model::UnitKind::Accelerator);
    let types: Vec<&str> = accelerators.map(|unit| unit.hardware.as_str()).collect();
    let kinds: BTreeSet<&str> = types.iter().copied().collect();
    let shown = |kind: &&str| format!("gpu:{kind}:{}", types.iter().filter(|other| *other == kind).count());
    match kinds.is_empty() {
        true => "(null)".to_owned(),
        false => kinds.iter().map(shown).collect::<Vec<_>>().join(","),
    }
}

/// Formats the longest time of a partition.
pub fn longest(time: Option<Span>, unlimited: &str) -> String {
    time.map_or_else(|| unlimited.to_owned(), values::time_run)
}

fn title(key: &str) -> &'static str {
    match key {
        "P" | "R" => "PARTITION",
        "a" => "AVAIL",
        "l" => "TIMELIMIT",
        "L" => "DEFAULTTIME",
        "D" => "NODES",
        "t" | "T" => "STATE",
        "N" => "NODELIST",
        "n" => "HOSTNAMES",
        "o" => "NODE_ADDR",
        "c" => "CPUS",
        "m" => "MEMORY",
        "e" => "FREE_MEM",
        "C" => "CPUS(A/I/O/T)",
        "F" => "NODES(A/I/O/T)",
        "A" => "NODES(A/I)",
        "G" => "GRES",
        "f" | "b" => "AVAIL_FEATURES",
        "E" => "REASON",
        "u" => "USER",
        "H" => "TIMESTAMP",
        "s" => "JOB_SIZE",
        "r" => "ROOT",
        "h" => "OVERSUBSCRIBE",
        "g" => "GROUPS",
        "O" => "CPU_LOAD",
        "d" => "TMP_DISK",
        "w" => "WEIGHT",
        "X" => "SOCKETS",
        "Y" => "CORES",
        "Z" => "THREADS",
        "z" => "S:C:T",
        _ => "",
    }
}

fn cell(key: &str, group: &Group) -> String {
    let queue = group.queue;
    let first = group.nodes.first();
    let of_first = |value: fn(&NodeReport) -> String| first.map_or_else(|| "n/a".to_owned(), |node| value(node));
    let sum = |of: &dyn Fn(&NodeReport) -> (u32, u32, u32)| {
        let sums = group.nodes.iter().map(|node| of(node)).fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
        format!("{}/{}/{}/{}", sums.0, sums.1, sums.2, sums.0 + sums.1 + sums.2)
    };
    let out = |node: &NodeReport| !matches!(node.state, NodeState::Up | NodeState::Suspect | NodeState::Sleeps(_));
    match key {
        "P" => format!("{}{}", queue.name, if queue.is_default { "*" } else { "" }),
        "R" => queue.name.clone(),
        "a" => if queue.is_down { "down" } else { "up" }.to_owned(),
        "l" => longest(queue.max_time, "infinite"),
        "L" => longest(queue.default_time, "n/a"),
        "D" => group.nodes.len().to_string(),
        "t" => of_first(|node| state(node).1),
        "T" => of_first(|node| state(node).0),
        "N" => host_list(group.nodes.iter().map(|node| node.name.as_str())),
        "n" | "o" => group.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(","),
        "c" => of_first(|node| cores(node).1.to_string()),
        "m" => of_first(|node| (node.memory.bytes() >> 20).to_string()),
        "e" => of_first(|node| (node.memory.bytes().saturating_sub(node.memory_used.bytes()) >> 20).to_string()),
        "C" => sum(&|node| {
            let (used, all) = cores(node);
            if out(node) { (used, 0, all - used.min(all)) } else { (used, all - used.min(all), 0) }
        }),
        "F" => sum(&|node| match (cores(node).0, out(node)) {
            (0, false) => (0, 1, 0),
            (0, true) => (0, 0, 1),
            _ => (1, 0, 0),
        }),
        "A" => {
            let busy = group.nodes.iter().filter(|node| cores(node).0 > 0).count();
            format!("{busy}/{}", group.nodes.len() - busy)
        }
        "G" => of_first(gres),
        "f" | "b" => "(null)".to_owned(),
        "E" => of_first(|node| node.reason.clone().unwrap_or_else(|| "none".to_owned())),
        "s" => queue.max_nodes.map_or_else(|| "1-infinite".to_owned(), |most| format!("1-{most}")),
        "r" => "no".to_owned(),
        "h" => "NO".to_owned(),
        "g" if !queue.groups.is_empty() => queue.groups.clone(),
        "g" => if queue.users.is_empty() { "all" } else { "some" }.to_owned(),
        "O" => of_first(|node| format!("{}.00", cores(node).0)),
        "d" => "0".to_owned(),
        "w" | "X" | "Z" => "1".to_owned(),
        "Y" => of_first(|node| cores(node).1.to_string()),
        "z" => of_first(|node| format!("1:{}:1", cores(node).1)),
        "u" | "H" => "Unknown".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_fake as fake;

    fn cluster() -> ClusterView {
        let queue = |name: &str, is_default, nodes: Option<&str>| QueueReport {
            is_default,
            nodes: nodes.map(str::to_owned),
            ..only(name.to_owned(), 2)
        };
        ClusterView {
            queues: vec![queue("long", true, None), queue("short", false, Some("n2"))],
            nodes: vec![fake::node("n1"), fake::node("n2")],
        }
    }

    #[test]
    fn nodes_of_a_line_have_equal_fields() {
        let shown = |cluster: &ClusterView, format: &str, apart| {
            let parts = letters(format);
            let groups = cluster.groups(&parts, apart);
            groups.iter().map(|group| line(&parts, |key| cell(key, group))).collect::<String>()
        };
        let mut cluster = cluster();
        assert_eq!(shown(&cluster, "%P %D %N", false), "long* 2 n[1-2]\nshort 1 n2\n");
        assert_eq!(shown(&cluster, "%N %R", true), "n1 long\nn2 long\nn2 short\n");
        cluster.nodes[1].state = NodeState::Drained;
        cluster.nodes[1].units.iter_mut().for_each(|unit| unit.cores_used = 0);
        let states = shown(&cluster, "%P %t %D", false);
        assert!(states.ends_with("short drain 1\n") && states.lines().count() == 3, "{states}");
    }
}
