//! Machines join with a token, each once, and every refusal is in the audit log.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use limo_identity::{Fingerprint, certificates, joiner};
use limo_tests::{LIMIT, Person, Ran, finish, programs};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::net::TcpSocket;

use crate::secured::{Secured, own_name};

/// Makes a token on the machine of the master.
fn token(secured: &Secured, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = ["cluster", "join-token"].iter().chain(arguments).copied().collect();
    secured.cluster.submitter().lconf(&arguments).succeeded().trim().to_owned()
}

/// Returns the directory for the certificate of a machine.
fn place(secured: &Secured, name: &str) -> PathBuf {
    secured.dir.path().join(format!("{name}-tls"))
}

/// Joins as a node. The command does not say from which machine it is.
fn join(secured: &Secured, token: &str, name: &str) -> Ran {
    let mut command = programs::command("lslave");
    command.args(["join", token, "--master", &secured.address(), "--name", name]);
    command.env("LIMO_TLS_DIR", place(secured, name)).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("a program that is built"))
}

fn refused(ran: &Ran, words: &str) {
    assert!(ran.code == Some(1) && ran.stderr.contains(words), "not 1 and `{words}`: {ran:?}");
}

#[test]
fn a_node_joins_with_a_token_and_runs_jobs() {
    let secured = Secured::start();
    let token = token(&secured, &["--name", "n1"]);
    let said = join(&secured, &token, "n1").succeeded();
    assert!(said.contains("node n1 joined") && said.contains(&secured.address()), "{said}");
    let directory = place(&secured, "n1");
    let mode = |name: &str| fs::metadata(directory.join(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("identity.pem")), (0o700, 0o600));
    secured.audits(&["issued", "/node/n1", "127.0.0.1", "joined with token"]);
    assert!(secured.cert(&["list"]).contains("n1"), "it can be revoked");
    let _node = secured.node("n1", &directory, "n1");
    secured.cluster.await_node("n1");
    assert_eq!(secured.cluster.submitter().lrun(&["echo", "hello"]).succeeded(), "hello\n");
    refused(&join(&secured, &token, "n1"), "this machine has joined a cluster");
}

#[test]
fn a_used_token_is_refused_and_audited() {
    let secured = Secured::start();
    let token = token(&secured, &[]);
    join(&secured, &token, "n1").succeeded();
    refused(&join(&secured, &token, "n2"), "the token is unknown: it was used, or has expired");
    assert!(!place(&secured, "n2").join("identity.pem").exists());
    secured.audits(&["refused", "127.0.0.1", "node/n2", "the token is unknown"]);
}

#[test]
fn an_expired_token_is_refused_and_audited() {
    let secured = Secured::start();
    let token = token(&secured, &["--expires", "1h"]);
    let path = secured.authority().join("tokens");
    let line = fs::read_to_string(&path).expect("stored");
    let secret = token.rsplit('.').next().expect("a part");
    assert!(!line.contains(secret), "only a hash is stored: {line}");
    // The end is the last word, here one second after 1970 began.
    let (rest, _) = line.trim_end().rsplit_once(' ').expect("words");
    fs::write(&path, format!("{rest} 1\n")).expect("written");
    refused(&join(&secured, &token, "n1"), "the token has expired");
    secured.audits(&["refused", "127.0.0.1", "node/n1", "the token has expired"]);
    let ran = secured.cluster.submitter().lconf(&["cluster", "join-token", "--expires", "8d"]);
    ran.failed("a token cannot be valid for 8d: it must be 1s to 7d");
}

#[test]
fn a_token_does_not_give_the_name_of_another_machine() {
    let secured = Secured::start();
    let _certificate = secured.issue("node", "n1", "1d");
    let of_any = token(&secured, &[]);
    refused(&join(&secured, &of_any, "n1"), "node/n1 has a valid certificate (lconf cert revoke node/n1");
    secured.audits(&["refused", "node/n1", "has a valid certificate"]);
    let of_one = token(&secured, &["--name", "n3"]);
    refused(&join(&secured, &of_one, "n2"), "the token is for the name n3, not for n2");
    secured.audits(&["refused", "node/n2", "the token is for the name n3"]);
    // Neither refusal has used up its token.
    join(&secured, &of_any, "n2").succeeded();
    join(&secured, &of_one, "n3").succeeded();
}

#[test]
fn a_master_with_another_authority_gets_no_token() {
    let (secured, other) = (Secured::start(), Secured::start());
    let token = token(&other, &[]);
    refused(&join(&secured, &token, "n1"), "UnknownIssuer");
    secured.audits(&["refused", "127.0.0.1", "received fatal alert"]);
    join(&other, &token, "n1").succeeded();
    refused(&join(&secured, "limo1.00", "n1"), "this is not a token");
}

#[test]
fn a_machine_with_the_role_read_only_can_only_ask() {
    let secured = Secured::start();
    let token = token(&secured, &["--role", "read-only", "--name", "graphs"]);
    refused(&join(&secured, &token, "graphs"), "the token is for the role read-only, not for node");
    secured.audits(&["refused", "127.0.0.1", "node/graphs", "the token is for the role read-only"]);
    let out = place(&secured, "graphs");
    let words = ["cluster", "join", &token, "--name", "graphs", "--out", &out.display().to_string()];
    assert!(secured.run("lconf", &out, &words).succeeded().contains("/read-only/graphs"));
    secured.run("lq", &out, &["nodes"]).succeeded();
    secured.run("lconf", &out, &["status", "--json"]).succeeded();
    for words in [&["lrun", "true"][..], &["lconf", "set", "mode", "low"], &["lq", "cancel", "1"]] {
        secured.run(words[0], &out, &words[1..]).failed("the certificate is of role read-only, which may only ask");
    }
    secured.audits(&["refused", "/read-only/graphs", "may only ask"]);
    let _node = secured.node("graphs", &out, "n1");
    secured.audits(&["refused", "/read-only/graphs", "may not run nodes"]);
    assert!(secured.run("lconf", &out, &["cert", "renew"]).succeeded().contains("/read-only/graphs"));
    secured.audits(&["issued", "/read-only/graphs", "renewed"]);
}

#[test]
fn only_operators_make_tokens() {
    let secured = Secured::start();
    let certificate = secured.issue("operator", &own_name(), "1h");
    let remote = secured.run("lconf", &certificate, &["cluster", "join-token"]);
    remote.failed("tokens are made on the machine of the master");
    secured.audits(&["refused", "/operator/", "tokens are made on the machine of the master"]);
    let Some(person) = Person::of(secured.cluster.submitter(), "daemon", &["lconf"]) else { return };
    person.run("lconf", &["cluster", "join-token"]).failed("only an operator may make tokens, not daemon");
    secured.audits(&["refused", "daemon", "only an operator may make tokens"]);
}

/// Shakes hands as a machine that joins, and sends bytes. Returns the answer until the end of the connection.
fn stranger(secured: &Secured, bytes: &[u8]) -> Vec<u8> {
    stranger_on(secured, TcpStream::connect(secured.host()).expect("a listener"), bytes)
}

fn stranger_on(secured: &Secured, tcp: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let authority = certificates(&fs::read(secured.authority().join("ca.pem")).expect("a file")).expect("PEM");
    let config = joiner(Fingerprint::of(&authority[0]).expect("a certificate")).expect("settings");
    let name = ServerName::try_from("master.limo.internal").expect("a name");
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a session"), tcp);
    stream.write_all(bytes).expect("written");
    let mut answer = Vec::new();
    // The master may end the connection without a farewell.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The greeting of a client with version 2: its length, its kind, and 7 bytes.
const CLIENT: &[u8] = b"\0\0\0\x08\0LIMO\x01\x02\x02";

#[test]
fn a_machine_without_a_certificate_can_only_join_and_has_little_time() {
    let secured = Secured::start_with(&["--greeting-time", "1s"]);
    let answer = stranger(&secured, CLIENT);
    assert!(String::from_utf8_lossy(&answer).contains("without a certificate a machine can only join"), "{answer:?}");
    secured.audits(&["refused", "127.0.0.1", "can only join"]);
    stranger(&secured, b"\0\0\0\x08\0LIMO\x02\x02\x02");
    secured.audits(&["refused", "127.0.0.1", "no request for a certificate within 1 s"]);
    // A frame of 4097 bytes is announced after the greeting.
    stranger(&secured, b"\0\0\0\x08\0LIMO\x02\x02\x02\0\0\x10\x01");
    secured.audits(&["refused", "127.0.0.1", "a frame of 4097 bytes: the limit is 4096"]);
}

/// Connects from an address of this machine.
fn connect_from(from: &str, to: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(format!("{from}:0").parse().expect("an address")).expect("bound");
        socket.connect(to.parse().expect("an address")).await.expect("connected").into_std().expect("a stream")
    });
    stream.set_nonblocking(false).expect("an open socket");
    stream.set_read_timeout(Some(LIMIT)).expect("positive");
    stream
}

#[test]
fn idle_connections_of_one_address_leave_room_for_others() {
    // Longer than the test.
    let secured = Secured::start_with(&["--greeting-time", "10min"]);
    let connect = |_| TcpStream::connect(secured.host()).expect("a listener");
    // The limit of one address is 32.
    let open: Vec<TcpStream> = (0..32).map(connect).collect();
    let read = connect_from("127.0.0.1", &secured.host()).read(&mut [0; 1]);
    let is_closed = read.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |count| *count == 0);
    assert!(is_closed, "the master closes the connection above the limit: {read:?}");
    let answer = stranger_on(&secured, connect_from("127.0.0.2", &secured.host()), CLIENT);
    assert!(String::from_utf8_lossy(&answer).contains("a machine can only join"), "{answer:?}");
    drop(open);
}
