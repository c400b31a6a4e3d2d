//! Quotas of users: `lconf quota`, `lconf user`.

use limo_tests::{Cluster, Submitter, until};
use serde_json::Value;

use super::users::other;

fn user(submitter: &Submitter, name: &str) -> Value {
    let shown = submitter.lconf(&["user", "show", name, "--json"]).succeeded();
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown["users"][0].clone()
}

/// Returns the name of this test's user.
fn own_name(submitter: &Submitter, job: u64) -> String {
    submitter.job(job)["user"].as_str().expect("a user").to_owned()
}

fn await_wait(submitter: &Submitter, job: u64, kind: &str) -> Value {
    until(&format!("job {job} is told: {kind}"), || {
        let report = submitter.job(job);
        (report["wait_kind"] == kind).then_some(report)
    })
}

fn await_state(submitter: &Submitter, job: u64, state: &str) {
    until(&format!("job {job} is {state}"), || (submitter.state(job) == state).then_some(()));
}

#[test]
fn no_more_than_the_quota_allows_also_over_a_crash() {
    let mut cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter().clone();
    submitter.lconf(&["quota", "--default", "jobs=1", "submitted=4"]).succeeded();
    let first = submitter.detach(&["sleep", "1000"]);
    let second = submitter.detach(&["sleep", "1000"]);
    let third = submitter.detach(&["--priority=1", "sleep", "1000"]);
    await_state(&submitter, first, "running");
    let report = await_wait(&submitter, second, "quota");
    assert_eq!(report["wait_reason"], "quota: 1 of 1 jobs run or may start");
    await_wait(&submitter, third, "quota");
    let name = own_name(&submitter, first);
    submitter
        .lrun(&["--detach", "--array", "1-2", "true"])
        .failed(&format!("user {name} has 3 jobs that are not over, 2 more would be above the quota of 4"));
    submitter.lrun(&["--immediate", "true"]).failed("leaves no room for the job now: 1 of 1 jobs run or may start");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    submitter.lq(&["cancel", &first.to_string()]).succeeded();
    await_state(&submitter, third, "running");
    await_wait(&submitter, second, "quota");
    let known = user(&submitter, &name);
    assert_eq!((&known["running_count"], &known["waiting_count"]), (&1.into(), &1.into()), "{known}");
    assert!(known["used_day_j"].as_f64().is_some(), "{known}");
    submitter.lconf(&["quota", &name, "jobs=2"]).succeeded();
    await_state(&submitter, second, "running");
    let shown = submitter.lconf(&["quota"]).succeeded();
    assert_eq!(shown, format!("default      jobs=1 submitted=4\n{name:<12} jobs=2\n"));
    submitter.lconf(&["quota", &name, "none"]).succeeded();
    assert_eq!(submitter.lconf(&["quota", &name]).succeeded(), format!("{name:<12} jobs=1 submitted=4\n"));
    submitter.lconf(&["quota", "--default", "none"]).succeeded();
    assert_eq!(submitter.lconf(&["quota"]).succeeded(), "default      none\n");
}

#[test]
fn energy_and_cores_are_limited_and_impossible_jobs_refused() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    submitter.lconf(&["quota", "--default", "cores=3", "energy=1kWh/month"]).succeeded();
    submitter.lrun(&["-c", "4", "true"]).failed("could never run within the quota of user");
    let running = submitter.detach(&["-c", "2", "-t", "1min", "sleep", "1000"]);
    await_state(submitter, running, "running");
    let waiting = submitter.detach(&["-c", "2", "-t", "1min", "true"]);
    let report = await_wait(submitter, waiting, "quota");
    assert_eq!(report["wait_reason"], "quota: needs 2 cores, jobs that run or may start have 2 of 3");
    assert_eq!(submitter.lrun(&["-c", "1", "-t", "1min", "--dry-run", "true"]).code, Some(0));
    submitter.lconf(&["quota", "--default", "cores=none", "energy=1J/day"]).succeeded();
    let report = await_wait(submitter, waiting, "quota");
    let reason = report["wait_reason"].as_str().expect("a reason").to_owned();
    assert!(reason.contains(" of 1.0 J are used or expected in the day, which ends at "), "{reason}");
    submitter.lrun(&["-t", "1min", "true"]).failed("could never run within the quota");
    submitter.lconf(&["quota", "--default", "energy=none"]).succeeded();
    assert_eq!(submitter.wait(waiting), Some(0));
    for (words, part) in [
        (&["--default", "jobs=x"][..], "`x` in `jobs=x` is not a number"),
        (&["ada", "nodes=3"], "`nodes` in `nodes=3` is not a limit of a quota: jobs, cores, energy, submitted"),
        (&["ada", "energy=3kWh"], "`3kWh` is not an energy in a day, a week or a month"),
        (&["jobs=3"], "`jobs=3` is not the name of a user"),
        (&["a b", "jobs=3"], "`a b` is not the name of a user"),
    ] {
        submitter.lconf(&[&["quota"], words].concat()).failed(part);
    }
}

#[test]
fn denied_users_cannot_submit_and_only_operators_deny() {
    let cluster = Cluster::of_one_node(1);
    let Some(other) = other(&cluster) else { return };
    let submitter = cluster.submitter();
    other.run("lconf", &["user", "deny", "root"]).failed("only an operator may do that");
    other.run("lconf", &["quota", "--default", "jobs=1"]).failed("only an operator may do that");
    assert!(other.run("lrun", &["true"]).code == Some(0));
    submitter.lconf(&["user", "deny", "daemon"]).succeeded();
    other.run("lrun", &["true"]).failed("user daemon may not submit jobs: an operator denies it");
    other.run("lrun", &["--dry-run", "true"]).failed("user daemon may not submit jobs");
    let listed = submitter.lconf(&["user"]).succeeded();
    assert!(listed.lines().any(|line| line.starts_with("daemon ") && line.ends_with(" denied")), "{listed}");
    assert!(submitter.lconf(&["user", "show", "daemon"]).succeeded().contains("denied       new jobs are refused\n"));
    submitter.lconf(&["user", "allow", "daemon"]).succeeded();
    assert_eq!(other.run("lrun", &["true"]).code, Some(0));
    submitter.lconf(&["user", "allow", "daemon"]).failed("user `daemon` is not denied");
    submitter.lconf(&["user", "show", "nobody-at-all"]).failed("the master does not know a user `nobody-at-all`");
}
