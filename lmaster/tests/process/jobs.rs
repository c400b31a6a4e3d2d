//! Jobs through a real master: from submission to end, across a crash, and with a node that does not answer.

use crate::harness::{Client, Master, Node};
use bytes::Bytes;
use limo_model::{Attempt, JobId, Outcome, Usage};
use limo_proto::{
    AttemptReport, AttemptState, Change, Channel, ClientToMaster, Data, Frame, JobState, MasterToClient, MasterToNode,
    NodeToMaster, StreamId,
};

fn ended(job: JobId, attempt: Attempt) -> NodeToMaster {
    NodeToMaster::Ended { job, attempt, outcome: Outcome::Exited(3), usage: Usage::default() }
}

#[tokio::test]
async fn from_submission_to_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let mut node = Node::register(&master, "n1", Vec::new()).await;
    let mut client = Client::new(&master).await;
    let job = client.submit(1).await.expect("accepted");
    let exec = node.assignment().await;
    assert_eq!((exec.job, exec.launch.uid), (job, nix::unistd::geteuid().as_raw()), "the uid is the kernel's");
    node.start(&exec).await;
    let attached = |message: &MasterToClient| matches!(message, MasterToClient::Attached { .. }).then_some(());
    client.hear_of(attached).await;
    let stream = |channel| StreamId::new(job, channel);
    let hello = Data { stream: stream(Channel::Stdout), offset: 0, bytes: Bytes::from_static(b"hello") };
    node.connection.writer.send(&Frame::Data(hello.clone())).await.expect("sent");
    assert_eq!(client.frame().await, Some(Frame::Data(hello)));
    node.say(ended(job, exec.attempt)).await;
    let acknowledged = MasterToNode::EndedAck { job, attempt: exec.attempt };
    node.hear_of(|message| (*message == acknowledged).then_some(())).await;
    let report = client.finished().await;
    assert_eq!((report.state, report.units), (JobState::Failed, vec!["n1/cpu".to_owned()]));
    assert_eq!(client.jobs().await.len(), 1);
}

#[tokio::test]
async fn cancelling_stops_a_running_job() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start_with(dir.path(), "127.0.0.1:0", &["--kill-grace", "5s"]);
    let mut node = Node::register(&master, "n1", Vec::new()).await;
    let mut client = Client::new(&master).await;
    let job = client.submit(1).await.expect("accepted");
    let exec = node.assignment().await;
    node.start(&exec).await;
    client.say(ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![job])))).await;
    let grace = limo_model::Span::from_secs(5);
    let stop = MasterToNode::Stop { job, attempt: exec.attempt, grace };
    node.hear_of(|message| (*message == stop).then_some(())).await;
    node.say(ended(job, exec.attempt)).await;
    assert_eq!(client.finished().await.state, JobState::Cancelled);
}

#[tokio::test]
async fn a_node_that_does_not_acknowledge_loses_the_job_to_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start_with(dir.path(), "127.0.0.1:0", &["--ack-timeout", "50ms"]);
    let mut silent = Node::register(&master, "n1", Vec::new()).await;
    let mut client = Client::new(&master).await;
    let job = client.submit(1).await.expect("accepted");
    assert_eq!(silent.assignment().await.attempt, Attempt(1));
    let mut other = Node::register(&master, "n2", Vec::new()).await;
    let exec = other.assignment().await;
    assert_eq!((exec.job, exec.attempt), (job, Attempt(2)));
    other.start(&exec).await;
    assert_eq!(silent.hear().await, None, "hung up on");
    let running = |message: &MasterToClient| match message {
        MasterToClient::Running { node, .. } => Some(node.clone()),
        _ => None,
    };
    assert_eq!(client.hear_of(running).await, "n2");
}

#[tokio::test]
async fn a_crash_loses_nothing_and_repeats_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let mut node = Node::register(&master, "n1", Vec::new()).await;
    let mut client = Client::new(&master).await;
    let running = client.submit(1).await.expect("accepted");
    let exec_running = node.assignment().await;
    node.start(&exec_running).await;
    let waiting = client.submit(2).await.expect("accepted");
    let master = master.killed(dir.path());
    // The answer to the second submission was lost, so it is sent again.
    let mut client = Client::new(&master).await;
    assert_eq!(client.submit(2).await, Ok(waiting));
    let jobs = client.jobs().await;
    let states: Vec<_> = jobs.iter().map(|job| (job.job, job.state)).collect();
    // The start may be missing on disk after the crash; then the node reports it now.
    assert_eq!(states.len(), 2);
    assert!(matches!(states[0], (id, JobState::Starting | JobState::Running) if id == running), "{states:?}");
    assert_eq!(states[1], (waiting, JobState::Waiting));
    let attempt = exec_running.attempt;
    let report = AttemptReport {
        journal: Default::default(),
        job: running,
        attempt,
        state: AttemptState::Running,
        stdin_offset: 0,
        kept: Default::default(),
        is_evicted: false,
        checkpointed: None,
    };
    let mut node = Node::register(&master, "n1", vec![report]).await;
    node.say(ended(running, attempt)).await;
    let next = node.assignment().await;
    assert_eq!((next.job, next.attempt), (waiting, Attempt(1)), "the first is over, the second has its turn");
    let jobs = client.jobs().await;
    assert_eq!(jobs[0].state, JobState::Failed);
}

#[tokio::test]
async fn a_stopped_master_leaves_its_jobs_to_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let mut client = Client::new(&master).await;
    assert_eq!(client.submit(1).await, Ok(JobId(1)));
    assert_eq!(client.submit(2).await, Ok(JobId(2)));
    master.signal(nix::sys::signal::SIGTERM);
    assert_eq!(master.wait(), Some(0));
    let master = Master::start(dir.path());
    let jobs = Client::new(&master).await.jobs().await;
    assert_eq!(jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [JobId(1), JobId(2)]);
}
