//! `lab compat 2018`: reproduces rows and schedules of the published simulator of power-capping-2018, through the program.

use limo_requirements::trace_set;

use super::{lab, printed, refused};

/// An instance of two jobs on two units each.
const SMALL: &str = "\
    1;x;y;debug;2014-03-31 11:09:04__0;16;0;0;1048576#1;16;0;0;1048576#__\
    2014-03-31 12:00:00;2014-03-31 12:10:00;2;32;2;00:20;NA;NA;COMPLETED;0\n\
    2;x;y;debug;2014-03-31 11:09:14__0;16;0;0;1048576#0;16;0;0;1048576#__\
    2014-03-31 12:00:00;2014-03-31 12:10:00;2;32;2;00:20;NA;NA;COMPLETED;0\n";

#[test]
fn a_sample_of_the_published_rows_and_schedules_agrees() {
    let Some(traces) = trace_set("power-capping-2018") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let output = printed(folder.path(), &format!("compat 2018 --check {} --sample --json", traces.display()));
    let check: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(check["differences"], serde_json::json!([]));
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    assert_eq!(check["rows"], check["agree"]);
    assert_eq!(check["schedules"]["jobs"], check["schedules"]["agree"]);
    assert!(number(&check["rows"]) == 473 && number(&check["schedules"]["jobs"]) == 7_800, "{output}");
}

#[test]
fn the_logged_run_of_the_authors() {
    let Some(traces) = trace_set("power-capping-2018") else { return };
    let file = traces.join("synthetic/jobs_100/ws_900/rndm_100_900_0.log_crypt.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let output = printed(folder.path(), &format!("compat 2018 --algorithm LS --cap 7881 {} --json", file.display()));
    let rows: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    let row = &rows["rows"][0];
    let figures = ["total_wait_s", "peak_w", "makespan_s", "slowed_pct", "jobs", "cap_w"];
    assert_eq!(figures.map(|name| row[name].as_f64().expect(name)), [21_741.0, 6_391.0, 32_388.0, 0.0, 100.0, 7_881.0]);
    assert_eq!(format!("{:.5}", row["bsld"].as_f64().expect("a number")), "1.16982");
    assert_eq!(row["status"], "ok");
}

#[test]
fn a_table_of_instances() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("a")).expect("made");
    std::fs::write(folder.path().join("nodes_64"), "0 16 0 2 33554432 0\n1 16 0 2 33554432 0\n").expect("written");
    std::fs::write(folder.path().join("a/rndm_2_10_0.log_crypt"), SMALL).expect("written");
    let run = |more: &str| printed(folder.path(), &format!("compat 2018 {more} a/rndm_2_10_0.log_crypt"));
    // Job 1 takes both nodes for 600 s, so job 2 waits for 590 s: its slowdown is 1190 / 600, and the mean 1.491666667.
    let expected = "\
instance                           cap_w          jobs        status  total_wait_s          bsld        peak_w    makespan_s    slowed_pct
rndm_2_10_0                      1000000             2            ok           590   1.491666667            80          1200             0
";
    assert_eq!(run("--algorithm LS"), expected);
    // 49 % of 80 W are 39.2 W.
    let capped = run("--algorithm BF --cap 49%");
    assert_eq!(
        capped.lines().nth(1).map(|row| row.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["rndm_2_10_0", "39", "2", "infeasible"])
    );
}

const ROWS: &str = "instance,algorithm,F,cap_pct,cap_w,jobs,status,total_wait_s,bsld,peak_w,makespan_s,slowed_pct\n";

#[test]
fn a_check_counts_rows_and_lists_differences() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("nodes_64", "0 16 0 2 33554432 0\n1 16 0 2 33554432 0\n");
    write("rndm_2_10_0.log_crypt", SMALL);
    // The second row is wrong in the last digit of the BSLD, and the third one is not known.
    let rows = "rndm_2_10_0,LS,,none,1000000,2,ok,590,1.491666667,80,1200,0\n\
                rndm_2_10_0,DVFS,0.5,100,80,2,ok,590,1.491666668,80,1200,0\n\
                rndm_2_10_0,BF,,100,80,2,timeout,,,,,\n\
                rndm_2_10_0,BF,,49,39,2,infeasible,,,,,\n";
    write("oracle.csv", &format!("{ROWS}{rows}"));
    let output = lab(folder.path(), "compat 2018 --check .");
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = "\
algorithm   F         rows   agree  differ   unknown
LS                       1       1       0         0
BF                       2       1       0         1
DVFS        0.5          1       0       1         0
all                      4       2       1         1
schedules: 0 of 0 jobs in 0 runs have the published start, end and nodes
differs: rndm_2_10_0 DVFS F=0.5 80 W: ok,590,1.491666667,80,1200,0 (published ok,590,1.491666668,80,1200,0)
";
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with(expected), "{text}");
    let refusal = |row: &str, error: &str| {
        write("oracle.csv", &format!("{ROWS}{row}\n"));
        refused(folder.path(), "compat 2018 --check .", 1, &format!("lab: {error}"));
    };
    refusal("rndm_2_10_0,LS,,none", "./oracle.csv:2: 4 cells of 12");
    let names = "LS, BF, DVFS, DynShare, DynShare3";
    refusal("a,FCFS,,none,1,2,ok,1,1,1,1,0", &format!("./oracle.csv:2: `FCFS` is not an algorithm: {names}"));
    refusal("a,LS,,none,0,2,ok,1,1,1,1,0", "./oracle.csv:2: cap_w is 0: it must be from 1 to 1000000");
    refusal("a,DVFS,2,none,1,2,ok,1,1,1,1,0", "./oracle.csv:2: F is 2: it must be from 0 to 1");
    refusal("a,LS,,none,x,2,ok,1,1,1,1,0", "./oracle.csv:2: `x` is not a number");
    refusal("a,LS,,none,1,2,ok,1,1,1,1,0", ".: it has no instance a");
}

#[test]
fn wrong_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run =
        |more: &str, code: i32, stderr: &str| refused(folder.path(), &format!("compat 2018 {more}"), code, stderr);
    std::fs::write(folder.path().join("rndm_3_10_0.log_crypt"), SMALL).expect("written");
    std::fs::write(folder.path().join("nodes"), "0 16 0 2 33554432 0\n").expect("written");
    run("--algorithm DVFS a", 1, "lab: --algorithm DVFS needs --factor, from 0 to 1");
    run("--algorithm DVFS --factor 1.5 a", 1, "lab: --factor is 1.5: write a number from 0 to 1");
    run("--algorithm LS --factor 0.5 a", 1, "lab: --factor 0.5 has no effect under LS; omit it");
    run("--algorithm LS a", 1, "lab: cannot read a: No such file or directory (os error 2)");
    run(
        "--algorithm LS --nodes nodes rndm_3_10_0.log_crypt",
        1,
        "lab: rndm_3_10_0.log_crypt: the file has 2 jobs, its name says 3: two runs were written to one file; use another instance",
    );
    run("--check none", 1, "lab: none/nodes_64: the file cannot be read: No such file or directory (os error 2)");
    run(
        "--algorithm LS --cap 0 a",
        125,
        "error: invalid value '0' for '--cap <WATTS>': write whole watts from 1 to 1000000, or a percentage from 1% to 100%\n\nFor more information, try '--help'.",
    );
}
