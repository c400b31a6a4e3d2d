//! Operators' actions on nodes and settings, and the history of them.

use limo_tests::{Cluster, NodeSetup, Setup, Submitter, until};
use serde_json::Value;

fn reason_of(cluster: &Cluster, node: &str) -> Option<String> {
    cluster.node_report(node).expect("known")["reason"].as_str().map(str::to_owned)
}

#[test]
fn nodes_are_drained_all_or_none_and_say_why() {
    let cluster = Setup::nodes(3, 1).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["drain", "n[1-2,9]", "--reason", "new fans"]).failed("there is no node `n9` (nodes: n1, n2, n3)");
    assert_eq!(reason_of(&cluster, "n1"), None, "none");
    submitter.lconf(&["drain", "n[1-2]"]).failed("--reason <TEXT>");
    submitter.lconf(&["drain", "n[1-2]", "--reason", " "]).failed("the reason is empty: give it in a few words");
    submitter.lconf(&["drain", "n[1-2", "--reason", "x"]).failed("a bracket that does not match");
    assert_eq!(submitter.lconf(&["drain", "n[1-2]", "--reason", "new fans"]).succeeded(), "");
    for node in ["n1", "n2"] {
        let reason = reason_of(&cluster, node).unwrap_or_default();
        assert!(reason.contains("new fans"), "{node}: {reason}");
        let shown = submitter.lconf(&["node", "show", node]).succeeded();
        assert!(shown.contains("drained") && shown.contains("new fans"), "{shown}");
    }
    let listed = submitter.lq(&["nodes"]).succeeded();
    assert!(listed.contains("n2: new fans"), "{listed}");
    let job = submitter.detach(&["true"]);
    assert_eq!((submitter.wait(job), submitter.job(job)["nodes"][0].as_str()), (Some(0), Some("n3")));
    submitter.lconf(&["drain", "n3", "-r", "a disk"]).succeeded();
    let job = submitter.detach(&["true"]);
    submitter.lconf(&["resume", "n[2-3]"]).succeeded();
    assert_eq!(submitter.wait(job), Some(0));
    assert_eq!((reason_of(&cluster, "n2"), reason_of(&cluster, "n1").is_some()), (None, true));
}

/// Returns the changes that `lconf history` shows, oldest first.
fn history(submitter: &Submitter, options: &[&str]) -> Vec<Value> {
    let told = submitter.lconf(&[&["history", "--json"], options].concat()).succeeded();
    let mut value: Value = serde_json::from_str(&told).expect("JSON");
    let Value::Array(changes) = value["changes"].take() else { panic!("{told}") };
    changes
}

fn number_of_newest(submitter: &Submitter) -> u64 {
    history(submitter, &["-n", "1"])[0]["number"].as_u64().expect("a number")
}

#[test]
fn changes_are_listed_with_old_and_new_values_also_after_a_crash() {
    let mut cluster = Setup::nodes(2, 1).master(&["--snapshot-every", "5"]).start();
    let submitter = cluster.submitter().clone();
    submitter.lconf(&["set", "limits", "39W", "60W"]).succeeded();
    submitter.lconf(&["drain", "n[1-2]", "--reason", "new fans"]).succeeded();
    submitter.lconf(&["set", "policy", "easy"]).succeeded();
    cluster.kill_master();
    cluster.start_master();
    let told = submitter.lconf(&["history", "-n", "3"]).succeeded();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("NUMBER  TIME") && lines.len() == 5, "{told}");
    assert!(lines[1].ends_with("limits: none -> 39.0 W to 60.0 W"), "{told}");
    assert!(lines[2].ends_with("node n1: in service -> drained: new fans"), "{told}");
    assert!(lines[3].trim_start().starts_with("node n2: in service -> drained: new fans"), "{told}");
    assert!(lines[4].ends_with("policy: limo -> easy"), "{told}");
    let all = history(&submitter, &[]);
    let by = all.last().expect("one")["by"].as_str().expect("a user").to_owned();
    let own = history(&submitter, &["--by", &by]);
    assert!(own.len() == 3 && all.len() > 3, "{all:?}");
    assert!(all.iter().any(|change| change["by"] == "configuration"), "{all:?}");
    assert_eq!(history(&submitter, &["--since", "now-1h", "--by", &by]).len(), 3);
    assert_eq!(history(&submitter, &["--since", "now-1h", "-n", "1", "--by", &by])[0], own[2]);
    assert_eq!(history(&submitter, &["--by", "nobody"]).len(), 0);
    submitter.lconf(&["history", "--since", "soon"]).failed("--since: `soon` is not a time");
    submitter.lconf(&["history", "-n", "0"]).failed("0 is not in");
}

#[test]
fn changes_are_undone_from_the_newest_on() {
    let mut cluster = Setup::nodes(1, 1).start();
    let submitter = cluster.submitter().clone();
    submitter.lconf(&["undo"]).failed("there is no change that can be undone");
    submitter.lconf(&["set", "limits", "none", "60W"]).succeeded();
    submitter.lconf(&["set", "limits", "none", "80W"]).succeeded();
    submitter.lconf(&["drain", "n1", "--reason", "new fans"]).succeeded();
    let drained = number_of_newest(&submitter);
    let would = submitter.lconf(&["undo", "--dry-run"]).succeeded();
    assert!(would.starts_with(&format!("would undo change {drained} by ")), "{would}");
    assert!(would.ends_with("\nnode n1: drained: new fans -> in service\n"), "{would}");
    assert_eq!((number_of_newest(&submitter), reason_of(&cluster, "n1").is_some()), (drained, true));
    let undone = submitter.lconf(&["undo"]).succeeded();
    assert!(undone.starts_with(&format!("undid change {drained} by ")), "{undone}");
    assert_eq!(reason_of(&cluster, "n1"), None);
    cluster.kill_master();
    cluster.start_master();
    let high = || {
        let shown: Value = serde_json::from_str(&submitter.lconf(&["show", "--json"]).succeeded()).expect("JSON");
        shown["band_high_w"].as_f64()
    };
    let undone = submitter.lconf(&["undo", "--json"]).succeeded();
    let undone: Value = serde_json::from_str(&undone).expect("JSON");
    assert_eq!((&undone["undone"], high()), (&(drained - 1).into(), Some(60.0)));
    submitter.lconf(&["undo"]).succeeded();
    assert_eq!(high(), None);
    submitter.lconf(&["undo"]).failed("there is no change that can be undone");
    let newest = history(&submitter, &["-n", "1"]).remove(0);
    assert_eq!(newest["undo_of"], drained - 2);
    submitter
        .lconf(&["undo", &drained.to_string()])
        .failed(&format!("change {drained} of node n1 was overwritten by change {}", drained + 1));
    submitter.lconf(&["undo", &drained.to_string(), "--force"]).succeeded();
    submitter.lconf(&["undo", "999"]).failed("there is no change 999");
}

#[test]
fn changes_of_quotas_are_undone() {
    let cluster = Setup::nodes(1, 1).start();
    let submitter = cluster.submitter();
    let set = |arguments: &[&str]| drop(submitter.lconf(arguments).succeeded());
    set(&["quota", "ada", "jobs=2"]);
    set(&["quota", "ada", "jobs=3"]);
    set(&["fairshare", "ada", "7"]);
    set(&["user", "deny", "bob"]);
    let newest = history(submitter, &["-n", "1"]).remove(0);
    let (old, new) = (&newest["items"][0]["old"], &newest["items"][0]["new"]);
    assert_eq!((old, new), (&"nobody".into(), &"bob".into()), "{newest}");
    let undone = || submitter.lconf(&["undo"]).succeeded().lines().last().expect("a line").to_owned();
    assert_eq!(undone(), "denied users: bob -> nobody");
    assert_eq!(undone(), "fairshare: shares of ada: 7 -> shares of ada: none");
    assert_eq!(undone(), "quotas: ada: jobs=3 -> ada: jobs=2");
    assert!(submitter.lconf(&["quota", "ada"]).succeeded().contains("jobs=2"));
    let job = submitter.detach(&["--hold", "true"]);
    submitter.lq(&["priority", &job.to_string(), "5"]).succeeded();
    submitter.lconf(&["undo"]).succeeded();
    assert!(!submitter.lconf(&["quota", "--json"]).succeeded().contains("ada"), "own jobs are nobody else's matter");
}

#[test]
fn a_removed_node_returns_as_a_new_one() {
    let mut cluster = Setup::default()
        .node("n1", &["--cpus", "1", "--idle", "5 W"])
        .node("n2", &["--cpus", "1", "--idle", "7 W"])
        .node("n3", &["--cpus", "1", "--idle", "9 W"])
        .start();
    let submitter = cluster.submitter().clone();
    let idle = || {
        let status = submitter.lconf(&["status", "--json"]).succeeded();
        let status: Value = serde_json::from_str(&status).expect("JSON");
        (status["idle_w"].as_f64(), status["nodes"].as_u64())
    };
    assert_eq!(idle(), (Some(21.0), Some(3)));
    submitter
        .lconf(&["node", "remove", "n2"])
        .failed("node `n2` is connected: only an unreachable node can be removed");
    let job = submitter.detach(&["-w", "n2", "sleep", "1000"]);
    until("it runs", || (submitter.state(job) == "running").then_some(()));
    cluster.kill_node("n2");
    until("n2 is away", || (cluster.node_report("n2")?["state"] != "up").then_some(()));
    submitter.lconf(&["node", "remove", "n2"]).failed(&format!("job {job} is on node `n2`"));
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    cluster.start_node("n2");
    // The kind of the end depends on the daemon, and does not matter.
    submitter.wait(job);
    cluster.terminate_node("n2");
    until("n2 is away", || (cluster.node_report("n2")?["state"] != "up").then_some(()));
    submitter.lconf(&["node", "remove", "n[2,7]"]).failed("there is no node `n7` (nodes: n1, n2, n3)");
    assert_eq!(submitter.lconf(&["node", "remove", "n2"]).succeeded(), "");
    assert!(cluster.node_report("n2").is_none());
    assert_eq!(idle(), (Some(14.0), Some(2)));
    submitter.lrun(&["-w", "n2", "true"]).failed("there is no node `n2` (nodes: n1, n3)");
    let job = submitter.detach(&["-w", "n3", "true"]);
    assert_eq!((submitter.wait(job), submitter.job(job)["nodes"][0].as_str()), (Some(0), Some("n3")));
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n3");
    assert_eq!(idle(), (Some(14.0), Some(2)));
    cluster.start_node("n2");
    cluster.await_node("n2");
    assert_eq!(idle(), (Some(21.0), Some(3)));
    submitter.lrun(&["-w", "n2", "true"]).succeeded();
    let told = submitter.lconf(&["history", "-n", "1"]).succeeded();
    assert!(told.ends_with("node n2: removed\n"), "{told}");
    submitter
        .lconf(&["undo", history(&submitter, &["-n", "1"])[0]["number"].to_string().as_str()])
        .failed("cannot be undone");
}

#[test]
fn jobs_wait_for_a_node_that_is_added_before_it_registers() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    submitter.lrun(&["-c", "2", "true"]).failed("the largest node it may use, `n1`, offers 1 core");
    let add = |nodes: &str| submitter.lconf(&["node", "add", nodes, "-c", "2", "--mem", "1G", "--hardware", "xeon"]);
    add("n1").failed("there is a node `n1` already");
    submitter.lconf(&["node", "add", "n2"]).failed("--cores");
    assert_eq!(add("n[2-3]").succeeded(), "");
    assert!(cluster.node_report("n3").is_some_and(|node| node["state"] != "up"));
    let job = submitter.detach(&["-c", "2", "true"]);
    until("it has a reason to wait", || submitter.job(job)["wait_reason"].is_string().then_some(()));
    cluster.add_node(&NodeSetup { name: "n2".into(), options: vec!["--cpus".into(), "2".into()] });
    assert_eq!((submitter.wait(job), submitter.job(job)["nodes"][0].as_str()), (Some(0), Some("n2")));
    submitter.lconf(&["node", "remove", "n3"]).succeeded();
}

#[test]
fn a_stopped_node_ends_its_jobs_and_requeueable_ones_run_elsewhere() {
    let cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter();
    let wait = "echo $LIMO_NODE >> $0; test $LIMO_NODE = n2 && exit 4; sleep 1000";
    let again = submitter.detach(&["--requeue", "sh", "-c", wait, "again"]);
    let once = submitter.detach(&["-w", "n1", "sh", "-c", "echo >> $0; sleep 1000", "once"]);
    for name in ["again", "once"] {
        until(&format!("{name} runs"), || submitter.path(name).exists().then_some(()));
    }
    let other = submitter.detach(&["-w", "n2", "sh", "-c", "until [ -e go ]; do sleep 0.02; done"]);
    submitter.lconf(&["node", "stop", "n[1,7]", "--reason", "fire"]).failed("n7");
    assert_eq!((submitter.state(again), submitter.state(once)), ("running".into(), "running".into()));
    submitter.lconf(&["node", "stop", "n1", "--reason", "fire"]).succeeded();
    assert_eq!((submitter.wait(again), submitter.read("again").as_str()), (Some(4), "n1\nn2\n"));
    until("it is cancelled", || (submitter.state(once) == "cancelled").then_some(()));
    std::fs::write(submitter.path("go"), "").expect("written");
    assert_eq!(submitter.wait(other), Some(0), "jobs of other nodes go on");
    let report = cluster.node_report("n1").expect("known");
    assert_eq!((report["state"].as_str(), report["connected"].as_bool()), (Some("drained"), Some(true)), "{report}");
    submitter.lconf(&["node", "resume", "n1"]).succeeded();
    assert_eq!(submitter.lrun(&["-w", "n1", "true"]).code, Some(0));
}
