//! Attacks on the level of bytes: messages that never end, and messages that are refused.

use std::time::Duration;

use limo_proto::raise_descriptor_limit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{attack, start};

/// Longest wait: more than the 10 s that a message may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the greeting of a client, then a message of 1 MiB without its last byte.
fn half_sent() -> Vec<u8> {
    const BODY: u32 = 1 << 20;
    let mut bytes = b"\0\0\0\x08\0LIMO\x01\x02\x02".to_vec();
    bytes.extend(BODY.to_be_bytes());
    // The first byte announces a message.
    bytes.resize(bytes.len() + BODY as usize - 1, 1);
    bytes
}

#[test]
fn messages_that_never_end() {
    let Some((_dir, master)) = start() else { return };
    raise_descriptor_limit().expect("an own limit");
    attack(&master, async || {
        let mut told = JoinSet::new();
        for _ in 0..1_000 {
            let mut stream = TcpStream::connect(&master.address).await.expect("a master");
            told.spawn(async move {
                let (mut read, mut write) = stream.split();
                let mut answer = Vec::new();
                // The master does not read all bytes, and may reset the connection.
                let _ = tokio::join!(async { write.write_all(&half_sent()).await }, read.read_to_end(&mut answer));
                String::from_utf8_lossy(&answer).into_owned()
            });
        }
        let answer = tokio::time::timeout(PATIENCE, told.join_next()).await.expect("one is hung up on");
        let answer = answer.expect("1,000 of them").expect("no panic");
        assert!(
            answer.contains("did not arrive completely within 10 s") && answer.contains("limits.reading"),
            "{answer}"
        );
        told
    });
}
