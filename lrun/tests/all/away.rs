//! No byte is lost and no second job is made if the master disappears and returns.

use std::process::Stdio;

use limo_fake::FakeMaster;
use limo_model::Outcome;
use limo_proto::{Channel, ClientToMaster, MasterToClient, SendExec};
use tokio::io::AsyncWriteExt;

use crate::stage::{JOB, Stage, end, lrun};
use crate::stdio::{Cat, binary};

const AWAY: &str = "lrun: the master went away; retrying for 60 s\n";

#[tokio::test]
async fn an_unanswered_submission_is_repeated() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["a"]).spawn().expect("lrun");
    let ClientToMaster::SendExec(first) = Stage::client(&master).await.hear().await else { panic!("no submission") };
    let mut stage = Stage::client(&master).await;
    assert!(!first.again);
    assert_eq!(stage.start().await, SendExec { again: true, ..*first });
    stage.end_streams(0, 0).await;
    stage.finish(Outcome::Exited(3)).await;
    assert_eq!(end(child).await, format!("exit 3\n--- stdout\n--- stderr\n{AWAY}"));
}

#[tokio::test]
async fn streams_continue_after_each_of_many_breaks() {
    let master = FakeMaster::start().await.expect("a master");
    let mut child = lrun(master.address(), &["-Q", "cat"]).stdin(Stdio::piped()).spawn().expect("lrun");
    let mut stdin = child.stdin.take().expect("piped");
    let sent = binary(3_000_000);
    let expected = sent.clone();
    let feed = tokio::spawn(async move { stdin.write_all(&sent).await });
    let output = tokio::spawn(child.wait_with_output());
    let mut cat = Cat::default();
    let mut stage = Stage::client(&master).await;
    let key = stage.start().await.key;
    // The connection repeatedly breaks after a few frames, in the middle of the streams.
    let mut breaks = 0;
    while !cat.serve(&mut stage, 3 + breaks % 5).await {
        drop(stage);
        breaks += 1;
        stage = Stage::client(&master).await;
        cat.attach(&mut stage, key).await;
    }
    assert!(breaks > 10, "{breaks} breaks");
    stage.peer.data(JOB, Channel::Stderr, 0, b"").await.expect("sent");
    stage.finish(Outcome::Exited(0)).await;
    feed.await.expect("a task").expect("lrun reads all of it");
    let output = output.await.expect("a task").expect("an end");
    assert_eq!((output.status.code(), output.stdout == expected), (Some(0), true), "{} bytes", output.stdout.len());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[tokio::test]
async fn a_master_that_comes_back_at_its_address_is_found() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let child = lrun(&address, &["-v", "a"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    let key = stage.start().await.key;
    stage.peer.data(JOB, Channel::Stdout, 0, b"abc").await.expect("sent");
    drop((stage, master));
    let master = FakeMaster::start_at(&address).await.expect("the same address");
    let mut stage = Stage::client(&master).await;
    let attach = ClientToMaster::Attach { job: JOB, key, stdout: 3, stderr: 0, more: Vec::new() };
    assert_eq!(stage.hear().await, attach);
    stage.say(MasterToClient::Attached { job: JOB, stdin_offset: 0 }).await;
    stage.peer.data(JOB, Channel::Stdout, 0, b"abcdef\n").await.expect("sent");
    stage.end_streams(7, 0).await;
    stage.finish(Outcome::Exited(0)).await;
    let said = format!(
        "lrun: job 12 accepted\nlrun: job 12 runs on n1/cpu\n{AWAY}lrun: the master is back\n\
         lrun: job 12: n1: exited with code 0\n"
    );
    assert_eq!(end(child).await, format!("exit 0\n--- stdout\nabcdef\n--- stderr\n{said}"));
}

#[tokio::test]
async fn patience_ends() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let child = lrun(&address, &["-Q", "--reconnect-timeout", "200ms", "a"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    drop((stage, master));
    let said = format!(
        "lrun: error: cannot return to job 12: cannot connect to {address}: Connection refused (os error 111)\n\
         lrun: hint: the job continues without lrun: `lq show 12` when the master is back\n"
    );
    assert_eq!(end(child).await, format!("exit 125\n--- stdout\n--- stderr\n{said}"));
}

#[tokio::test]
async fn a_master_that_no_longer_knows_the_job_ends_lrun() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["a"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    drop(stage);
    let mut stage = Stage::client(&master).await;
    stage.hear().await;
    stage.say(MasterToClient::Refused { reason: "there is no job 12".into(), hint: None }).await;
    let said = format!("{AWAY}lrun: error: cannot return to job 12: there is no job 12\n");
    assert_eq!(end(child).await, format!("exit 125\n--- stdout\n--- stderr\n{said}"));
}

#[tokio::test]
async fn missing_output_of_a_lost_node_ends_the_wait() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["--reconnect-timeout", "1s", "a"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.peer.data(JOB, Channel::Stdout, 0, b"half").await.expect("sent");
    // The job succeeds, but its node disappears before the last output was read.
    stage.finish(Outcome::Exited(0)).await;
    let words = "lrun: error: the end of the job's output did not arrive within 1 s\n";
    assert_eq!(end(child).await, format!("exit 125\n--- stdout\nhalf--- stderr\n{words}"));
}
