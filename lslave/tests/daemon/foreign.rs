//! A master with another journal than the previous one. The node ends the attempts of the earlier journal, reports
//! each once and forgets it. Job numbers of that journal have lost their meaning.

use limo_model::{Attempt, ClusterId, Epoch, Incarnation, JobId, JournalId, Outcome};
use limo_proto::{AttemptReport, AttemptState, Identity, MasterToNode, NodeToMaster};

use crate::master::{Daemon, Master, exec, is_running, shell};

const OTHER: JournalId = JournalId { cluster: ClusterId([1; 16]), incarnation: Incarnation(77) };

async fn other(address: &str) -> Master {
    let identity = Identity { journal: OTHER, epoch: Epoch(1), ..Identity::default() };
    let mut master = Master::at(address).await;
    master.identity = identity;
    master
}

#[tokio::test]
async fn a_job_of_another_journal_is_ended_before_the_node_registers() {
    let master = Master::new().await;
    let address = master.address();
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.journal, JournalId::default());
    node.run(shell(1, "echo $$; exec sleep 1000")).await;
    let line = node.data(1, limo_proto::Channel::Stdout).await.bytes;
    let pid: i32 = String::from_utf8_lossy(&line).trim().parse().expect("a number");
    drop((node, master));

    let master = other(&address).await;
    let (mut node, new) = master.welcome().await;
    assert!(!is_running(pid), "it is gone when the node registers");
    assert_eq!(new.journal, OTHER);
    let [AttemptReport { journal, job, state: AttemptState::Ended { outcome, .. }, .. }] = new.attempts.as_slice()
    else {
        panic!("{:?}", new.attempts)
    };
    assert_eq!((*journal, *job, outcome), (JournalId::default(), JobId(1), &Outcome::Signaled(15)));
    // The same number now stands for another job, which has no output of the first one.
    let second = limo_proto::DoExec { journal: OTHER, ..shell(1, "echo mine; exit 4") };
    node.run(second).await;
    assert_eq!(&node.data(1, limo_proto::Channel::Stdout).await.bytes[..], b"mine\n");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(4));
    drop((node, master));

    let master = other(&address).await;
    let (_, new) = master.welcome().await;
    assert!(new.attempts.iter().all(|report| report.journal == OTHER), "reported once: {:?}", new.attempts);
}

#[tokio::test]
async fn records_of_another_journal_outlast_the_daemon_and_are_not_adopted() {
    let master = Master::new().await;
    let address = master.address();
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    node.send(MasterToNode::DoExec(Box::new(exec(7, &["true"])))).await;
    node.expect(NodeToMaster::JobAck { job: JobId(7), attempt: Attempt(1) }).await;
    daemon.kill();
    drop((node, master));
    let master = other(&address).await;
    daemon.restart(&master);
    let (mut node, new) = master.welcome().await;
    let [AttemptReport { journal, state: AttemptState::Ended { .. }, .. }] = new.attempts.as_slice() else {
        panic!("held, but never to be run: {:?}", new.attempts)
    };
    assert_eq!(*journal, JournalId::default());
    // An order from another journal is refused.
    node.send(MasterToNode::DoExec(Box::new(exec(8, &["true"])))).await;
    let refused = |message: &NodeToMaster| match message {
        NodeToMaster::JobRefused { job: JobId(8), reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let reason = node.message(refused).await;
    assert!(reason.contains("not this master's"), "{reason}");
}
