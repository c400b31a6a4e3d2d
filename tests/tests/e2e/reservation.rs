//! Nodes reserved for some users, or kept free of jobs, for a time.

use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

fn reserve(submitter: &Submitter, options: &[&str]) {
    assert_eq!(submitter.lconf(&[&["reservation", "add"], options].concat()).succeeded(), "");
}

fn reservations(submitter: &Submitter) -> Vec<Value> {
    let told = submitter.lconf(&["reservation", "list", "--json"]).succeeded();
    let mut value: Value = serde_json::from_str(&told).expect("JSON");
    let Value::Array(all) = value["reservations"].take() else { panic!("{told}") };
    all
}

fn await_wait(submitter: &Submitter, job: u64, kind: &str) -> String {
    until(&format!("job {job} is told: {kind}"), || {
        let report = submitter.job(job);
        (report["wait_kind"] == kind).then(|| report["wait_reason"].as_str().expect("a text").to_owned())
    })
}

#[test]
fn a_node_in_maintenance_runs_no_job_that_would_last_into_it() {
    let mut cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter().clone();
    reserve(&submitter, &["maint", "--nodes", "n1", "--start", "now+1h", "--duration", "2h", "--reason", "new fans"]);
    let all = reservations(&submitter);
    assert_eq!((all.len(), &all[0]["name"], &all[0]["reason"]), (1, &"maint".into(), &"new fans".into()));
    let listed = submitter.lconf(&["reservation", "list"]).succeeded();
    assert!(listed.starts_with("NAME") && listed.contains("nobody"), "{listed}");
    let (short, long) = (&["-w", "n1", "-t", "30min", "true"], &["-w", "n1", "-t", "2h", "true"]);
    submitter.lrun(short).succeeded();
    let long = submitter.detach(long);
    let unlimited = submitter.detach(&["-w", "n1", "true"]);
    for job in [long, unlimited] {
        let reason = await_wait(&submitter, job, "reserved");
        assert!(reason.starts_with("reserved: node n1 is reserved (maint) from "), "{reason}");
    }
    let elsewhere = submitter.detach(&["true"]);
    assert_eq!((submitter.wait(elsewhere), submitter.job(elsewhere)["nodes"][0].as_str()), (Some(0), Some("n2")));
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    assert_eq!(reservations(&submitter), all);
    assert_eq!(submitter.state(long), "waiting");
    submitter.lconf(&["reservation", "remove", "maint"]).succeeded();
    assert_eq!((submitter.wait(long), submitter.wait(unlimited)), (Some(0), Some(0)));
    submitter.lconf(&["reservation", "remove", "maint"]).failed("there is no reservation `maint` (reservations: none)");
    let undone = submitter.lconf(&["undo"]).succeeded();
    assert!(undone.contains("reservation maint: none -> n1 for nobody, for 2h"), "{undone}");
    assert_eq!(reservations(&submitter), all);
}

#[test]
fn a_job_with_the_right_runs_in_the_reservation_and_on_its_nodes() {
    let cluster = Setup::nodes(2, 1).start();
    let submitter = cluster.submitter();
    let first = submitter.detach(&["true"]);
    // A job that still runs, without a limit, is in the way of a reservation of its node.
    submitter.wait(first);
    let user = submitter.job(first)["user"].as_str().expect("a user").to_owned();
    reserve(submitter, &["now", "--nodes", "n2", "--duration", "1h", "--users", &user]);
    reserve(submitter, &["soon", "--nodes", "n1", "--start", "now+4s", "--duration", "1h", "--users", &user]);
    reserve(submitter, &["late", "--nodes", "n2", "--start", "now+3h", "--duration", "1h", "--users", &user]);
    reserve(submitter, &["others", "--nodes", "n1", "--start", "now+3h", "--duration", "1h", "--users", "nobody"]);
    let job = submitter.detach(&["--reservation", "now", "-t", "10min", "true"]);
    assert_eq!((submitter.wait(job), submitter.job(job)["nodes"][0].as_str()), (Some(0), Some("n2")));
    // The job waits for the start of its reservation, which is not an event.
    let soon = submitter.detach(&["--reservation", "soon", "-t", "10min", "true"]);
    assert_eq!((submitter.wait(soon), submitter.job(soon)["nodes"][0].as_str()), (Some(0), Some("n1")));
    let late = submitter.detach(&["--reservation", "late", "-t", "10min", "true"]);
    let reason = await_wait(submitter, late, "reservation");
    assert!(reason.starts_with("reservation: late begins at "), "{reason}");
    let refused = |options: &[&str], words: &str| submitter.lrun(&[options, &["true"]].concat()).failed(words);
    refused(
        &["--reservation", "none", "-t", "1min"],
        "there is no reservation `none` (reservations: late, now, others, soon)",
    );
    refused(&["--reservation", "others", "-t", "1min"], &format!("the reservation `others` is not for {user}"));
    refused(&["--reservation", "late", "-t", "1h"], "needs a time limit of at most 59min");
    refused(&["--reservation", "late"], "--time");
    refused(&["--reservation", "late", "-t", "1min", "-w", "n1"], "0 of the reservation `late` could run a part of it");
    refused(&["--reservation", "a b", "-t", "1min"], "`a b`");
}

#[test]
fn reservations_that_cannot_be_are_refused_by_name() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sleep", "1000"]);
    until("it runs", || (submitter.state(job) == "running").then_some(()));
    let refused = |options: &[&str], words: &str| {
        submitter.lconf(&[&["reservation", "add"], options].concat()).failed(words);
    };
    refused(&["a", "--nodes", "n1", "--duration", "1h"], "job 1 on node `n1` may last into the reservation `a`");
    submitter.lq(&["cancel", "1"]).succeeded();
    assert_eq!(submitter.wait(job), Some(143));
    refused(&["a", "--nodes", "n[1-2]", "--duration", "1h"], "there is no node `n2` (nodes: n1)");
    refused(&["a", "--nodes", "n1", "--duration", "0s"], "is not above zero");
    refused(&["a", "--nodes", "n1", "--start", "soon", "--duration", "1h"], "--start: `soon` is not a time");
    refused(&["a/b", "--nodes", "n1", "--duration", "1h"], "a/b");
    refused(&["a", "--nodes", "n1", "--duration", "1h", "--users", "a b"], "not the name of a user");
    reserve(submitter, &["a", "--nodes", "n1", "--duration", "1h"]);
    refused(&["a", "--nodes", "n1", "--start", "now+9h", "--duration", "1h"], "the reservation `a` already exists");
    refused(&["b", "--nodes", "n1", "--duration", "2h"], "node `n1` is reserved in that time already: a");
}
