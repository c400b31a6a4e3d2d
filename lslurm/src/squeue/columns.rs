//! Columns of squeue, with their letters for `--format` and their names for `--Format`.

use crate::view::View;
use crate::{status, values};

use super::time_left;

/// The kind of keys of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    Letters,
    Names,
}

/// A column.
struct QueueColumn {
    letter: char,
    /// Names in lower case.
    names: &'static [&'static str],
    title: &'static str,
    cell: fn(&View) -> String,
}

const fn column(
    letter: char,
    names: &'static [&'static str],
    title: &'static str,
    cell: fn(&View) -> String,
) -> QueueColumn {
    QueueColumn { letter, names, title, cell }
}

fn absent() -> String {
    "(null)".to_owned()
}

fn or_absent(value: String) -> String {
    if value.is_empty() { absent() } else { value }
}

fn not_there() -> String {
    "N/A".to_owned()
}

const COLUMNS: [QueueColumn; 60] = [
    column('i', &["jobarrayid"], "JOBID", |view| view.label()),
    column('A', &["jobid"], "JOBID", |view| view.number()),
    column('F', &["arrayjobid"], "ARRAY_JOB_ID", |view| view.array()),
    column('K', &["arraytaskid"], "ARRAY_TASK_ID", |view| view.task()),
    column('j', &["name"], "NAME", |view| view.job.name.clone()),
    column('u', &["username"], "USER", |view| view.job.user.clone()),
    column('U', &["userid"], "UID", |view| view.uid()),
    column('g', &["groupname"], "GROUP", |view| view.group()),
    column('G', &["groupid"], "GROUP", |view| view.gid()),
    column('P', &["partition"], "PARTITION", |view| view.partition()),
    column('t', &["statecompact"], "ST", |view| status::of_job(view.job).code.to_owned()),
    column('T', &["state"], "STATE", |view| status::of_job(view.job).name.to_owned()),
    column('M', &["timeused"], "TIME", |view| values::time_run(view.run())),
    column('l', &["timelimit"], "TIME_LIMIT", |view| view.limit()),
    column('L', &["timeleft"], "TIME_LEFT", time_left),
    column('D', &["numnodes"], "NODES", |view| view.node_count().to_string()),
    column('C', &["numcpus"], "CPUS", |view| view.cores().to_string()),
    column('\0', &["numtasks"], "TASKS", |view| view.cores().to_string()),
    column('R', &["reasonlist"], "NODELIST(REASON)", |view| view.place_or_reason()),
    column('N', &["nodelist"], "NODELIST", |view| view.nodes()),
    column('r', &["reason"], "REASON", |view| status::reason(view.job).to_owned()),
    column('B', &["batchhost"], "EXEC_HOST", |view| {
        view.job.nodes.first().cloned().unwrap_or_else(|| "n/a".to_owned())
    }),
    column('m', &["minmemory"], "MIN_MEMORY", |view| values::memory_shown(view.job.memory)),
    column('c', &["mincpus"], "MIN_CPUS", |_| "1".to_owned()),
    column('d', &["mintmpdisk"], "MIN_TMP_DISK", |_| "0".to_owned()),
    column('S', &["starttime"], "START_TIME", |view| view.moment(view.job.started.or(view.job.begin), "N/A")),
    column('e', &["endtime"], "END_TIME", |view| {
        let limit = || Some(view.job.started? + view.job.time_limit?);
        view.moment(view.job.ended.or_else(limit), "N/A")
    }),
    column('V', &["submittime"], "SUBMIT_TIME", |view| view.moment(Some(view.job.submitted), "N/A")),
    column('\0', &["eligibletime"], "ELIGIBLE_TIME", |view| {
        view.moment(view.job.begin.or(Some(view.job.submitted)), "N/A")
    }),
    column('Q', &["prioritylong"], "PRIORITY", |view| view.priority()),
    column('p', &["priority"], "PRIORITY", |view| {
        let points: f64 = view.priority().parse().unwrap_or(0.0);
        format!("{:.14}", points / f64::from(u32::MAX))
    }),
    column('E', &["dependency"], "DEPENDENCY", |view| match view.dependencies() {
        none if none.is_empty() => "(null)".to_owned(),
        some => some,
    }),
    column('o', &["command"], "COMMAND", |view| view.job.command.clone()),
    column('Z', &["workdir"], "WORK_DIR", |view| view.directory()),
    column('\0', &["stdout"], "STDOUT", |view| view.job.stdout.clone().unwrap_or_default()),
    column('\0', &["stderr"], "STDERR", |view| view.job.stderr.clone().unwrap_or_default()),
    column('\0', &["restartcnt"], "RESTART_COUNT", |view| {
        (view.job.evictions.by_owner + view.job.evictions.by_reboot).to_string()
    }),
    column('\0', &["exit_code"], "EXIT_CODE", |view| status::exit_code(view.job)),
    column('\0', &["cluster"], "CLUSTER", |_| "limo".to_owned()),
    column('a', &["account"], "ACCOUNT", |view| or_absent(view.account())),
    column('q', &["qos"], "QOS", |view| view.qos()),
    column('k', &["comment"], "COMMENT", |view| or_absent(view.comment())),
    column('\0', &["admin_comment"], "ADMIN_COMMENT", |_| absent()),
    column('w', &["wckey"], "WCKEY", |view| or_absent(view.wckey())),
    column('v', &["reservation"], "RESERVATION", |_| absent()),
    column('f', &["feature"], "FEATURES", |_| absent()),
    column('W', &["licenses"], "LICENSES", |view| or_absent(view.licences())),
    column('n', &["reqnodes"], "REQ_NODES", |_| String::new()),
    column('x', &["exc_nodes"], "EXC_NODES", |_| String::new()),
    column('Y', &["schednodes"], "SCHEDNODES", |_| absent()),
    column('h', &["oversubscribe"], "OVER_SUBSCRIBE", |_| "OK".to_owned()),
    column('y', &["nice"], "NICE", |_| "0".to_owned()),
    column('b', &["tres-per-node", "gres"], "TRES_PER_NODE", |_| not_there()),
    column('O', &["contiguous"], "CONTIGUOUS", |_| "0".to_owned()),
    column('X', &["corespec"], "CORE_SPEC", |_| not_there()),
    column('H', &["sockets"], "SOCKETS_PER_NODE", |_| "*".to_owned()),
    column('I', &["cores"], "CORES_PER_SOCKET", |_| "*".to_owned()),
    column('J', &["threads"], "THREADS_PER_CORE", |_| "*".to_owned()),
    column('s', &["selectjobinfo"], "", |_| String::new()),
    column('z', &["socketcorethread"], "S:C:T", |_| "*:*:*".to_owned()),
];

fn find(keys: Keys, key: &str) -> Option<&'static QueueColumn> {
    COLUMNS.iter().find(|column| match keys {
        Keys::Letters => key != "\0" && key.starts_with(column.letter),
        Keys::Names => column.names.contains(&key),
    })
}

/// Returns true for the key of a column.
pub fn is_known(keys: Keys, key: &str) -> bool {
    find(keys, key).is_some()
}

/// Returns the title of a column; an unknown one is its own title.
pub fn title(keys: Keys, key: &str) -> String {
    find(keys, key).map_or_else(|| key.to_ascii_uppercase(), |column| column.title.to_owned())
}

/// Returns the value of a job in a column; empty in an unknown one.
pub fn cell(keys: Keys, key: &str, view: &View) -> String {
    find(keys, key).map_or_else(String::new, |column| (column.cell)(view))
}
