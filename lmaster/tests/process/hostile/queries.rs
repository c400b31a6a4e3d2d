//! Attacks with queries and changes that every user may make: long lists, and expensive requests.

use limo_model::{JobId, Request};
use limo_proto::{
    Answer, Change, ClientToMaster, DryRunQuery, JobFilter, JobState, JobsQuery, MasterToClient, Query, SelectQuery,
    Selection,
};

use super::{ask, attack, cancel_all, queue, start};
use crate::harness::Client;

/// Returns the next answers and refusals; skips other messages.
async fn answers(client: &mut Client, count: usize) -> Vec<MasterToClient> {
    let mut answers = Vec::new();
    while answers.len() < count {
        let message = client.hear().await.expect("the master has not hung up");
        if matches!(message, MasterToClient::Answer(_) | MasterToClient::Refused { .. }) {
            answers.push(message);
        }
    }
    answers
}

#[test]
fn a_list_of_30_000_ended_jobs() {
    const COUNT: u64 = 30_000;
    let Some((_dir, master)) = start() else { return };
    queue(&master, COUNT);
    attack(&master, async || {
        let mut client = Client::new(&master).await;
        cancel_all(&mut client).await;
        for _ in 0..3 {
            let list = Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 40_000 });
            client.say(ask(list)).await;
            let mut told = 0;
            loop {
                match client.hear().await.expect("the master has not hung up") {
                    MasterToClient::Piece(piece) => {
                        let Answer::Jobs(jobs) = *piece else { panic!("another answer") };
                        told += jobs.len() as u64;
                    }
                    MasterToClient::Answer(answer) => {
                        let Answer::Jobs(jobs) = *answer else { panic!("another answer") };
                        told += jobs.len() as u64;
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(told >= COUNT, "{told} jobs");
        }
    });
}

#[test]
fn requests_that_cost_much() {
    let Some((_dir, master)) = start() else { return };
    queue(&master, 10_000);
    let all = || (1..=10_000).map(JobId).collect::<Vec<_>>();
    attack(&master, async || {
        let mut client = Client::new(&master).await;
        let names = || (0..1_000).map(|number| format!("{number:0>250}")).collect();
        let filter = JobFilter { names: names(), users: names(), ..JobFilter::default() };
        let states = JobFilter { states: vec![JobState::Running; 1_000], ..JobFilter::default() };
        let mut count = 0;
        for filter in [filter, states] {
            let selection = Selection { which: Vec::new(), filter };
            client.say(ask(Query::Select(SelectQuery { selection, live: true }))).await;
            count += 1;
        }
        for change in [Change::Hold(all()), Change::Release(all()), Change::Cancel(all())] {
            client.say(ask(Query::DryRun(DryRunQuery(Box::new(Request::one_core("cg")))))).await;
            client.say(ClientToMaster::ChangeConf(Box::new(change))).await;
            count += 2;
        }
        for answer in answers(&mut client, count).await {
            assert!(matches!(answer, MasterToClient::Answer(_)), "{answer:?}");
        }
    });
}

#[test]
fn requests_that_are_refused_do_not_fill_the_log() {
    let Some((_dir, master)) = start() else { return };
    attack(&master, async || {
        for _ in 0..50 {
            let mut client = Client::new(&master).await;
            for _ in 0..1_000 {
                // This signal does not exist.
                client.say(ClientToMaster::Signal { job: JobId(1), signal: 0 }).await;
            }
            answers(&mut client, 1_000).await;
        }
    });
    let lines = master.lines();
    assert!(lines.len() < 100, "{} lines for 50,000 refusals", lines.len());
}
