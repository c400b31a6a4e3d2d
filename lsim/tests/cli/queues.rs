//! Queues of a workload: nodes, limits and refusals. Calculated by hand.

use super::{column, folder, lsim, read, refused};

/// Two nodes with one processor each.
const PLATFORM: &str = "[[nodes]]\nname = \"n\"\ncount = 2\nidle = \"10 W\"\nbusy = \"50 W\"\n";

/// Jobs of 100 s on one processor: two in queue 1, one without a queue, one in queue 1 with a requested time of an hour.
const WORKLOAD: &str = "1 0 -1 100 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
                        2 0 -1 100 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
                        3 0 -1 100 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n\
                        4 0 -1 100 1 -1 -1 1 3600 -1 1 1 1 -1 1 -1 -1 -1\n";

const QUEUES: &str =
    "[queue.1]\nnodes = [\"n0001\"]\nmax_time = \"60s\"\n[queue.2]\nnodes = [\"n0002\"]\ndefault = true\n";

const RUN: &str = "run --trace w.swf --platform p.toml --policy easy --out out --queues q.toml";

#[test]
fn jobs_run_on_the_nodes_of_their_queue_and_end_at_its_limit() {
    let folder = folder(&[("w.swf", WORKLOAD), ("p.toml", PLATFORM), ("q.toml", QUEUES)]);
    let printed = lsim(folder.path(), RUN);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    let columns = ["job_id", "starting_time", "finish_time", "allocated_resources"].map(|name| column(&jobs, name));
    let mut rows: Vec<String> =
        (0..columns[0].len()).map(|row| columns.each_ref().map(|column| column[row]).join(" ")).collect();
    rows.sort();
    // The first two take 60 s each on the first node, the third 100 s on the second one; the fourth is refused.
    assert_eq!(rows[..3], ["1 0 60 0", "2 60 120 0", "3 0 100 1"]);
    assert!(rows[3].starts_with("4 "), "{rows:?}");
    assert_eq!(column(&jobs, "final_state").iter().filter(|state| **state == "REJECTED").count(), 1);
}

#[test]
fn wrong_queues_are_refused() {
    let refuse = |queues: &str, expected: &str| {
        let folder = folder(&[("w.swf", WORKLOAD), ("p.toml", PLATFORM), ("q.toml", queues)]);
        refused(folder.path(), RUN, 1, expected);
    };
    refuse("[queue.1]\nnodes = [\"n3\"]\n", "lsim: q.toml: queue.1: nodes: the platform has no node `n3`");
    refuse(
        "[queue.2]\ndefault = true\n",
        "lsim: q.toml: job 1 of the trace is in queue 1, which the file does not have (queues: 2)",
    );
    refuse("[queue.1]\n", "lsim: q.toml: job 3 of the trace names no queue, and none is the default (queues: 1)");
    refuse("[queue.1]\nusers = [\"ada\"]\n", "lsim: q.toml: queue.1: users: a workload has only numbers of users");
    refuse("[queue.1]\ngroups = [\"a\"]\n", "lsim: q.toml: queue.1: groups: a workload has only numbers of users");
    refuse(
        "[queue.1]\ndefault = true\n[queue.2]\ndefault = true\n",
        "lsim: q.toml: queue.1 and queue.2 are both the default: only one queue can be",
    );
}
