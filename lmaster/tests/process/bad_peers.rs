//! Peers that break the protocol. The master tells each the reason if it can, and continues to serve others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::harness::{Client, Master, Node, slave};
use limo_proto::{MasterToNode, Query, Role, StatusQuery};
use limo_requirements::{Requirement, skip};

/// Returns the greeting of a client that speaks versions `oldest` to `newest`.
fn greeting(oldest: u8, newest: u8) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 8, 0];
    frame.extend(b"LIMO");
    frame.extend([1, oldest, newest]);
    frame
}

fn call(master: &Master, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&master.address).expect("a master");
    stream.write_all(bytes).expect("sent");
    stream
}

/// Returns everything that comes until the master closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // If the master left bytes unread, it closes the connection with a reset.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn bad_peers_are_disconnected_and_others_are_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let mut good = Client::new(&master).await;

    let answer = rest(call(&master, &greeting(1, 1)));
    assert!(answer.contains("use programs of one release of Limo"), "{answer}");
    let answer = rest(call(&master, &greeting(9, 9)));
    assert!(
        answer.contains("the peer speaks versions 9 to 9 of the protocol: this program speaks version 2"),
        "{answer}"
    );
    let answer = rest(call(&master, b"\0\0\0\x05hello"));
    assert!(answer.contains("this is not Limo's protocol") || answer.is_empty(), "{answer}");
    master.logged("this is not Limo's protocol");
    // The limit is 4 KiB before the peer is known, and 1 MiB afterwards.
    rest(call(&master, b"\0\0\x20\0hello"));
    let mut oversized = greeting(2, 2);
    oversized.extend([0, 0x20, 0, 0, 1]);
    rest(call(&master, &oversized));
    let line = master.logged("violates the protocol");
    assert!(line.contains("the limit is 1048576"), "{line}");
    let mut malformed = greeting(2, 2);
    malformed.extend([0, 0, 0, 2, 1, 99]);
    rest(call(&master, &malformed));
    master.logged("violates the protocol");
    let mut truncated = greeting(2, 2);
    truncated.extend([0, 0, 0, 100, 1, 2, 3]);
    let mut stream = call(&master, &truncated);
    stream.read_exact(&mut [0; 5]).expect("a greeting");
    drop(stream);
    master.logged("connection broke");

    good.ask(Query::Status(StatusQuery)).await;
}

#[tokio::test]
async fn a_name_in_use_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let _first = Node::register(&master, "n1", Vec::new()).await;
    let mut second = Node::call(&master, Role::Node).await;
    let mut other = slave("n1", Vec::new());
    other.slave.journal = second.connection.identity.journal;
    other.slave.instance = "another".into();
    for message in other.into_messages() {
        second.say(message).await;
    }
    let reason = "the node name `n1` is in use by another node".into();
    assert_eq!(second.hear().await, Some(MasterToNode::Refused { reason }));
    assert_eq!(second.hear().await, None);
}

#[test]
fn other_users_run_no_nodes() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Requirement::Root, "only root can start a process of another user");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let (_, port) = master.address.rsplit_once(':').expect("a port");
    let script = format!(r"exec 3<>/dev/tcp/127.0.0.1/{port}; printf '\0\0\0\10\0LIMO\0\2\2' >&3; cat <&3");
    let answer = Command::new("bash").args(["-c", &script]).uid(1).gid(1).output().expect("bash");
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.contains("may not run nodes: only root and the user that runs the master may"), "{answer}");
}
