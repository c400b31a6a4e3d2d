//! Certificates that are renewed by themselves, and those that users get by a login.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use limo_identity::{Certificate, certificates};
use limo_tests::{Person, finish, programs, until};

use crate::secured::Secured;

fn read(directory: &Path) -> Certificate {
    let text = fs::read(directory.join("identity.pem")).expect("a file");
    Certificate::read(&certificates(&text).expect("PEM")[0]).expect("an identity")
}

/// Returns the number of certificates that were issued to an owner.
fn issued(secured: &Secured, role: &str, name: &str) -> usize {
    let is_one = |line: &&str| line.split_whitespace().take(2).eq([role, name]);
    secured.cert(&["list"]).lines().filter(is_one).count()
}

#[test]
fn nodes_and_masters_renew_their_certificates_and_jobs_go_on() {
    let secured = Secured::of_authority(&["--life", "6s"], &["--tls-life", "6s"]);
    let submitter = secured.cluster.submitter();
    let token = submitter.lconf(&["cluster", "join-token"]).succeeded();
    let directory = secured.dir.path().join("n1-tls");
    let mut command = programs::command("lslave");
    command.args(["join", token.trim(), "--master", &secured.address(), "--name", "n1"]);
    command.env("LIMO_TLS_DIR", &directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("a program that is built")).succeeded();
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
