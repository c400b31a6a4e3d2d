//! Callers that the master has not accepted yet. A user who calls often does not block others.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use limo_tests::Setup;

/// Number of callers: more than a listener accepts by default, but less than every Linux allows.
const CALLERS: usize = 1000;

/// Longest wait of a caller with an immediate place. A caller over TCP without a place retries after a second.
const AT_ONCE: Duration = Duration::from_millis(500);

#[test]
fn a_thousand_callers_wait_for_a_busy_master() {
    let cluster = Setup::nodes(1, 1).over_tcp().start();
    let address: SocketAddr = cluster.submitter().address.parse().expect("an address");
    // A stopped master is the extreme case of a busy one.
    cluster.stop_master();
    let callers: Vec<_> = (0..CALLERS).map(|_| TcpStream::connect_timeout(&address, AT_ONCE)).collect();
    cluster.continue_master();
    let refused = callers.iter().filter_map(|caller| caller.as_ref().err()).next();
    assert!(refused.is_none(), "{refused:?}");
    drop(callers);
    cluster.submitter().lrun(&["-Q", "true"]).succeeded();
}

#[test]
fn a_thousand_callers_wait_at_the_socket_of_a_busy_master() {
    let cluster = Setup::nodes(1, 1).start();
    let address = cluster.submitter().address.clone();
    let path = address.strip_prefix("unix:").expect("a socket").to_owned();
    cluster.stop_master();
    // A call without a place would wait until the master accepts one.
    let (told, tell) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let callers: Vec<_> = (0..CALLERS).map(|_| UnixStream::connect(&path).expect("a place")).collect();
        let _ = told.send(callers);
    });
    let callers = tell.recv_timeout(Duration::from_secs(10));
    cluster.continue_master();
    assert_eq!(callers.map(|callers| callers.len()), Ok(CALLERS));
    cluster.submitter().lrun(&["-Q", "true"]).succeeded();
}
