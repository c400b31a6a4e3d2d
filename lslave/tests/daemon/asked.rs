//! Hardware report of a running daemon at the request of the master, without disturbing its meter or its caps.

use std::fs::File;
use std::time::{Duration, SystemTime};

use limo_proto::{MasterToNode, NodeToMaster, PROBE_LIMIT};

use crate::emulated::emulated_node;
use crate::master::{Daemon, Master, Session};
use crate::tree::{Tree, watts};

async fn probe(node: &mut Session, ticket: u64) -> String {
    node.send(MasterToNode::Probe { ticket }).await;
    probed(node, ticket).await
}

async fn probed(node: &mut Session, ticket: u64) -> String {
    let report = |message: &NodeToMaster| match message {
        NodeToMaster::Probed { ticket: found, report } if *found == ticket => Some(report.to_string()),
        _ => None,
    };
    let report = node.message(report).await;
    assert!(report.len() <= PROBE_LIMIT);
    report
}

#[tokio::test]
async fn caps_that_are_kept_are_read_and_not_written() {
    let (master, tree) = (Master::new().await, Tree::new());
    tree.zone("intel-rapl:0", "package-0", 95_000_000);
    let sysfs = tree.path().to_str().expect("UTF-8");
    let more = ["--sysfs", sysfs, "--gpus", "none", "--cap", "cpu=rapl", "--meter", "command:echo 41.5"];
    let _daemon = Daemon::start(&master, &more);
    let (mut node, _) = master.welcome().await;
    node.message(|message| matches!(message, NodeToMaster::Reading(_)).then_some(())).await;
    node.send(MasterToNode::Caps { generation: 1, caps: vec![Some(watts(40))] }).await;
    node.expect(NodeToMaster::Capped { generation: 1, failed: limo_proto::List::default() }).await;
    // This would show any write, even of the same value.
    let limit = tree.path().join("class/powercap/intel-rapl:0/constraint_0_power_limit_uw");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    File::options().write(true).open(&limit).expect("there").set_modified(long_ago).expect("set");
    let report = probe(&mut node, 7).await;
    let modified = limit.metadata().expect("there").modified().expect("known");
    assert_eq!(modified, long_ago, "{report}");
    let line = |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{report}"));
    assert!(line("processor").ends_with(" cores") && line("memory").ends_with("iB"), "{report}");
    assert!(line("meter ").starts_with("meter       in use: 41.5 W, "), "{report}");
    let cap = line("cap ");
    assert!(
        cap.starts_with("cap         cpu=rapl: 10.0 W to 95.0 W; now ") && cap.ends_with(", by the master"),
        "{cap}"
    );
    assert!(cap.contains("= 40000000"), "{cap}");
    assert!(!report.contains("use it: --cap cpu=rapl"), "it is in use: {report}");
}

/// Sends several requests during a report. They get the same answer, and the daemon continues meanwhile.
#[tokio::test]
async fn each_question_gets_its_own_answer() {
    let (master, tree) = (Master::new().await, Tree::new());
    let sysfs = tree.path().to_str().expect("UTF-8");
    let _daemon = Daemon::start(&master, &["--sysfs", sysfs, "--gpus", "none"]);
    let (mut node, _) = master.welcome().await;
    for ticket in 1..=3 {
        node.send(MasterToNode::Probe { ticket }).await;
    }
    let first = probed(&mut node, 1).await;
    assert!(first.contains("meter       none in use: the master estimates"), "{first}");
    assert!(first.contains("cap         rapl: no cap: "), "what can be done about it is said: {first}");
    for ticket in 2..=3 {
        assert!(probed(&mut node, ticket).await.starts_with("processor   "));
    }
    assert!(probe(&mut node, 4).await.starts_with("processor   "), "and again");
}

#[tokio::test]
async fn emulated_hardware_says_so() {
    let master = Master::new().await;
    let _daemon = emulated_node(&master);
    let (mut node, _) = master.welcome().await;
    let before = probe(&mut node, 1).await;
    let expected = "emulated    machine `n1` of the hardware file: all watts are modelled\n\
        memory      2 GiB\n\
        draw        10.0 W emulated, 10.0 W of it idle\n\
        cpu         xeon, 4 cores, up to 60.0 W above idle; cap 8.0 W to 60.0 W; now none\n\
        gpu         quadro, an accelerator, up to 75.0 W above idle; cannot be capped\n";
    assert_eq!(before, expected);
    node.send(MasterToNode::Caps { generation: 1, caps: vec![Some(watts(30))] }).await;
    node.expect(NodeToMaster::Capped { generation: 1, failed: limo_proto::List::default() }).await;
    assert!(probe(&mut node, 2).await.contains("cap 8.0 W to 60.0 W; now 30.0 W\n"));
}
