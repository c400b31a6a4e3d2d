//! Certificates that are renewed by themselves, and those that users get by a login.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use limo_identity::{Certificate, certificates};
use limo_tests::{Person, Ran, finish, programs, until};

use crate::secured::{Secured, own_name};

fn read(directory: &Path) -> Certificate {
    let text = fs::read(directory.join("identity.pem")).expect("a file");
    Certificate::read(&certificates(&text).expect("PEM")[0]).expect("an identity")
}

/// Returns the number of certificates that were issued to an owner.
fn issued(secured: &Secured, role: &str, name: &str) -> usize {
    let is_one = |line: &&str| line.split_whitespace().take(2).eq([role, name]);
    secured.cert(&["list"]).lines().filter(is_one).count()
}

/// Joins as a node. Returns the directory of its certificate.
fn join(secured: &Secured, name: &str) -> PathBuf {
    let token = secured.cluster.submitter().lconf(&["cluster", "join-token"]).succeeded();
    let directory = secured.dir.path().join(format!("{name}-tls"));
    let mut command = programs::command("lslave");
    command.args(["join", token.trim(), "--master", &secured.address(), "--name", name]);
    command.env("LIMO_TLS_DIR", &directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("a program that is built")).succeeded();
    directory
}

#[test]
fn nodes_and_masters_renew_their_certificates_and_jobs_go_on() {
    let secured = Secured::of_authority(&["--life", "6s"], &["--tls-life", "6s"]);
    let submitter = secured.cluster.submitter();
    let directory = join(&secured, "n1");
    let (first, first_of_master) = (read(&directory), read(&secured.authority()));
    let _node = secured.node("n1", &directory, "n1");
    secured.cluster.await_node("n1");
    // Longer than the life of the first certificates.
    let ran = submitter.spawn_lrun(&["sh", "-c", "sleep 9; echo done"]);
    until("two renewals", || (issued(&secured, "node", "n1") >= 3).then_some(()));
    assert_eq!(finish(ran).succeeded(), "done\n");
    secured.audits(&["issued", "/node/n1", "renewed"]);
    let (last, last_of_master) = (read(&directory), read(&secured.authority()));
    assert_eq!((&last.identity, &last_of_master.identity), (&first.identity, &first_of_master.identity));
    assert!(last.serial != first.serial && last.until > first.until, "{last:?}");
    assert!(last_of_master.serial != first_of_master.serial && last_of_master.until > first_of_master.until);
    // The node connects again with its new certificate.
    assert_eq!(submitter.lrun(&["echo", "again"]).succeeded(), "again\n");
    assert_eq!(secured.cluster.node_report("n1").expect("known")["state"], "up");
}

/// Runs `lconf cert rotate`.
fn rotate(secured: &Secured, arguments: &[&str]) -> Ran {
    let mut command = programs::command("lconf");
    command.args(["cert", "rotate"]).args(arguments).arg("--dir").arg(secured.authority());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program that is built"))
}

fn authorities(directory: &Path) -> usize {
    certificates(&fs::read(directory.join("ca.pem")).expect("a file")).expect("PEM").len()
}

#[test]
fn the_authority_is_replaced_while_nodes_stay_connected() {
    // Nodes compare their authorities after a tenth of the life.
    let secured = Secured::start_with(&["--tls-life", "30s"]);
    let early = secured.issue("operator", &own_name(), "1h");
    let directory = join(&secured, "n1");
    let _node = secured.node("n1", &directory, "n1");
    secured.cluster.await_node("n1");
    rotate(&secured, &["--finish"]).failed("no rotation has begun");
    assert!(rotate(&secured, &[]).succeeded().contains("fingerprint"));
    rotate(&secured, &[]).failed("a rotation has begun");
    // Both authorities are trusted, and machines can still join.
    secured.run("lq", &early, &["nodes"]).succeeded();
    let late = secured.issue("operator", &own_name(), "2h");
    secured.run("lq", &late, &["nodes"]).succeeded();
    join(&secured, "n2");
    until("the node has both authorities", || (authorities(&directory) == 2).then_some(()));
    rotate(&secured, &["--finish", "--force"]).succeeded();
    until("the node has the new authority only", || (authorities(&directory) == 1).then_some(()));
    secured.run("lq", &late, &["nodes"]).succeeded();
    secured.run("lq", &early, &["nodes"]).failed("invalid peer certificate");
    assert_eq!(secured.cluster.submitter().lrun(&["echo", "hello"]).succeeded(), "hello\n");
}

#[test]
fn a_rotation_does_not_leave_owners_behind_unless_forced() {
    let secured = Secured::start();
    let early = secured.issue("node", "n1", "1h");
    rotate(&secured, &[]).succeeded();
    rotate(&secured, &["--finish"]).failed("these have no certificate of the new authority: node/n1");
    secured.run("lq", &secured.issue("operator", &own_name(), "1h"), &["nodes"]).succeeded();
    secured.cert(&["issue", "node", "n1", "--life", "1h", "--out", &early.display().to_string()]);
    rotate(&secured, &["--finish"]).succeeded();
    let _node = secured.node("n1", &early, "n1");
    secured.cluster.await_node("n1");
}

#[test]
fn a_user_logs_in_on_the_machine_of_the_master_and_runs_jobs_from_another() {
    let secured = Secured::start();
    let _node = secured.node("n1", &secured.issue("node", "n1", "1d"), "n1");
    secured.cluster.await_node("n1");
    let Some(user) = Person::of(secured.cluster.submitter(), "daemon", &["lrun", "lq"]) else { return };
    let directory = user.submitter.path("tls");
    let said = user.run("lrun", &["login", "--out", "tls", "--life", "1h"]).succeeded();
    assert!(said.contains("/user/daemon\n") && said.contains("valid until"), "{said}");
    secured.audits(&["issued", "/user/daemon", "logged in"]);
    let mut command = user.command("lrun", &["id", "-un"]);
    command.env("LIMO_MASTER", secured.address()).env("LIMO_TLS_DIR", &directory);
    assert_eq!(finish(command.spawn().expect("executable")).succeeded(), "daemon\n");
    let mut command = user.command("lrun", &["login"]);
    command.env("LIMO_MASTER", secured.address()).env("LIMO_TLS_DIR", &directory);
    finish(command.spawn().expect("executable")).failed("users log in on the machine of the master");
    secured.audits(&["refused", "/user/daemon", "users log in on the machine"]);
    let root = secured.cluster.submitter().lrun(&["login", "--out", "tls"]);
    root.failed("root needs the certificate of an operator, not of a user");
}
