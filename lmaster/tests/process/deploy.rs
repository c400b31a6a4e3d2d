//! The files of `deploy/`, and the messages to the service manager.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::lmaster;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

fn check(file: &Path) {
    let output = lmaster().args(["--check-config", "--state-dir", "/nowhere", "--config"]).arg(file).output();
    let output = output.expect("lmaster");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", file.display());
}

#[test]
fn the_example_configurations_of_the_master_are_valid() {
    for example in ["small-cluster", "power-limited", "pool"] {
        check(&deploy(&format!("examples/{example}-lmaster.toml")));
    }
}

/// A setting is commented out by `#` without a space, so that the file without these characters is valid.
#[test]
fn the_installed_configuration_of_the_master_has_comments_only_and_is_valid_without_them() {
    let text = std::fs::read_to_string(deploy("etc/lmaster.toml")).expect("a text");
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "a line is in force");
    let is_prose = |line: &str| line.starts_with("# ");
    let settings: Vec<_> =
        text.lines().filter(|line| !is_prose(line)).map(|line| line.trim_start_matches('#')).collect();
    assert!(settings.len() > 10, "{settings:?}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), settings.join("\n")).expect("written");
    check(file.path());
}

#[test]
fn the_service_manager_learns_that_the_master_is_ready_alive_and_stopping() {
    let dir = tempfile::tempdir().expect("a directory");
    let manager = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let mut command = lmaster();
    command.arg("--state-dir").arg(dir.path().join("state")).arg("--socket").arg(dir.path().join("run/master.sock"));
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let mut child = command.stderr(Stdio::null()).spawn().expect("lmaster starts");
    let mut buffer = [0; 64];
    let mut next = || {
        let length = manager.recv(&mut buffer).expect("a message within 30 s");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(next(), "READY=1\n");
    assert!(dir.path().join("run/master.sock").exists(), "a ready master listens");
    assert_eq!([next(), next()], ["WATCHDOG=1\n", "WATCHDOG=1\n"]);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), Signal::SIGTERM).expect("alive");
    assert!(std::iter::repeat_with(next).take(1000).any(|message| message == "STOPPING=1\n"));
    assert!(child.wait().expect("a child").success());
}
