//! Steps of jobs: their users, their orders to nodes, and arrays.

use limo_model::{Step, Tasks};
use limo_proto::{Array, Launch, StepOf};

use super::*;

/// Makes the submission of a step.
fn step(key: u8, of: JobId) -> ClientToMaster {
    let ClientToMaster::SendExec(mut exec) = exec(key) else { panic!("a submission") };
    exec.request.step = Some(Step { of, number: 9, overlap: false });
    ClientToMaster::SendExec(exec)
}

/// Starts a job; returns its node and its client.
fn running(bench: &mut Bench) -> (PeerId, PeerId, JobId) {
    let (node, client) = (bench.node("n1"), bench.client(7));
    let (job, _) = bench.running(client, node, 1);
    bench.orders(node);
    bench.heard(client);
    (node, client, job)
}

fn refusal(bench: &mut Bench, client: PeerId) -> String {
    let heard = bench.heard(client);
    let [MasterToClient::Refused { reason, .. }] = heard.as_slice() else { panic!("{heard:?}") };
    reason.clone()
}

#[test]
fn a_step_goes_to_the_node_of_its_job_with_the_next_number() {
    let mut bench = Bench::new();
    let (node, client, job) = running(&mut bench);
    for (key, number) in [(2, 0), (3, 1)] {
        bench.say(client, step(key, job));
        let orders = bench.orders(node);
        let [MasterToNode::DoExec(exec)] = orders.as_slice() else { panic!("{orders:?}") };
        assert_eq!(exec.step, Some(StepOf { job, attempt: Attempt(1), number }));
        let (of, attempt) = (exec.job, exec.attempt);
        bench.report(node, NodeToMaster::JobAck { job: of, attempt });
        bench.report(node, NodeToMaster::Started { job: of, attempt });
        bench.report(node, ended(of, attempt, 0));
        assert_eq!(words(&bench.orders(node)), ["Go", "ReadFrom", "EndedAck"]);
        let heard = bench.heard(client);
        let Some(MasterToClient::Finished { report, .. }) = heard.last() else { panic!("{heard:?}") };
        assert_eq!((report.step, report.energy), (Some((job, number)), None), "the energy is that of the job");
    }
    let listed: Vec<JobId> = bench.jobs().iter().map(|job| job.job).collect();
    assert_eq!(listed, [job], "steps are not in lists");
}

#[test]
fn only_the_user_of_a_job_runs_steps_in_it() {
    let mut bench = Bench::new();
    let (_, _, job) = running(&mut bench);
    let other = bench.client(8);
    bench.say(other, step(2, job));
    assert_eq!(refusal(&mut bench, other), format!("the allocation of job {job} is user7's"));
    bench.say(other, step(3, JobId(99)));
    let none = "job 99 has no allocation for steps: it does not run, or is being ended";
    assert_eq!(refusal(&mut bench, other), none);
}

#[test]
fn a_task_of_an_array_has_steps_and_a_step_is_no_array() {
    let mut bench = Bench::new();
    let (node, client) = (bench.node("n1"), bench.client(7));
    let ClientToMaster::SendExec(mut array) = exec(1) else { panic!("a submission") };
    let tasks: Tasks = "0-1%1".parse().expect("tasks");
    array.launch = Launch { array: Some(Array { tasks, entries: Vec::new() }), io: Io::Detached, ..array.launch };
    let launch = array.launch.clone();
    bench.say(client, ClientToMaster::SendExec(array));
    let orders = bench.orders(node);
    let Some(MasterToNode::DoExec(exec)) = orders.last() else { panic!("{orders:?}") };
    let (task, attempt) = (exec.job, exec.attempt);
    bench.report(node, NodeToMaster::JobAck { job: task, attempt });
    bench.report(node, NodeToMaster::Started { job: task, attempt });
    bench.orders(node);
    bench.heard(client);
    bench.say(client, step(2, task));
    assert_eq!(words(&bench.heard(client)), ["Accepted"]);
    assert_eq!(words(&bench.orders(node)), ["DoExec"]);
    let ClientToMaster::SendExec(mut wrong) = step(3, task) else { panic!("a submission") };
    wrong.launch = launch;
    bench.say(client, ClientToMaster::SendExec(wrong));
    assert_eq!(refusal(&mut bench, client), "a step of a job cannot have tasks of an array");
}
