//! `lab run --compat 2017`: reproduces rows that the authors of energy-budget-2017 printed, through the program.

use limo_requirements::trace_set;

use super::{column, printed, read, refused};

/// A trace of two jobs on a machine of four processors.
const SMALL: &str = "; MaxProcs: 4\n\
    1 0 -1 100 2 -1 -1 2 200 -1 1 1 -1 1 -1 -1 -1 -1\n\
    2 10 -1 100 4 -1 -1 4 100 -1 1 2 -1 1 -1 -1 -1 -1\n";

/// Checks that the columns of a published row have the printed digits.
fn check(trace: &str, algorithm: &str, percent: &str, run: &str) {
    let Some(traces) = trace_set("energy-budget-2017") else { return };
    let published = read(&traces, "published_rows.csv");
    let rows: Vec<&str> = published.lines().filter(|line| !line.starts_with('#')).collect();
    let key = format!("{trace},{algorithm},{percent},");
    let row = rows.iter().find_map(|row| row.strip_prefix(&key)).expect("a published row");
    let names = rows[0].strip_prefix("trace,algo_shut,budget_percent,").expect("the header");
    let folder = tempfile::tempdir().expect("a folder");
    let path = traces.join(format!("{trace}.swf.gz"));
    let budget = format!("--budget {percent}% --from 2d --until 5d");
    let printed = printed(
        folder.path(),
        &format!("run --trace {} --compat 2017 {budget} --out out --replace {run}", path.display()),
    );
    let line = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)).expect(name).trim().to_owned();
    assert_eq!(line("as published"), names);
    let computed = printed.lines().skip_while(|line| !line.starts_with("as published")).nth(1).expect("a row");
    let mut compared = 0;
    for ((name, wanted), found) in names.split(',').zip(row.split(',')).zip(computed.trim().split(',')) {
        if !wanted.is_empty() {
            assert_eq!(found, wanted, "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 3);
    assert!(!column(&read(folder.path(), "out/jobs.csv"), "job_id").is_empty());
    let schedule: serde_json::Value = serde_json::from_str(&read(folder.path(), "out/schedule.json")).expect("JSON");
    assert!(schedule["peak_rss_bytes"].as_u64() > Some(1_000_000));
}

#[test]
fn powercap_at_the_idle_draw() {
    check("sdscblue_1w_43207292", "PC_IDLE", "49", "--policy powercap");
}

#[test]
fn reducepc() {
    check("curie_1w_48889200", "reducePC_IDLE", "70", "--policy reducepc");
}

#[test]
fn unpublished_options_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.swf"), SMALL).expect("written");
    let run = |more: &str, stderr: &str| {
        let stderr = format!("lab: --compat 2017: {stderr}");
        refused(folder.path(), &format!("run --trace a.swf --compat 2017 --out out {more}"), 1, &stderr);
    };
    let budgets = "budgets were whole percents of days 2 to 5: write for example --budget 80% --from 2d --until 5d";
    run("--policy powercap", budgets);
    run("--policy powercap --budget 49.5% --from 2d --until 5d", budgets);
    run("--policy powercap --budget 50% --from 1d --until 5d", budgets);
    run("--policy fifo", "`fifo` was not published then (easy, powercap, reducepc, energybud were)");
    run("--policy easy --limits l.csv", "the published code does not support --limits; omit it");
    run("--policy easy --set depth=3", "the published code does not support --set depth; omit it");
    run(
        "--policy easy --set rest=idle",
        "nodes slept at once and in the budget's period only: write --set rest=idle-in-budget",
    );
}
