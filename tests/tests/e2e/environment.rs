//! The environment of a job: the submitter's variables that it gets, and those that Limo adds.

use std::collections::BTreeMap;

use limo_model::environment::{Set, VARIABLES};
use limo_tests::{Cluster, finish};

fn variables(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn limo_sets_the_listed_variables() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let own = |options: &[&str]| {
        let mut command = submitter.command("lrun", options);
        // The variables are set as if a job submitted this one.
        command.env("LIMO_JOB_END_TIME", "1").env("LIMO_EMULATED_WORK_FD", "9").env("LIMO_ATTEMPT", "x");
        let mut all = variables(&finish(command.spawn().expect("a program that is built")).succeeded());
        all.retain(|name, _| name.starts_with("LIMO_") && name != "LIMO_MASTER");
        all
    };
    let names = |limited: bool| -> Vec<&str> {
        let is_set = |set: Set| set == Set::Always || (limited && set == Set::WithTimeLimit);
        let mut names: Vec<&str> =
            VARIABLES.iter().filter(|variable| is_set(variable.set)).map(|variable| variable.name).collect();
        names.sort_unstable();
        names
    };
    let free = own(&["env"]);
    assert_eq!(free.keys().collect::<Vec<_>>(), names(false));
    let job = own(&["-c", "3", "-t", "90s", "-D", "/", "-J", "a name", "env"]);
    assert_eq!(job.keys().collect::<Vec<_>>(), names(true));
    let host = nix::unistd::gethostname().expect("a name").to_string_lossy().into_owned();
    let here = submitter.directory.canonicalize().expect("there").display().to_string();
    for (name, value) in [
        ("LIMO_JOB_ID", "2"),
        ("LIMO_JOB_NAME", "a name"),
        ("LIMO_JOB_NODELIST", "n1"),
        ("LIMO_JOB_NUM_NODES", "1"),
        ("LIMO_NTASKS", "1"),
        ("LIMO_PROCID", "0"),
        ("LIMO_LOCALID", "0"),
        ("LIMO_NODEID", "0"),
        ("LIMO_CPUS", "3"),
        ("LIMO_CPUS_ON_NODE", "3"),
        ("LIMO_CPUS_PER_TASK", "3"),
        ("LIMO_SUBMIT_DIR", &here),
        ("LIMO_SUBMIT_HOST", &host),
        ("LIMO_RESTART_COUNT", "0"),
    ] {
        assert_eq!(job[name], value, "{name}");
    }
    let seconds = |name: &str| job[name].parse::<i64>().expect("a number");
    assert_eq!(seconds("LIMO_JOB_END_TIME") - seconds("LIMO_JOB_START_TIME"), 90);
    let started = submitter.job(2)["start_unix_ms"].as_i64().expect("it ran") / 1000;
    assert!((started - seconds("LIMO_JOB_START_TIME")).abs() <= 10, "{job:?}");
}

#[test]
fn the_submitter_chooses_the_environment() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let check = |list: &str, expected: &[(&str, &str)]| {
        let mut command = submitter.command("lrun", &["--export", list, "/usr/bin/env"]);
        command.env_clear().env("LIMO_MASTER", &submitter.address);
        command.env("A", "1").env("B", "b c").env("LIMO_ATTEMPT", "x");
        let mut found = variables(&finish(command.spawn().expect("a program that is built")).succeeded());
        assert!(found.contains_key("LIMO_JOB_ID") && found["LIMO_ATTEMPT"] != "x");
        found.retain(|name, _| !name.starts_with("LIMO_"));
        let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(found, expected, "{list}");
    };
    check("ALL", &[("A", "1"), ("B", "b c")]);
    check("NONE", &[]);
    check("B,C", &[("B", "b c")]);
    check("ALL,A=9,D='x,y'", &[("A", "9"), ("B", "b c"), ("D", "x,y")]);
    check("LIMO_ATTEMPT=mine,A", &[("A", "1")]);
    submitter.lrun(&["--export", "NONE,A", "true"]).failed("NONE cannot be combined with names");
    submitter.lrun(&["--export", "=1", "true"]).failed("invalid value '=1' for '--export <LIST>': a name is empty");
}
