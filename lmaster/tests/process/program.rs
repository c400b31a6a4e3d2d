//! The program: its configuration, its signals, its exit codes.

use std::os::unix::fs::PermissionsExt;

use crate::harness::{Client, Master, lmaster};
use limo_proto::{Answer, Query, StatusQuery};
use limo_requirements::{Requirement, skip};
use nix::sys::signal::{SIGHUP, SIGTERM};

/// Returns exit code, stdout and stderr with `options`.
fn run(options: &[&str]) -> (Option<i32>, String, String) {
    let output = lmaster().args(options).output().expect("lmaster");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn it_listens_to_this_machine_only() {
    let (code, out, err) = run(&["--state-dir", "/nowhere", "--listen", "0.0.0.0:6817"]);
    let reason = "lmaster: cannot listen on 0.0.0.0:6817: without certificates Limo serves only its own machine (use \
                  127.0.0.1:6817, or --tls-listen 0.0.0.0:6817 for other machines)\n";
    assert_eq!((code, out.as_str(), err.as_str()), (Some(1), "", reason));
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let places = ["--state-dir", &path("state"), "--socket", &path("socket")];
    let (code, out, err) = run(&[&places[..], &["--tls-listen", "127.0.0.1:0"]].concat());
    let reason =
        format!("cannot listen over TLS: run `lconf cluster init` first: cannot read {}", path("state/tls/ca.pem"));
    assert!(code == Some(1) && out.is_empty() && err.contains(&reason), "{err}");
}

#[test]
fn a_configuration_is_checked_without_starting_anything() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lmaster.toml");
    let state = dir.path().join("state");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("written");
        let file = file.to_str().expect("text");
        run(&["--check-config", "--config", file, "--state-dir", state.to_str().expect("text")])
    };
    assert_eq!(check("kill_grace = \"5s\"\n"), (Some(0), "the configuration is valid\n".into(), String::new()));
    let (code, _, err) = check("kill_grace = \"5s\"\nkill_grase = \"5s\"\n");
    assert!(code == Some(1) && err.contains("line 2") && err.contains("unknown field `kill_grase`"), "{err}");
    let (code, _, err) = check("kill_grace = 5\n");
    assert!(code == Some(1) && err.contains("`5` has no unit"), "{err}");
    assert!(!state.exists());
    let (code, _, err) = run(&["--kill-grce", "5s"]);
    assert!(code == Some(125) && err.contains("--kill-grace"), "{err}");
}

#[test]
fn one_master_for_one_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let _first = Master::start(dir.path());
    let (code, _, err) = run(&["--socket", "/dev/null/none", "--state-dir", dir.path().to_str().expect("text")]);
    assert!(code == Some(1) && err.contains("is in use by another master"), "{err}");
}

/// Starts a master while a killed one is ending: the kernel may take a while to free its lock, memory and address.
#[test]
fn a_master_starts_while_a_killed_one_is_still_ending() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut master = Master::start(dir.path());
    let address = master.address.clone();
    for _ in 0..30 {
        master = master.replaced(dir.path());
        assert_eq!(master.address, address);
    }
}

#[tokio::test]
async fn hang_up_reads_the_configuration_again_and_terminate_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lmaster.toml");
    std::fs::write(&file, "[initial]\nhigh = \"90 W\"\npolicy = \"fifo\"\n").expect("written");
    let options = ["--config", file.to_str().expect("text")];
    let master = Master::start_with(&dir.path().join("state"), "127.0.0.1:0", &options);
    let Answer::Status(status) = Client::new(&master).await.ask(Query::Status(StatusQuery)).await else {
        panic!("no status")
    };
    assert_eq!((status.band.high().to_string().as_str(), status.policy.name()), ("90.0 W", "fifo"));
    std::fs::write(&file, "log = \"lmaster=loud\"\n").expect("written");
    master.signal(SIGHUP);
    master.logged("the configuration stays unchanged");
    std::fs::write(&file, "log = \"debug\"\n[policy]\ndepth = 7\n").expect("written");
    master.signal(SIGHUP);
    master.logged("configuration read again");
    master.signal(SIGTERM);
    assert_eq!(master.wait(), Some(0));
}

/// Lets another user change the state directory: the master does not start and does not follow links in it.
#[test]
fn a_state_directory_of_others_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    std::fs::create_dir(&state).expect("made");
    let socket = dir.path().join("master.sock");
    let refused = |expected: &str| {
        let state = state.to_str().expect("text");
        let (code, _, err) = run(&["--state-dir", state, "--socket", socket.to_str().expect("text")]);
        assert!(code == Some(1) && err.contains("the state directory is not safe") && err.contains(expected), "{err}");
    };
    let mode = |mode| std::fs::set_permissions(&state, std::fs::Permissions::from_mode(mode)).expect("own directory");
    mode(0o777);
    refused("can be written by other users (mode 0777)");
    mode(0o700);
    let target = dir.path().join("target");
    std::os::unix::fs::symlink(&target, state.join("address.tmp")).expect("a link");
    refused("address.tmp is a symbolic link");
    assert!(!target.exists(), "nothing was written through the link");
    std::fs::remove_file(state.join("address.tmp")).expect("own link");
    if std::os::unix::fs::chown(&state, Some(65_533), None).is_err() {
        return skip(Requirement::Root, "only root can give a directory away");
    }
    refused("belongs to uid 65533");
    assert!(std::fs::read_dir(&state).expect("readable").next().is_none(), "nothing was made there");
}
