//! State directories of earlier programs: they open with any version of the protocol.

use std::fs;
use std::path::Path;

use limo_proto::JobState;

use crate::harness::{Client, Master};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

/// Uses the state of a killed master of schema version 4; see `tests/fixtures/make.sh`.
#[tokio::test]
async fn a_journal_of_protocol_version_1_opens_and_its_jobs_continue() {
    let dir = tempfile::tempdir().expect("a directory");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/schema-4/master"), dir.path());
    let master = Master::start(dir.path());
    let mut client = Client::new(&master).await;
    let states: Vec<_> = client.jobs().await.iter().map(|job| (job.job.0, job.state)).collect();
    let running = JobState::Running;
    let expected = [(1, JobState::Completed), (2, JobState::Waiting), (3, running), (4, running), (5, running)];
    assert_eq!(states, expected);
    assert!(!dir.path().join("nodes").exists(), "it is in the journal now");
    let master = master.killed(dir.path());
    let again: Vec<_> = Client::new(&master).await.jobs().await.iter().map(|job| (job.job.0, job.state)).collect();
    assert_eq!(again, states);
}
