//! Values of any size that users choose. They disable neither a node nor another user's listing.

use limo_model::Request;
use limo_proto::{
    ClientToMaster, Connection, Frame, Io, Launch, MasterToClient, Role, SendExec, SubmissionKey, Trusted, connect,
};
use limo_tests::{Cluster, LIMIT, Setup, until};

type Line = Connection<MasterToClient, ClientToMaster>;

/// Submits values that `lrun` itself cannot pass, because the kernel limits the length of an argument.
async fn submit(address: &str, key: SubmissionKey, launch: Launch) -> Result<u64, String> {
    let mut line: Line = connect(&address.parse().expect("an endpoint"), Role::Client, &Trusted::own())
        .await
        .expect("the master listens");
    let exec = SendExec { key, request: Request::one_core("true"), launch, again: false };
    let frame = Frame::Message(ClientToMaster::SendExec(Box::new(exec)));
    line.writer.send(&frame).await.map_err(|error| error.to_string())?;
    loop {
        match tokio::time::timeout(LIMIT, line.reader.next()).await.expect("an answer in time") {
            Ok(Some(Frame::Message(MasterToClient::Accepted { job }))) => return Ok(job.0),
            Ok(Some(Frame::Message(MasterToClient::Refused { reason, .. }))) => return Err(reason.to_string()),
            Ok(Some(_)) => {}
            Ok(None) => return Err("the master closed the connection".into()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn launch(argv: Vec<Vec<u8>>) -> Launch {
    Launch { argv, cwd: b"/".to_vec(), umask: 0o022, io: Io::Detached, ..Launch::default() }
}

/// Returns bytes that are not UTF-8: each of them becomes three when it is shown.
fn garbage(length: usize) -> Vec<u8> {
    vec![0xff; length]
}

fn proves_that_the_node_works(cluster: &Cluster) {
    assert_eq!(cluster.submitter().lrun(&["echo", "here"]).succeeded(), "here\n");
    let report = cluster.node_report("n1").expect("the master knows it");
    assert_eq!(report["state"], "up", "{report}");
}

#[tokio::test]
async fn a_command_of_400_kb_of_invalid_utf8_fails_alone() {
    let mut cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter().clone();
    let job = submit(&submitter.address, [1; 16], launch(vec![garbage(400_000)])).await.expect("accepted");
    let report = until("the job is over", || {
        let report = submitter.job(job);
        report["end_unix_ms"].is_number().then_some(report)
    });
    assert_eq!(report["state"], "failed", "{report}");
    let reason = report["end_reason"].as_str().expect("a reason");
    assert!(reason.starts_with("could not be started: cannot execute \u{fffd}"), "{reason}");
    assert!(reason.ends_with("…: File name too long (os error 36)"), "the cause is seen: {reason}");
    assert!(reason.len() <= 1100, "{} bytes: {reason}", reason.len());
    proves_that_the_node_works(&cluster);
    // The node has no attempt left to report again.
    cluster.kill_node("n1");
    cluster.start_node("n1");
    until("the node is back", || (cluster.node_report("n1")?["state"] == "up").then_some(()));
    proves_that_the_node_works(&cluster);
}

#[tokio::test]
async fn a_path_that_no_kernel_takes_is_refused_with_its_limit() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter().clone();
    let long = garbage(400_000);
    let wrong = Launch { cwd: long.clone(), ..launch(vec![b"true".to_vec()]) };
    let refused = submit(&submitter.address, [2; 16], wrong).await.expect_err("refused");
    assert_eq!(refused, "the working directory takes 400000 bytes: the limit is 4096");
    let mut wrong = launch(vec![b"true".to_vec()]);
    wrong.files.stdout = Some(long);
    let refused = submit(&submitter.address, [3; 16], wrong).await.expect_err("refused");
    assert_eq!(refused, "the file for output takes 400000 bytes: the limit is 4096");
    proves_that_the_node_works(&cluster);
}
