//! Where jobs are put: nodes that they have alone.

use limo_tests::{Cluster, until};

#[test]
fn an_exclusive_job_has_its_node_alone() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let await_state = |job: u64, state: &str| {
        until(&format!("job {job} is {state}"), || (submitter.state(job) == state).then_some(()));
    };
    let first = submitter.detach(&["sleep", "1000"]);
    await_state(first, "running");
    // It has all cores of its node, unless it is told how many it uses.
    let alone = submitter.detach(&["--exclusive", "sh", "-c", "echo $LIMO_CPUS > cpus; sleep 1000"]);
    until("it is told why it waits", || (submitter.job(alone)["wait_kind"] == "resources").then_some(()));
    submitter.lrun(&["-I", "--exclusive", "true"]).failed("every unit that can run it is taken");
    submitter.lq(&["cancel", &first.to_string()]).succeeded();
    await_state(alone, "running");
    until("it has begun", || (submitter.read("cpus") == "4\n").then_some(()));
    let beside = submitter.detach(&["true"]);
    until("nobody is beside it", || (submitter.job(beside)["wait_kind"] == "resources").then_some(()));
    submitter.lq(&["cancel", &alone.to_string()]).succeeded();
    assert_eq!(submitter.wait(beside), Some(0));
    // One core of four, and still nobody else.
    let one = submitter.detach(&["--exclusive", "-c", "1", "sh", "-c", "echo $LIMO_CPUS > one; sleep 1000"]);
    await_state(one, "running");
    until("it has begun", || (submitter.read("one") == "1\n").then_some(()));
    submitter.lrun(&["-I", "true"]).failed("every unit that can run it is taken");
    submitter.lq(&["cancel", &one.to_string()]).succeeded();
}
