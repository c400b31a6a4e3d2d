//! Users of a submit host, whose relay asserts who they are.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use limo_tests::{Person, Ran, finish, until};
use tempfile::TempDir;

use crate::secured::Secured;

/// A relay with its socket, which is killed when dropped.
struct Relay {
    child: Child,
    dir: TempDir,
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Relay {
    fn start(secured: &Secured) -> Self {
        let words = ["cluster", "join-token", "--role", "submit-host", "--name", "login1"];
        let token = secured.cluster.submitter().lconf(&words).succeeded();
        let certificate = secured.dir.path().join("login1-tls");
        let out = certificate.display().to_string();
        let words = ["cluster", "join", token.trim(), "--role", "submit-host", "--name", "login1", "--out", &out];
        assert!(secured.run("lconf", &certificate, &words).succeeded().contains("/submit-host/login1"));
        let dir = tempfile::tempdir().expect("a directory");
        // Other users must reach the socket.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("own directory");
        let socket = dir.path().join("relay.sock");
        let words = ["cluster", "relay", "--socket", &socket.display().to_string()];
        let mut command = secured.client("lconf", &certificate, &words);
        let child = command.stderr(Stdio::null()).spawn().expect("a program that is built");
        until("the relay listens", || socket.exists().then_some(()));
        Self { child, dir }
    }

    fn address(&self) -> String {
        format!("unix:{}", self.dir.path().join("relay.sock").display())
    }

    fn run(&self, user: &Person, program: &str, arguments: &[&str]) -> Ran {
        let mut command = user.command(program, arguments);
        finish(command.env("LIMO_MASTER", self.address()).spawn().expect("executable"))
    }
}

#[test]
fn users_of_a_submit_host_run_jobs_under_their_own_names() {
    let secured = Secured::start();
    let _node = secured.node("n1", &secured.issue("node", "n1", "1d"), "n1");
    secured.cluster.await_node("n1");
    let Some(user) = Person::of(secured.cluster.submitter(), "daemon", &["lrun", "lq", "lconf"]) else { return };
    let relay = Relay::start(&secured);
    assert_eq!(relay.run(&user, "lrun", &["id", "-un"]).succeeded(), "daemon\n");
    let job = relay.run(&user, "lrun", &["--detach", "sleep", "1000"]).succeeded();
    let job = job.trim();
    assert!(relay.run(&user, "lq", &["show", job]).succeeded().contains("sleep 1000"), "the owner sees the command");
    relay.run(&user, "lconf", &["set", "mode", "low"]).failed("only an operator may do that, not daemon");
    relay.run(&user, "lq", &["cancel", job]).succeeded();
}

#[test]
fn a_submit_host_cannot_assert_root_or_an_operator() {
    // The first group of the other user.
    let secured = Secured::start_with(&["--admin-group", "daemon"]);
    let Some(admin) = Person::of(secured.cluster.submitter(), "daemon", &["lq"]) else { return };
    let relay = Relay::start(&secured);
    relay.run(&admin, "lq", &["nodes"]).failed("a submit host may not act for daemon");
    secured.audits(&["refused", "/submit-host/login1", "may not act for daemon"]);
    let mut command = secured.cluster.submitter().command("lq", &["nodes"]);
    finish(command.env("LIMO_MASTER", relay.address()).spawn().expect("built")).failed("may not act for root");
    secured.audits(&["refused", "/submit-host/login1", "may not act for root"]);
}

#[test]
fn the_certificate_of_a_submit_host_is_of_no_use_without_a_user() {
    let secured = Secured::start();
    let certificate = secured.issue("submit-host", "login1", "1h");
    secured.run("lq", &certificate, &["nodes"]).failed("a submit host must name the user for whom it acts");
    secured.audits(&["refused", "/submit-host/login1", "must name the user"]);
    let _node = secured.node("login1", &certificate, "n1");
    secured.audits(&["refused", "/submit-host/login1", "may not run nodes"]);
}
