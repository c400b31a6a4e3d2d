//! What users of a cluster see of each other's commands, and what operators do to the jobs of others.

use std::io::{BufRead, BufReader};

use limo_tests::{Person, until};

use crate::secured::Secured;

/// A word in the command, the arguments and the files of the first user.
const WORD: &str = "confidential";

/// Starts a running job, a waiting one and a finished one of this user. Returns their numbers.
fn jobs(secured: &Secured) -> [u64; 3] {
    let submitter = secured.cluster.submitter();
    let out = format!("{WORD}.out");
    let detach = |command: &[&str]| submitter.detach(&[&["-c", "2", "-o", &out][..], command].concat());
    // The reason of its failure names the path.
    let over = detach(&[&format!("./{WORD}/program")]);
    submitter.wait(over);
    let failed = detach(&["false", WORD]);
    submitter.wait(failed);
    let running = detach(&["sh", "-c", "sleep 1000", WORD]);
    until("the job runs", || (submitter.state(running) == "running").then_some(()));
    let waiting = detach(&["sleep", "1000", &format!("--{WORD}")]);
    [over, running, waiting]
}

#[test]
fn a_user_does_not_see_the_commands_of_another_by_any_command() {
    let secured = Secured::start();
    let _node = secured.node("n1", &secured.issue("node", "n1", "1d"), "n1");
    secured.cluster.await_node("n1");
    let Some(other) = Person::of(secured.cluster.submitter(), "daemon", &["lq", "lconf"]) else { return };
    let numbers = jobs(&secured);
    let text = numbers.map(|number| number.to_string());
    let [over, running, waiting] = text.each_ref().map(String::as_str);
    let shown = [
        &["lq", "show", over, running, waiting][..],
        &["lq", "show", over, running, waiting, "--json"],
        &["lq", "--all", "--format", "jobid,user,name,application,state,command"],
        &["lq", "--all", "--json"],
        &["lq", "explain", waiting, "--json"],
        &["lq", "history", "--json"],
        &["lq", "energy", "--by", "application", "--json"],
    ];
    let others = [
        &["lq"][..],
        &["lq", "explain", waiting],
        &["lq", "history"],
        &["lq", "energy", "--by", "application"],
        &["lq", "nodes", "--json"],
        &["lq", "wait", over],
        &["lq", "logs", over],
        &["lconf", "status", "--json"],
        &["lconf", "profile", "list", "--json"],
        &["lconf", "user", "list", "--json"],
        &["lconf", "history", "--json"],
    ];
    for words in shown.iter().chain(&others) {
        let ran = other.run(words[0], &words[1..]);
        assert!(!ran.stderr.contains("usage:") && ran.code != Some(2), "{words:?}: {ran:?}");
        assert!(!ran.stdout.contains(WORD) && !ran.stderr.contains(WORD), "{words:?}: {ran:?}");
    }
    for words in shown {
        let ran = secured.cluster.submitter().run(words[0], &words[1..]);
        assert!(ran.stdout.contains(WORD), "the owner sees it by {words:?}: {ran:?}");
    }
    assert!(other.run("lq", &["show", running]).succeeded().contains("(hidden)"));
    let mut watch = other.command("lq", &["--watch", "1", "--format", "user,command"]).spawn().expect("executable");
    let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    // The title and two jobs, twice.
    let lines: Vec<String> = lines.take(6).collect();
    watch.kill().expect("an own child");
    watch.wait().expect("an own child");
    assert!(lines.iter().any(|line| line.contains("(hidden)")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains(WORD)), "{lines:?}");
}

#[test]
fn what_operators_do_to_jobs_of_others_is_audited() {
    let secured = Secured::start();
    let Some(other) = Person::of(secured.cluster.submitter(), "daemon", &["lrun"]) else { return };
    let submit = || other.run("lrun", &["--detach", "true"]).succeeded().trim().to_owned();
    let (first, second) = (submit(), submit());
    let submitter = secured.cluster.submitter();
    submitter.lq(&["hold", &first]).succeeded();
    secured.audits(&["asked", &format!("hold of jobs {first} of daemon")]);
    submitter.lq(&["cancel", &first, &second]).succeeded();
    secured.audits(&["asked", &format!("cancellation of jobs {first}-{second} of daemon")]);
    let own = submitter.detach(&["true"]).to_string();
    submitter.lq(&["cancel", &own]).succeeded();
    let log = std::fs::read_to_string(secured.cluster.state_dir().join("audit.log")).expect("a log");
    assert!(!log.contains(&format!("jobs {own} of")), "an operator's own job is not worth an entry: {log}");
}

#[test]
fn members_of_the_group_of_operators_are_operators_but_run_no_nodes() {
    // The first group of this user.
    let secured = Secured::start_with(&["--admin-group", "daemon"]);
    let Some(admin) = Person::of(secured.cluster.submitter(), "daemon", &["lconf", "lslave", "lshepherd"]) else {
        return;
    };
    admin.run("lconf", &["set", "mode", "low"]).succeeded();
    secured.audits(&["asked", "daemon", "Mode"]);
    assert!(admin.run("lconf", &["cluster", "join-token"]).succeeded().starts_with("limo1."));
    let certificate = secured.issue("user", "daemon", "1h");
    secured.run("lconf", &certificate, &["set", "mode", "high"]).failed("only an operator may do that");
    let mut node = admin.command("lslave", &["--name", "n1", "--state-dir", "state"]).spawn().expect("executable");
    secured.audits(&["refused", "daemon", "may not run nodes"]);
    node.kill().expect("an own child");
    node.wait().expect("an own child");
}

#[test]
fn a_user_of_another_machine_does_not_see_commands_either() {
    let secured = Secured::start();
    let certificate = secured.issue("user", "daemon", "1h");
    let job = secured.cluster.submitter().detach(&["true", WORD]).to_string();
    let show = ["show", &job, "--json"];
    assert!(!secured.run("lq", &certificate, &show).succeeded().contains(WORD));
    let operator = secured.issue("operator", "daemon", "1h");
    assert!(secured.run("lq", &operator, &show).succeeded().contains(WORD));
}
