//! Groups of a platform's nodes: limits and refusals. Calculated by hand.

use super::{column, folder, lsim, read, refused};

/// Two nodes with one processor each.
const PLATFORM: &str = "[[nodes]]\nname = \"n\"\ncount = 2\nidle = \"10 W\"\nbusy = \"50 W\"\n";

/// Two jobs of 100 s on one processor.
const WORKLOAD: &str = "1 0 -1 100 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
                        2 0 -1 100 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n";

const RUN: &str = "run --trace w.swf --platform p.toml --policy easy --out out --groups g.toml";

#[test]
fn jobs_wait_for_the_power_of_their_group() {
    // Idle nodes draw 20 W, and each job 40 W more.
    for (limit, starts) in [(100, ["0", "0"]), (99, ["0", "100"])] {
        let group = format!("[group.rack]\nnodes = [\"n[0001-0002]\"]\nlimit = \"{limit} W\"\n");
        let folder = folder(&[("w.swf", WORKLOAD), ("p.toml", PLATFORM), ("g.toml", &group)]);
        let printed = lsim(folder.path(), RUN);
        assert!(printed.starts_with("exit 0"), "{printed}");
        let jobs = read(folder.path(), "out/jobs.csv");
        assert_eq!(column(&jobs, "starting_time"), starts, "{limit} W");
    }
}

#[test]
fn wrong_groups_are_refused() {
    let refuse = |groups: &str, expected: &str| {
        let folder = folder(&[("w.swf", WORKLOAD), ("p.toml", PLATFORM), ("g.toml", groups)]);
        refused(folder.path(), RUN, 1, expected);
    };
    refuse(
        "[group.a]\nnodes = [\"n3\"]\nlimit = \"9 W\"\n",
        "lsim: g.toml: group.a: nodes: the platform has no node `n3`",
    );
    refuse(
        "[group.a]\nnodes = [\"n0001\"]\nlimit = \"0 W\"\n",
        "lsim: g.toml: group.a: limit is 0.0 W: it must be above 0 W",
    );
}

#[test]
fn reboots_without_effect_are_named() {
    let group = "[group.desks]\nnodes = [\"n0001\"]\nreboot = { window = \"03:00-05:00\", defer = \"no\" }\n\
                 [group.rack]\nnodes = [\"n0002\"]\n";
    let folder = folder(&[("w.swf", WORKLOAD), ("p.toml", PLATFORM), ("g.toml", group)]);
    let printed = lsim(folder.path(), RUN);
    let note =
        "lsim: note: g.toml: reboot of desks has no effect: only the groups of a pool have reboots in a simulation\n";
    assert!(printed.starts_with("exit 0") && printed.contains(note), "{printed}");
}
