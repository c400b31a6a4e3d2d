//! The files of `deploy/`, and the messages to the service manager.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::master::{Daemon, Master};

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}

fn check(file: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lslave"));
    command.env_clear().args(["--check-config", "--name", "n1", "--config"]).arg(file);
    let output = command.output().expect("lslave");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", file.display());
}

#[test]
fn the_example_configurations_of_nodes_are_valid() {
    for example in ["small-cluster", "power-limited", "pool"] {
        check(&deploy(&format!("examples/{example}-lslave.toml")));
    }
}

/// A setting is commented out by `#` without a space, so that the file without these characters is valid.
#[test]
fn the_installed_configuration_of_a_node_has_comments_only_and_is_valid_without_them() {
    let text = std::fs::read_to_string(deploy("etc/lslave.toml")).expect("a text");
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "a line is in force");
    let is_prose = |line: &str| line.starts_with("# ");
    let settings: Vec<_> =
        text.lines().filter(|line| !is_prose(line)).map(|line| line.trim_start_matches('#')).collect();
    assert!(settings.len() > 8, "{settings:?}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), settings.join("\n")).expect("written");
    check(file.path());
}

#[tokio::test]
async fn the_service_manager_learns_that_the_node_is_ready_alive_and_stopping() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let master = Master::new().await;
    let mut daemon = Daemon::start_changed(&master, &[], |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    });
    let next = || {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).expect("a message within 30 s");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!([next(), next(), next()], ["READY=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n"]);
    daemon.signal(Signal::SIGTERM);
    assert!(std::iter::repeat_with(next).take(1000).any(|message| message == "STOPPING=1\n"));
    assert!(daemon.wait().success());
}
