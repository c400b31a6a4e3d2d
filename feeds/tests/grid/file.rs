//! Files of other programs: complete, incomplete, renamed and missing ones.

use std::path::Path;
use std::time::SystemTime;

use limo_feeds::grid::contact::{self, Contact};
use limo_feeds::grid::file::{Watched, run};
use limo_model::Power;

use crate::{Ear, POLL};

fn watch(path: &Path) -> Ear {
    let (teller, ear) = Ear::new();
    tokio::spawn(run(Watched { path: path.to_owned(), poll: POLL }, teller));
    ear
}

#[tokio::test]
async fn a_file_is_taken_when_it_is_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("limit.json");
    let mut ear = watch(&path);
    ear.fault("limit.json: No such file or directory").await;
    std::fs::write(&path, "{\"high_w\": 500}").expect("written");
    assert_eq!(ear.watts(1).await, [500.0]);
    // A half-written file causes a fault, and never changes the limits.
    std::fs::write(&path, "{\"high_w\": 4").expect("written");
    ear.fault("limit.json: not JSON: EOF").await;
    std::fs::write(&path, "{\"high_w\": 400}").expect("written");
    assert_eq!(ear.watts(1).await, [400.0]);
    let other = dir.path().join("other");
    std::fs::write(&other, "[]").expect("written");
    std::fs::rename(&other, &path).expect("renamed");
    assert!(ear.watts(0).await.is_empty());
    std::fs::remove_file(&path).expect("removed");
    ear.fault("No such file").await;
}

#[tokio::test]
async fn a_touched_file_is_a_sign_of_life_without_a_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("limit.toml");
    std::fs::write(&path, "high_w = 500\n").expect("written");
    let mut ear = watch(&path);
    let first = ear.next().await;
    let later = SystemTime::now() + std::time::Duration::from_secs(5);
    std::fs::File::options().write(true).open(&path).expect("there").set_modified(later).expect("touched");
    assert_eq!(ear.next().await, first);
}

#[tokio::test]
async fn an_invalid_file_of_limits_is_a_fault() {
    let dir = tempfile::tempdir().expect("a directory");
    watch(dir.path()).fault("is not a regular file").await;
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    watch(&pipe).fault("is not a regular file").await;
    let long = dir.path().join("long.json");
    std::fs::write(&long, "x".repeat((1 << 20) + 1)).expect("written");
    watch(&long).fault("is longer than 1048576 bytes").await;
    let bytes = dir.path().join("bytes.toml");
    std::fs::write(&bytes, [0xff, 0xfe, 0]).expect("written");
    watch(&bytes).fault("bytes.toml: not TOML: ").await;
}

#[tokio::test]
async fn a_contact_limits_while_it_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("value");
    std::fs::write(&path, "0\n").expect("written");
    let (teller, mut ear) = Ear::new();
    let contact = Contact { path: path.clone(), active_low: false, high: Power::from_watts(300), poll: POLL };
    tokio::spawn(contact::run(contact, teller));
    assert!(ear.watts(0).await.is_empty());
    std::fs::write(&path, "1\n").expect("written");
    assert_eq!(ear.watts(1).await, [300.0]);
    std::fs::write(&path, "").expect("written");
    ear.fault("value: `` is neither 0 nor 1").await;
}
