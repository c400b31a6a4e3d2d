//! Jobs with large environments leave neither memory nor a large journal behind after they are cancelled.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use limo_model::JobId;
use limo_proto::{Answer, Change, ClientToMaster, Io, JobQuery, MasterToClient, Query, Selection, Selector};

use crate::harness::{Client, Master, exec};

const JOBS: u64 = 100;
const ENVIRONMENT: usize = 1_000_000;

/// Returns a detached job with a large environment.
fn large(number: u64) -> ClientToMaster {
    let ClientToMaster::SendExec(mut submission) = exec(1) else { panic!("another message") };
    submission.key[..8].copy_from_slice(&number.to_le_bytes());
    submission.launch.io = Io::Detached;
    submission.launch.env = vec![(format!("V{number}").into_bytes(), vec![b'x'; ENVIRONMENT])];
    ClientToMaster::SendExec(submission)
}

fn journal(state: &Path) -> u64 {
    let bytes = |name| fs::metadata(state.join(name)).map_or(0, |metadata| metadata.len());
    bytes("journal.db") + bytes("journal.db-wal")
}

#[tokio::test]
async fn cancelled_jobs_give_memory_and_journal_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, config) = (dir.path().join("state"), dir.path().join("lmaster.toml"));
    fs::write(&config, "[limits]\nlaunches = \"2GiB\"\nall_launches = \"2GiB\"\nsubmissions = \"2GiB\"\n")
        .expect("written");
    let master = Master::start_with(&state, "127.0.0.1:0", &["--config", config.to_str().expect("text")]);
    let mut client = Client::new(&master).await;
    let (idle, mut longest) = (master.memory(), Duration::ZERO);
    for number in 0..JOBS {
        client.say(large(number)).await;
        let accepted = |message: &MasterToClient| matches!(message, MasterToClient::Accepted { .. }).then_some(());
        client.hear_of(accepted).await;
    }
    let (full, stored) = (master.memory(), journal(&state));
    assert!(stored > JOBS * ENVIRONMENT as u64, "each environment is stored: {stored} bytes");
    assert!(stored < JOBS * ENVIRONMENT as u64 * 11 / 10 + (16 << 20), "and stored once: {stored} bytes");
    let change = Change::CancelSelected { selection: Selection::from(vec![Selector::All]), signal: None };
    client.say(ClientToMaster::ChangeConf(Box::new(change))).await;
    client.hear_of(|message| matches!(message, MasterToClient::Answer(_)).then_some(())).await;
    // The journal is compacted without a request, and other clients are served meanwhile.
    let end = Instant::now() + Duration::from_secs(60);
    let mut clock = tokio::time::interval(Duration::from_millis(10));
    while journal(&state) > 8 << 20 || master.memory() > idle + (32 << 10) {
        assert!(Instant::now() < end, "{} bytes of journal, {} KiB of memory", journal(&state), master.memory());
        clock.tick().await;
        let begun = Instant::now();
        client.ask(Query::Job(JobQuery(JobId(JOBS)))).await;
        longest = longest.max(begun.elapsed());
    }
    println!(
        "{JOBS} jobs: memory {idle} KiB idle, {full} KiB full, {} KiB after; journal {stored} bytes full, {} bytes after; \
         longest answer {longest:?}",
        master.memory(),
        journal(&state)
    );
    // These programs are not optimized, and other tests run at the same time.
    assert!(longest < Duration::from_secs(5), "an answer took {longest:?}");
    client.say(ClientToMaster::ChangeConf(Box::new(Change::CompactJournal))).await;
    let answer = client.hear_of(|message| match message {
        MasterToClient::Answer(answer) => Some(answer.as_ref().clone()),
        _ => None,
    });
    let Answer::Compacted(sizes) = answer.await else { panic!("another answer") };
    assert!(sizes.after <= sizes.before && sizes.after <= 8 << 20, "{sizes:?}");
    assert_eq!(client.jobs().await.len(), usize::try_from(JOBS).expect("few"));
}
