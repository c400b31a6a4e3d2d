//! Full nodes at the start, wrong predictions and ranges of nodes. Calculated by hand.

use super::{column, folder, lsim, read, refused};

/// Four nodes that draw 10 W idle and 50 W busy.
const PLATFORM: &str = "[[nodes]]\nname = \"n\"\ncount = 4\ncores = 1\nidle = \"10 W\"\nbusy = \"50 W\"\n";

/// Jobs of 100 s on one and on four nodes.
const WORKLOAD: &str = "1 0 -1 100 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n\
                        2 0 -1 100 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n";

/// Returns number, start, end and nodes of each job, sorted.
fn simulated(files: &[(&str, &str)], run: &str) -> (Vec<String>, String) {
    let folder = folder(files);
    let printed = lsim(folder.path(), run);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    let columns = ["job_id", "starting_time", "finish_time", "allocated_resources"].map(|name| column(&jobs, name));
    let rows = (0..columns[0].len()).map(|row| columns.each_ref().map(|column| column[row]).join(" "));
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    (rows, read(folder.path(), "out/draw.csv"))
}

const RUN: &str = "run --trace w.swf --platform p.toml --policy easy --out out";

/// Half of the nodes are full, one for 600 s and one for 1,200 s. Job 1 arrives a second late; job 2 needs all nodes.
#[test]
fn full_nodes_keep_jobs_waiting_and_are_in_no_row() {
    let files = [("w.swf", WORKLOAD), ("p.toml", PLATFORM)];
    let (rows, draw) = simulated(&files, &format!("{RUN} --hot-start 50%"));
    assert_eq!(rows, ["1 1 101 2", "2 1200 1300 0-3"]);
    assert_eq!(column(&draw, "draw_w")[0], "50", "4 x 10 W idle, and 5 W on two nodes");
}

/// Two jobs with 40 W above idle on nodes with 40 W idle together: 100 W have room for one of them. If one is predicted
/// to draw 16 W, both start at once.
#[test]
fn a_wrong_prediction_admits_more_jobs() {
    let jobs = "1 0 -1 100 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n2 0 -1 100 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n";
    let limits = "time,low_w,high_w\n0,,100\n";
    let files = [("w.swf", jobs), ("p.toml", PLATFORM), ("l.csv", limits)];
    let run = "run --trace w.swf --platform p.toml --policy powercap --out out --limits l.csv";
    let starts = |options: &str| simulated(&files, &format!("{run} {options}")).0;
    assert_eq!(starts(""), ["1 0 100 0", "2 100 200 0"]);
    assert_eq!(starts("--mispredict 0%:0.4"), ["1 0 100 0", "2 100 200 0"]);
    assert_eq!(starts("--mispredict 50%:0.4"), ["1 0 100 0", "2 0 100 1"]);
}

/// A job of 60 s on two and 40 s on four nodes gets all nodes, since no profile says so, or the two for which profiles
/// promise the earlier end.
#[test]
fn a_range_of_nodes_runs_as_long_as_its_number_says() {
    let profiles = r#""profiles": {"d": {"type": "delay", "delay": 60, "delays": {"2": 60, "4": 40}}}"#;
    let job = r#"{"id": 1, "subtime": 0, "res": 2, "profile": "d", "application": "cg", "nodes": "2-4"}"#;
    let workload = format!("{{\"nb_res\": 4, \"jobs\": [{job}], {profiles}}}");
    let known = "application,size,hardware,cores,nodes,cap,duration,power,energy,spread,runs\n\
                 cg,,node,,2,,30 s,40 W,1200 J,0 %,1\ncg,,node,,4,,40 s,40 W,1600 J,0 %,1\n";
    let files = [("w.json", workload.as_str()), ("p.toml", PLATFORM), ("k.csv", known)];
    let run = "run --trace w.json --platform p.toml --policy fifo --out out";
    assert_eq!(simulated(&files, run).0, ["1 0 40 0-3"]);
    assert_eq!(simulated(&files, &format!("{run} --profiles k.csv")).0, ["1 0 60 0-1"]);
}

/// A job of 400 s on one node begins on four. After 50 s another one needs two of them for 30 s: the first has 100 s left on
/// two, and after these 30 s 35 s on four. A limit of 120 W after 20 s leaves it two nodes: 320 s of one node take 160 s.
#[test]
fn a_malleable_job_takes_what_others_and_the_limit_leave() {
    let profiles = r#""profiles": {"a": {"type": "delay", "delay": 400}, "b": {"type": "delay", "delay": 30}}"#;
    let first =
        r#"{"id": 1, "subtime": 0, "res": 1, "profile": "a", "nodes": "1-4", "malleable": true, "walltime": 400}"#;
    let second = r#"{"id": 2, "subtime": 50, "res": 2, "profile": "b", "walltime": 30}"#;
    let both = format!("{{\"nb_res\": 4, \"jobs\": [{first}, {second}], {profiles}}}");
    let alone = format!("{{\"nb_res\": 4, \"jobs\": [{first}], {profiles}}}");
    let limits = "time,low_w,high_w\n0,,200\n20,,120\n";
    let files = [("b.json", both.as_str()), ("a.json", alone.as_str()), ("p.toml", PLATFORM), ("l.csv", limits)];
    let run = |trace: &str, more: &str| {
        simulated(&files, &format!("run --trace {trace} --platform p.toml --policy powercap --out out {more}"))
    };
    let (rows, draw) = run("b.json", "");
    assert_eq!(rows, ["1 0 115 0-3", "2 50 80 1-2"]);
    assert_eq!(column(&draw, "draw_w"), ["200", "200", "200", "40"], "all nodes are busy until its end");
    let (rows, draw) = run("a.json", "--limits l.csv --unwarned");
    assert_eq!(rows, ["1 0 180 0-1"]);
    assert_eq!(column(&draw, "draw_w"), ["200", "120", "40"]);
}

#[test]
fn wrong_options_are_refused() {
    let units = "[[nodes]]\nname = \"n\"\nidle = \"1 W\"\n[[nodes.unit]]\nname = \"a\"\nhardware = \"x\"\nkind = \"cpu\"\ncores = 1\n\
                 nameplate = \"9 W\"\n[[nodes.unit]]\nname = \"b\"\nhardware = \"x\"\nkind = \"cpu\"\ncores = 1\nnameplate = \"9 W\"\n";
    let folder = folder(&[("w.swf", WORKLOAD), ("p.toml", units)]);
    let why = "group 1 of the platform has 2 CPUs and 0 types of accelerators: one job can only fill nodes with one CPU and \
               accelerators of one type";
    refused(folder.path(), &format!("{RUN} --hot-start 50%"), 1, &format!("lsim: --hot-start: {why}"));
}
