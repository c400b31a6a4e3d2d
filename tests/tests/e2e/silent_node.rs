//! A node that gets a job and does not acknowledge it. The job moves to another node, and runs once.

use std::process::Child;

use limo_model::{Attempt, Containment, JobId, Memory, Meter, NodeSpec, Power, UnitKind, UnitSpec};
use limo_proto::{Connection, Frame, MasterToNode, NewSlave, NodeToMaster, Registration, Role, Trusted, connect};
use limo_tests::{Cluster, LIMIT, NodeSetup, Setup, finish, until};

type Line = Connection<MasterToNode, NodeToMaster>;

/// A node played by the test.
struct Puppet(Line);

impl Puppet {
    async fn register(address: &str, name: &str) -> Self {
        let unit = UnitSpec {
            name: "cpu".into(),
            hardware: "puppet".into(),
            kind: UnitKind::Cpu,
            cores: 64,
            nameplate: Power::from_watts(1),
            caps: None,
        };
        let spec = NodeSpec {
            name: name.into(),
            units: vec![unit],
            memory: Memory::from_bytes(1 << 30),
            idle: Power::ZERO,
            meter: Meter::None,
            rest: None,
        };
        let line: Line = connect(&address.parse().expect("an endpoint"), Role::Node, &Trusted::own())
            .await
            .expect("the master listens");
        let (journal, instance) = (line.identity.journal, name.into());
        let slave = NewSlave {
            journal,
            spec,
            instance,
            boot: "one".into(),
            containment: Containment::FULL,
            unfit: None,
            owner: None,
        };
        let mut puppet = Self(line);
        for message in (Registration { slave, attempts: Vec::new() }).into_messages() {
            puppet.say(message).await;
        }
        assert_eq!(puppet.hear().await, Some(MasterToNode::Registered));
        puppet
    }

    async fn say(&mut self, message: NodeToMaster) {
        // The master may have closed the connection.
        let _ = self.0.writer.send(&Frame::Message(message)).await;
    }

    /// Returns the next message; `None` if the master has closed the connection.
    async fn hear(&mut self) -> Option<MasterToNode> {
        match tokio::time::timeout(LIMIT, self.0.reader.next()).await.expect("the master says something") {
            Ok(Some(Frame::Message(message))) => Some(message),
            Ok(None) | Err(_) => None,
            Ok(Some(other)) => panic!("{other:?}"),
        }
    }

    async fn assignment(&mut self) -> (JobId, Attempt) {
        match self.hear().await {
            Some(MasterToNode::DoExec(exec)) => (exec.job, exec.attempt),
            other => panic!("no assignment: {other:?}"),
        }
    }
}

fn setup(ack_timeout: &str) -> Setup {
    // The first suitable node is the one that registered first, which is the puppet.
    Setup::default().master(&["--initial-policy", "fifo", "--ack-timeout", ack_timeout])
}

const JOB: [&str; 3] = ["sh", "-c", "echo $LIMO_NODE | tee -a ran; until [ -e go ]; do sleep 0.02; done"];

/// Starts a puppet and then a real node, and submits a job that the puppet gets. The master waits for its
/// acknowledgement.
async fn stage(ack_timeout: &str) -> (Cluster, Puppet, (JobId, Attempt), Child) {
    let mut cluster = setup(ack_timeout).start();
    let submitter = cluster.submitter().clone();
    let mut puppet = Puppet::register(&submitter.address, "puppet").await;
    cluster.add_node(&NodeSetup { name: "real".into(), options: vec!["--cpus".into(), "1".into()] });
    cluster.await_node("real");
    let lrun = submitter.spawn_lrun(&JOB);
    let given = puppet.assignment().await;
    (cluster, puppet, given, lrun)
}

/// Ends the job, and checks that it ran once, on the real node.
fn check_end(cluster: &Cluster, lrun: Child) {
    let submitter = cluster.submitter();
    std::fs::write(submitter.path("go"), "").expect("written");
    assert_eq!(finish(lrun).succeeded(), "real\n");
    assert_eq!(submitter.read("ran"), "real\n");
    assert_eq!(submitter.job(1)["nodes"], serde_json::json!(["real"]));
}

#[tokio::test]
async fn a_job_that_is_not_acknowledged_goes_to_another_node() {
    let (cluster, mut puppet, _, lrun) = stage("300ms").await;
    // The puppet sends nothing, and must not get a `Go` before the master disconnects it.
    while let Some(message) = puppet.hear().await {
        assert!(!matches!(message, MasterToNode::Go { .. }), "{message:?}");
    }
    check_end(&cluster, lrun);
    assert_eq!(cluster.node_report("puppet").expect("known")["state"], "unreachable");
}

#[tokio::test]
async fn a_late_acknowledgement_starts_no_job() {
    let (cluster, mut puppet, (job, attempt), lrun) = stage("300ms").await;
    while puppet.hear().await.is_some() {}
    until("the job runs elsewhere", || (cluster.submitter().read("ran") == "real\n").then_some(()));
    let mut puppet = Puppet::register(&cluster.submitter().address, "puppet").await;
    puppet.say(NodeToMaster::JobAck { job, attempt }).await;
    assert_eq!(puppet.hear().await, Some(MasterToNode::Drop { job, attempt }));
    check_end(&cluster, lrun);
}

#[tokio::test]
async fn a_node_that_vanishes_before_go_loses_the_job_to_another() {
    // The time is longer than this test may take, because the closed connection is enough.
    let (cluster, puppet, _, lrun) = stage("1h").await;
    drop(puppet);
    check_end(&cluster, lrun);
}
