//! Callers over TLS: certificates let nodes and users in, and each refusal is in the audit log.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::SystemTime;

use limo_identity::{
    ALPN, Authority, Certificate, CertifiedRole, Identity, KeyRequest, Life, certificate_pem, certificates, server_name,
};
use limo_tests::{Cluster, finish, programs, until};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::secured::{Secured, own_name};

#[test]
fn jobs_run_over_tls() {
    let secured = Secured::start();
    let _node = secured.node("n1", &secured.issue("node", "n1", "1d"), "n1");
    secured.cluster.await_node("n1");
    let operator = secured.issue("operator", &own_name(), "1h");
    assert_eq!(secured.run("lrun", &operator, &["echo", "hello"]).succeeded(), "hello\n");
    // Larger than every buffer on the way.
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut child = secured.client("lrun", &operator, &["cat"]).stdin(Stdio::piped()).spawn().expect("built");
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writing = thread::spawn(move || stdin.write_all(&sent).expect("written"));
    let output = child.wait_with_output().expect("ended");
    writing.join().expect("no panic");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == bytes, "{} bytes of {}", output.stdout.len(), bytes.len());
    secured.run("lconf", &operator, &["drain", "n1", "--reason", "repair"]).succeeded();
    secured.audits(&["asked", &own_name(), "n1"]);
}

#[test]
fn the_certificate_of_a_user_gives_no_more_than_the_rights_of_the_user() {
    let secured = Secured::start();
    let own = own_name();
    // Every Linux has this user. The user of the master is an operator only with the certificate of one.
    let user = if own == "root" { "daemon" } else { &own };
    let certificate = secured.issue("user", user, "1h");
    secured.run("lq", &certificate, &["nodes"]).succeeded();
    let reason = format!("only an operator may do that, not {user}");
    secured.run("lconf", &certificate, &["set", "mode", "low"]).failed(&reason);
    secured.audits(&["refused", user, "may do that"]);
    let root = secured.issue("user", "root", "1h");
    secured.run("lq", &root, &["nodes"]).failed("root needs the certificate of an operator, not of a user");
    secured.audits(&["refused", "/user/root", "root needs the certificate of an operator"]);
}

#[test]
fn a_caller_without_a_certificate_is_refused_and_audited() {
    let secured = Secured::start();
    let authorities = certificates(&fs::read(secured.authority().join("ca.pem")).expect("a file")).expect("PEM");
    let mut store = RootCertStore::empty();
    authorities.into_iter().for_each(|authority| store.add(authority).expect("a root"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS");
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let name = ServerName::try_from(server_name(cluster_of(&secured))).expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut stream = StreamOwned::new(session, TcpStream::connect(secured.host()).expect("a listener"));
    let error = stream.read(&mut [0; 1]).expect_err("refused").to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
    secured.audits(&["refused", "127.0.0.1", "peer sent no certificates"]);
}

fn cluster_of(secured: &Secured) -> limo_model::ClusterId {
    let own = fs::read(secured.authority().join("identity.pem")).expect("a file");
    Certificate::read(&certificates(&own).expect("PEM")[0]).expect("an identity").identity.cluster()
}

#[test]
fn a_certificate_of_another_authority_is_refused_and_audited() {
    let secured = Secured::start();
    let other = Authority::new(cluster_of(&secured), SystemTime::now()).expect("an authority");
    let request = KeyRequest::new().expect("a key");
    let identity = Identity::new(other.cluster(), CertifiedRole::Operator, &own_name()).expect("a name");
    let life = Life::of(CertifiedRole::Operator);
    let (_, certificate) = other.sign(request.request(), &identity, life, SystemTime::now()).expect("signed");
    let forged = secured.issue("operator", &own_name(), "1h");
    // The mode of the file stays.
    fs::write(forged.join("identity.pem"), request.key_pem() + &certificate_pem(&certificate)).expect("written");
    secured.run("lq", &forged, &["nodes"]).failed("fatal alert");
    secured.audits(&["refused", "127.0.0.1", "invalid peer certificate"]);
}

#[test]
fn an_expired_certificate_is_refused_and_its_connection_closed() {
    let secured = Secured::start();
    let operator = secured.issue("operator", &own_name(), "3s");
    // The job waits for a node, so the client stays connected.
    let mut client = secured.client("lrun", &operator, &["true"]).spawn().expect("a program that is built");
    until("the master closes the connection", || {
        secured.cluster.master_log().contains("the certificate has expired").then_some(())
    });
    secured.audits(&["refused", "127.0.0.1", "certificate expired"]);
    client.kill().expect("an own child");
    client.wait().expect("an own child");
}

#[test]
fn a_revoked_certificate_is_refused_and_its_connection_closed() {
    let secured = Secured::start();
    let _node = secured.node("n1", &secured.issue("node", "n1", "1d"), "n1");
    secured.cluster.await_node("n1");
    assert!(secured.cert(&["list"]).contains("valid"));
    secured.cert(&["revoke", "node/n1"]);
    assert!(secured.cert(&["list"]).contains("revoked"));
    until("the node is away", || {
        secured.cluster.node_report("n1").is_some_and(|node| node["state"] != "up").then_some(())
    });
    secured.audits(&["refused", "/node/n1", "the certificate is revoked"]);
}

#[test]
fn a_certificate_of_the_wrong_role_is_refused_and_audited() {
    let secured = Secured::start();
    let node = secured.issue("node", "n1", "1d");
    secured.run("lq", &node, &["nodes"]).failed("the certificate is of role node, which may only run a node");
    secured.audits(&["refused", "/node/n1", "may only run a node"]);
    let operator = secured.issue("operator", &own_name(), "1h");
    let _node = secured.node("n1", &operator, "n1");
    secured.audits(&["refused", "/operator/", "may not run nodes"]);
}

#[test]
fn the_key_of_a_node_is_of_no_use_on_another_node() {
    let secured = Secured::start();
    let certificate = secured.issue("node", "n1", "1d");
    let _node = secured.node("n1", &certificate, "n1");
    secured.cluster.await_node("n1");
    let _other_name = secured.node("n2", &certificate, "n2");
    secured.audits(&["refused", "node n1", "the certificate is of node `n1`, not of `n2`"]);
    let _same_name = secured.node("n1", &certificate, "thief");
    secured.audits(&["refused", "node n1", "in use by another node"]);
    assert_eq!(secured.cluster.node_report("n1").expect("known")["state"], "up");
}

#[test]
fn replayed_bytes_are_refused_and_audited() {
    let secured = Secured::start();
    let operator = secured.issue("operator", &own_name(), "1h");
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tls://{}", proxy.local_addr().expect("bound"));
    let (host, record) = (secured.host(), Arc::clone(&recorded));
    let relaying = thread::spawn(move || {
        let (caller, _) = proxy.accept().expect("a caller");
        let master = TcpStream::connect(host).expect("a listener");
        let (mut from, mut to) = (master.try_clone().expect("a copy"), caller.try_clone().expect("a copy"));
        let back = thread::spawn(move || {
            // The caller may close the connection first.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        relay(caller, master, &record);
        back.join().expect("no panic");
    });
    let mut command = secured.client("lq", &operator, &["nodes"]);
    finish(command.env("LIMO_MASTER", address).spawn().expect("built")).succeeded();
    relaying.join().expect("no panic");
    let bytes = recorded.lock().expect("no panic").clone();
    assert!(bytes.len() > 800, "{} bytes are too few for a handshake with a certificate", bytes.len());
    let mut replay = TcpStream::connect(secured.host()).expect("a listener");
    replay.write_all(&bytes).expect("written");
    let mut answer = Vec::new();
    // The master may reset the connection, because it does not read what follows the handshake.
    let _ = replay.read_to_end(&mut answer);
    secured.audits(&["refused", "127.0.0.1", "cannot decrypt peer's message"]);
}

/// Passes bytes on, and records them, until the caller ends.
fn relay(mut caller: TcpStream, mut master: TcpStream, record: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = caller.read(&mut buffer) {
        record.lock().expect("no panic").extend_from_slice(&buffer[..count]);
        if master.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The master may have closed the connection.
    let _ = master.shutdown(Shutdown::Write);
}

/// Runs `lconf cluster init` in a new directory of a cluster.
fn init(cluster: &Cluster, name: &str, arguments: &[&str]) -> String {
    let dir = cluster.submitter().path(name).display().to_string();
    let words: Vec<&str> = ["cluster", "init", "--dir", &dir].iter().chain(arguments).copied().collect();
    cluster.submitter().lconf(&words).succeeded();
    dir
}

#[test]
fn a_master_refuses_the_certificates_of_another_cluster() {
    let mut cluster = Cluster::of_one_node(1);
    cluster.submitter().lrun(&["true"]).succeeded();
    cluster.kill_master();
    let start = |dir: &str| {
        let mut command = programs::command("lmaster");
        command.args(["--tls-listen", "127.0.0.1:0", "--tls-dir", dir, "--state-dir"]).arg(cluster.state_dir());
        command.arg("--socket").arg(cluster.submitter().path("second.sock"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("a program that is built")
    };
    let other = init(&cluster, "other", &[]);
    let ran = finish(start(&other));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let (_, hint) = ran.stderr.split_once("lconf cluster init --cluster ").expect("a hint");
    let own = init(&cluster, "own", &["--cluster", &hint[..32]]);
    let mut master = start(&own);
    until("the master listens", || cluster.state_dir().join("tls-address").exists().then_some(()));
    master.kill().expect("an own child");
    master.wait().expect("an own child");
}
