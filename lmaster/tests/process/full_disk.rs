//! The disk under the journal fills up: the master refuses new jobs, continues running ones, and keeps everything that
//! it accepted.

use crate::harness::{Client, Master, Node};
use limo_model::{Outcome, Usage};
use limo_proto::{Answer, JobState, MasterToClient, MasterToNode, NodeToMaster, Query, StatusQuery};
use limo_requirements::SmallDisk;

#[tokio::test]
async fn a_full_disk_refuses_new_jobs_and_loses_none() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let state = disk.path().join("state");
    let master = Master::start(&state);
    let mut node = Node::register(&master, "n1", Vec::new()).await;
    let mut client = Client::new(&master).await;
    let running = client.submit(1).await.expect("accepted");
    let exec = node.assignment().await;
    node.start(&exec).await;
    // The commits of the start are over when the status is answered. They must not meet the full disk: the master would
    // refuse jobs because it is almost full.
    client.hear_of(|message| matches!(message, MasterToClient::Running { .. }).then_some(())).await;
    client.ask(Query::Status(StatusQuery)).await;

    disk.fill();
    let (mut accepted, mut key) = (vec![running], 1);
    let reason = loop {
        key += 1;
        match client.submit(key).await {
            Ok(job) => accepted.push(job),
            Err(reason) => break reason,
        }
    };
    assert!(reason.contains("the disk under the journal is full"), "{reason}");
    let Answer::Status(status) = client.ask(Query::Status(StatusQuery)).await else { panic!("no status") };
    assert!(status.trouble.is_some());

    // The master closed the connection to the node. The node returns and reports the end, for which there is space.
    while node.hear().await.is_some() {}
    let (job, attempt) = (running, exec.attempt);
    let (outcome, usage) = (Outcome::Exited(0), Usage::default());
    let state_of = limo_proto::AttemptState::Ended { outcome: outcome.clone(), usage };
    let report = limo_proto::AttemptReport {
        journal: Default::default(),
        job,
        attempt,
        state: state_of,
        stdin_offset: 0,
        kept: Default::default(),
        is_evicted: false,
        checkpointed: None,
    };
    let mut node = Node::register(&master, "n1", vec![report]).await;
    node.hear_of(|message| (*message == MasterToNode::EndedAck { job, attempt }).then_some(())).await;
    node.say(NodeToMaster::Ended { job, attempt, outcome, usage }).await;
    let refused = client.submit(key + 1).await.expect_err("still full");
    assert!(refused.starts_with("new jobs are not accepted"), "{refused}");

    disk.make_room();
    master.logged("new jobs are accepted");
    accepted.push(client.submit(key + 2).await.expect("accepted again"));
    let master = master.killed(&state);
    let jobs = Client::new(&master).await.jobs().await;
    let known: Vec<_> = jobs.iter().map(|job| job.job).collect();
    assert_eq!(known, accepted);
    assert_eq!(jobs[0].state, JobState::Completed);
}

/// Kills the master when it has no ballast left. The next one starts, and has kept all promises.
#[tokio::test]
async fn a_master_starts_read_only_on_a_full_disk_and_continues_when_it_has_space() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let state = disk.path().join("state");
    let master = Master::start(&state);
    let mut client = Client::new(&master).await;
    let mut accepted = vec![client.submit(1).await.expect("accepted"), client.submit(2).await.expect("accepted")];
    let address = master.address.clone();
    master.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(master.wait(), Some(0));
    std::fs::remove_file(state.join("ballast")).expect("there");
    disk.fill();
    let mut master = Master::start_with(&state, &address, &[]);
    client = Client::new(&master).await;
    for _ in 0..2 {
        let Answer::Status(status) = client.ask(Query::Status(StatusQuery)).await else { panic!("no status") };
        assert!(status.trouble.is_some_and(|trouble| trouble.contains("read-only")));
        let known: Vec<_> = client.jobs().await.iter().map(|job| job.job).collect();
        assert_eq!(known, accepted);
        let reason = client.submit(3).await.expect_err("it cannot be written");
        assert!(reason.contains("the master is read-only: the disk under the journal is full"), "{reason}");
        master = master.killed(&state);
        client = Client::new(&master).await;
    }
    disk.make_room();
    client.status_with("it is written again", |status| status.trouble.is_none()).await;
    accepted.push(client.submit(4).await.expect("accepted again"));
    let master = master.killed(&state);
    let known: Vec<_> = Client::new(&master).await.jobs().await.iter().map(|job| job.job).collect();
    assert_eq!(known, accepted);
}
