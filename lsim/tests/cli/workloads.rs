//! `lsim generate`, `lsim import` and `lsim policies`.

use super::{SMALL, column, folder, lsim, read, refused};

#[test]
fn generated() {
    let folder = folder(&[]);
    let told = lsim(folder.path(), "generate uniform --jobs 50 --seed 3 --machine 32 -o a.swf");
    assert!(told.starts_with("exit 0\n--- stdout\na.swf: 50 jobs, the last submitted after "), "{told}");
    assert!(told.ends_with(" for 32 processors (seed 3)\n--- stderr\n"), "{told}");
    let first = read(folder.path(), "a.swf");
    assert_eq!(first.lines().filter(|line| !line.starts_with(';')).count(), 50);
    assert!(first.contains("; MaxProcs: 32\n"));
    lsim(folder.path(), "generate uniform --jobs 50 --seed 3 --machine 32 -o b.swf");
    assert_eq!(read(folder.path(), "b.swf"), first);
    lsim(folder.path(), "generate uniform --jobs 50 --seed 4 --machine 32 -o b.swf");
    assert_ne!(read(folder.path(), "b.swf"), first);
}

#[test]
fn recipes() {
    let folder = folder(&[("bad.toml", "seed = 1\nmachine = 0x\n")]);
    let printed = lsim(folder.path(), "generate steady --print");
    let recipe = printed.strip_prefix("exit 0\n--- stdout\n").and_then(|text| text.strip_suffix("--- stderr\n"));
    std::fs::write(folder.path().join("mine.toml"), recipe.expect("a recipe")).expect("written");
    assert!(lsim(folder.path(), "generate mine.toml -o a.swf").starts_with("exit 0"));
    lsim(folder.path(), "generate steady -o b.swf");
    assert_eq!(read(folder.path(), "a.swf"), read(folder.path(), "b.swf"));
    refused(
        folder.path(),
        "generate steadi -o c.swf",
        1,
        "lsim: there is no recipe `steadi` (known: burst, htc, left-skewed, lublin, steady, uniform)",
    );
    refused(
        folder.path(),
        "generate no.toml -o c.swf",
        1,
        "lsim: no.toml: the file cannot be read: No such file or directory (os error 2)",
    );
    let bad = lsim(folder.path(), "generate bad.toml -o c.swf");
    assert!(
        bad.starts_with(
            "exit 1\n--- stdout\n--- stderr\nlsim: bad.toml: recipe, line 2, column 11, at `machine = 0x`: "
        ),
        "{bad}"
    );
    assert!(!folder.path().join("c.swf").exists());
}

/// Checks that a written workload is read as the same jobs.
#[test]
fn imported() {
    let folder = folder(&[("small.swf", SMALL)]);
    let printed = lsim(folder.path(), "import small.swf -o clean.swf.gz --users 1 --start 2017-10-26T00:00:00Z");
    assert_eq!(
        printed,
        "exit 0\n--- stdout\nclean.swf.gz: 4 jobs\n--- stderr\n\
        lsim: note: 1 jobs ran longer than their requested time: ended at it\n\
        lsim: note: 4 of 5 jobs belong to the selected users\n"
    );
    let json = |trace: &str| {
        lsim(folder.path(), &format!("run --trace {trace} --policy easy --users 1 --out out --replace"));
        read(folder.path(), "out/jobs.csv").replace(trace, "")
    };
    assert_eq!(json("clean.swf.gz"), json("small.swf"));
    // By the rules of 2017, walltimes are at least twice the run.
    lsim(folder.path(), "import small.swf -o clean.swf --rules 2017");
    assert!(read(folder.path(), "clean.swf").contains("\n4 30 -1 500 1 -1 -1 1 1000 "));
}

#[test]
fn ranges_of_nodes_that_are_left_out_are_named() {
    let job = r#"{"id": 1, "subtime": 0, "walltime": 20, "res": 2, "nodes": "2-8", "profile": "a"}"#;
    let text = format!(r#"{{"nb_res": 8, "jobs": [{job}], "profiles": {{"a": {{"type": "delay", "delay": 10}}}}}}"#);
    let folder = folder(&[("w.json", &text)]);
    let printed = lsim(folder.path(), "import w.json -o a.swf");
    let note = "lsim: note: the ranges of nodes of 1 jobs are left out: the format has only processors\n";
    assert!(printed.starts_with("exit 0") && printed.contains(note), "{printed}");
}

/// Makes two weeks. In the second, from day 7 on, one of the two processors is busy all the time; in the first, for
/// one day.
#[test]
fn weeks() {
    let day = 86_400;
    let job = |number: i64, submit: i64, run: i64| {
        format!("{number} {submit} 0 {run} 1 -1 -1 1 {run} -1 1 1 -1 1 -1 -1 -1 -1\n")
    };
    let jobs = [job(1, 0, day), job(2, 7 * day, 7 * day), job(3, 14 * day, 1)].concat();
    let folder = folder(&[("a.swf", &jobs)]);
    let printed = lsim(folder.path(), "import a.swf --nodes 2 --weeks 2 -o week.swf");
    let expected = "exit 0\n--- stdout\n\
        week-1.swf: 1 jobs from 7d on, 50.00 % used\n\
        week-2.swf: 1 jobs from 0s on, 7.14 % used\n--- stderr\n";
    assert_eq!(printed, expected);
    assert!(read(folder.path(), "week-1.swf").contains("\n2 0 0 604800 1 "));
    refused(
        folder.path(),
        "import a.swf --nodes 2 --weeks 3 -o w.swf",
        1,
        "lsim: the workload has 2 disjoint weeks, but --weeks asks for 3",
    );
}

#[test]
fn policies() {
    let folder = folder(&[]);
    let text = lsim(folder.path(), "policies");
    let powercap = "\npowercap\n    easy, and no job starts that takes the estimated draw above the rate of the budget\n\
        \x20   source    energy-budget-2017, section V-C\n\
        \x20   parts     order=easy admission=rate placement=least-room caps=untouched idle=stay-on\n\
        \x20   promise   never spends more than the budget of a period\n\
        \x20   options   allocation, confidence-permille, default-duration, depth, margin, max-evicted-run, max-owner-restarts, max-reboot-restarts, max-restarts, monitor-every, rest\n\n";
    assert!(text.starts_with("exit 0\n--- stdout\nfifo\n") && text.contains(powercap), "{text}");
    let json = lsim(folder.path(), "policies --json");
    let json = json.strip_prefix("exit 0\n--- stdout\n").and_then(|text| text.strip_suffix("--- stderr\n"));
    let listing: serde_json::Value = serde_json::from_str(json.expect("success")).expect("JSON");
    assert_eq!(listing["schema"], 1);
    let names: Vec<_> = listing["policies"].as_array().expect("a list").iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, limo_model::Preset::ALL.map(limo_model::Preset::name));
    assert_eq!(listing["policies"][0]["parts"]["order"], "strict");
    let depth = listing["options"].as_array().expect("a list").iter().find(|option| option["name"] == "depth");
    assert_eq!(depth.expect("listed")["default"], "512");
}

/// Runs an instance of the simulator of power-capping-2018 on one node with two MICs and one with two GPUs. Both units
/// of job 1 share the second node, so job 4 waits for a GPU until 100 s. Job 3 asks for the memory of a whole node,
/// which is free on neither until job 2 ends at 60 s. The draw is 16 cores with 10 W each and two GPUs with 62 W: 284
/// W.
#[test]
fn units_share_nodes() {
    let job = |number: usize, units: &str, run: &str, requested: &str| {
        let arrival = "2014-03-31 10:00:00";
        let end = format!("2014-03-31 10:{run}");
        format!("{number};xxx;yyy;parallel;{arrival}__{units}__{arrival};{end};1;1;1;{requested};NA;NA;COMPLETED;0\n")
    };
    let jobs = [
        job(1, "7;8;1;0;1048576#7;8;1;0;1048576#", "01:40", "00:05"),
        job(2, "7;1;0;1;1048576#", "01:00", "00:02"),
        job(3, "7;1;0;0;33554432#", "00:30", "00:01"),
        job(4, "7;0;1;0;0#", "00:10", "00:01"),
    ];
    let platform = include_str!("../../../trace/examples/eurora.toml").replace("count = 32", "count = 1");
    let folder = folder(&[("a.log_crypt", &jobs.concat()), ("two.toml", &platform)]);
    let printed = lsim(folder.path(), "run --trace a.log_crypt --platform two.toml --policy conservative --out out");
    assert!(printed.starts_with("exit 0\n"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    assert_eq!(column(&jobs, "job_id"), ["2", "3", "1", "4"]);
    assert_eq!(column(&jobs, "starting_time"), ["0", "60", "0", "100"]);
    assert_eq!(column(&jobs, "requested_number_of_resources"), ["1", "1", "16", "4"]);
    assert_eq!(column(&jobs, "consumed_energy_j")[2], "28400");
}
