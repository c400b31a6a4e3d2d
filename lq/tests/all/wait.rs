//! `lq wait` ends when the jobs end, even if the master is absent in between.

use limo_fake::{FakeMaster, answer, finished_job};
use limo_model::{JobId, Outcome};
use limo_proto::{Answer, Query, WaitQuery};

use crate::{answered, ask, lq};

#[tokio::test]
async fn the_highest_code_of_several() {
    let check = async |outcomes: Vec<Outcome>, code: u8| {
        let jobs = outcomes.into_iter().map(|outcome| finished_job(3, outcome)).collect();
        let (output, asked) = answered(&["wait", "3", "4"], answer(Answer::Jobs(jobs))).await;
        assert_eq!(output, format!("exit {code}\n--- stdout\n--- stderr\n"));
        assert_eq!(asked, [ask(Query::Wait(WaitQuery(vec![JobId(3), JobId(4)])))]);
    };
    check(vec![Outcome::Exited(0)], 0).await;
    check(vec![Outcome::Exited(7), Outcome::Exited(0)], 7).await;
    check(vec![Outcome::Exited(7), Outcome::Signaled(15)], 143).await;
    check(vec![Outcome::Lost { reason: String::new() }], 125).await;
}

#[tokio::test]
async fn a_wait_survives_a_restart_of_the_master() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let child = lq(&address, &["wait", "3"]).spawn().expect("lq");
    let mut peer = master.client().await.expect("a client");
    peer.hear().await.expect("a question");
    drop((peer, master));
    let master = FakeMaster::start_at(&address).await.expect("the same address");
    let mut peer = master.client().await.expect("a client");
    peer.hear().await.expect("the same question");
    peer.say(answer(Answer::Jobs(vec![finished_job(3, Outcome::Exited(5))]))).await.expect("said");
    let output = child.wait_with_output().await.expect("an end");
    assert_eq!(output.status.code(), Some(5));
    let said = "lq: the master went away; retrying for 60 s\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
}

#[tokio::test]
async fn patience_ends() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let child = lq(&address, &["wait", "3", "--reconnect-timeout", "100ms"]).spawn().expect("lq");
    let mut peer = master.client().await.expect("a client");
    peer.hear().await.expect("a question");
    drop((peer, master));
    let output = child.wait_with_output().await.expect("an end");
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("lq: error: cannot connect to {address}: Connection refused (os error 111)\n");
    assert!(said.contains(&expected), "{said}");
}
