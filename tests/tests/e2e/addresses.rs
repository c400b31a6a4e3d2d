//! Several addresses of one master: a client and a node use the first one that answers as the master.

use std::net::TcpListener;

use limo_tests::finish;

use crate::secured::{Secured, own_name};

/// Returns an address without a listener, that of a listener that closes each connection, and that of the master of
/// another cluster.
fn others(stranger: &Secured) -> [String; 3] {
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let closing = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closes = closing.local_addr().expect("bound");
    // The thread ends with the test.
    std::thread::spawn(move || closing.incoming().for_each(drop));
    [unused.to_string(), closes.to_string(), stranger.host()]
}

#[test]
fn a_client_and_a_node_use_the_next_address_if_the_first_is_dead_or_refuses() {
    let (secured, stranger) = (Secured::start(), Secured::start());
    for (number, other) in (1..).zip(others(&stranger)) {
        let addresses = format!("tls://{other},{}", secured.host());
        let name = format!("n{number}");
        let _node = secured.node_at(&addresses, &name, &secured.issue("node", &name, "1d"), &name);
        secured.cluster.await_node(&name);
        let user = secured.issue("operator", &own_name(), "1h");
        let mut lrun = secured.client("lrun", &user, &["-w", &name, "echo", "done"]);
        let ran = finish(lrun.env("LIMO_MASTER", &addresses).spawn().expect("a program that is built"));
        assert_eq!(ran.succeeded(), "done\n", "{addresses}");
    }
    let mut alone = secured.client("lq", &secured.issue("operator", &own_name(), "1h"), &["nodes"]);
    let refused = finish(alone.env("LIMO_MASTER", stranger.address()).spawn().expect("a program that is built"));
    assert_ne!(refused.code, Some(0), "the other master has another authority: {refused:?}");
}
