//! Messages and connections.

pub mod messages {
    //! Frames of all kinds of peers.

    use bytes::Bytes;
    use limo_proto::{ClientToMaster, EnrolAnswer, EnrolRequest, Frame, MasterToClient, MasterToNode, NodeToMaster};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use crate::input::{choice, chosen};

    pub const WORDS: &[&str] = &[];

    /// The golden bytes of each message.
    const GOLDEN: &str = include_str!("../../proto/tests/golden/v2.txt");

    /// Kinds of messages, and the enums within them that have golden bytes.
    const KINDS: [&[&str]; 6] = [
        &["NodeToMaster", "AttemptState", "Outcome"],
        &["MasterToNode"],
        &["ClientToMaster", "Query", "Selector", "Change"],
        &["MasterToClient", "Answer", "Wait"],
        &["EnrolRequest"],
        &["EnrolAnswer"],
    ];

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, body) = choice(bytes, KINDS.len());
        match kind {
            0 => frame::<NodeToMaster>(body),
            1 => frame::<MasterToNode>(body),
            2 => frame::<ClientToMaster>(body),
            3 => frame::<MasterToClient>(body),
            4 => frame::<EnrolRequest>(body),
            _ => frame::<EnrolAnswer>(body),
        }
    }

    fn frame<M: Serialize + DeserializeOwned>(body: &[u8]) -> bool {
        let Ok(frame) = Frame::<M>::decode(Bytes::copy_from_slice(body)) else { return false };
        // A message that was received is not too long to be sent.
        let bytes = frame.encode().expect("a frame that was decoded can be encoded");
        let again = Frame::<M>::decode(bytes.clone());
        assert!(again.is_ok_and(|again| again.encode().is_ok_and(|again| again == bytes)), "another frame comes back");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let seed = |line: &str| {
            let (name, hex) = line.split_once(' ')?;
            let of = name.split(':').next()?;
            let kind = KINDS.iter().position(|names| names.contains(&of))?;
            let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
            let body: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
            Some(chosen(u8::try_from(kind).ok()?, body?))
        };
        let data =
            chosen(0, [&[2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], b"text"].concat());
        GOLDEN.lines().filter_map(seed).chain([data]).collect()
    }
}

pub mod connection {
    //! Bytes of a caller, from its greeting on: the same frames are read at once and in pieces.

    use std::cell::RefCell;
    use std::os::unix::net::UnixStream as StdStream;
    use std::time::Duration;

    use limo_proto::{
        ClientToMaster, Connection, Identity, MasterToClient, MasterToNode, NodeToMaster, Role, accept, connect_over,
    };
    use serde::de::DeserializeOwned;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::runtime::{Builder, Runtime};

    use super::messages;

    pub const WORDS: &[&str] = &[];

    /// Longer than any test, and never waited for.
    const LIMIT: Duration = Duration::from_secs(60);

    thread_local! {
        // A runtime without threads needs a few descriptors only.
        static RUNTIME: RefCell<Runtime> =
            RefCell::new(Builder::new_current_thread().enable_all().build().expect("a runtime"));
    }

    pub fn read(bytes: &[u8]) -> bool {
        let (whole, pieces) = RUNTIME.with_borrow(|runtime| {
            runtime.block_on(async { (received(bytes, bytes.len().max(1)).await, received(bytes, 7).await) })
        });
        assert_eq!(whole, pieces, "another result in pieces");
        whole.last().is_some_and(|last| last == "closed")
    }

    /// Returns what the reader of the bytes tells, up to its error or the end.
    async fn received(bytes: &[u8], piece: usize) -> Vec<String> {
        // A pair of sockets needs no more than descriptors.
        let (ours, theirs) = StdStream::pair().expect("sockets");
        let stream = |stream: StdStream| {
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        };
        // As above.
        let (mut ours, theirs) = (stream(ours).expect("a socket"), stream(theirs).expect("a socket"));
        let writes = async {
            for part in bytes.chunks(piece) {
                if ours.write_all(part).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let _ = ours.shutdown().await;
        };
        let reads = async {
            let greeted = match accept(theirs, LIMIT, Identity::default()).await {
                Ok(greeted) => greeted,
                Err(error) => return vec![error.to_string()],
            };
            let mut told = vec![format!("{:?}", greeted.role)];
            match greeted.role {
                Role::Node => items::<NodeToMaster, MasterToNode>(greeted.into_connection(), &mut told).await,
                _ => items::<ClientToMaster, MasterToClient>(greeted.into_connection(), &mut told).await,
            }
            told
        };
        tokio::pin!(reads);
        // Nobody writes any more once the reader has given up: a full socket would not take the bytes, and a closed one
        // would raise a signal.
        tokio::select! {
            told = &mut reads => told,
            () = writes => reads.await,
        }
    }

    async fn items<In: DeserializeOwned + std::fmt::Debug, Out>(
        mut connection: Connection<In, Out>,
        told: &mut Vec<String>,
    ) {
        loop {
            match connection.reader.receive().await {
                Ok(Some(item)) => told.push(format!("{item:?}")),
                Ok(None) => return told.push("closed".to_owned()),
                Err(error) => return told.push(error.to_string()),
            }
        }
    }

    /// Returns what a caller sends first.
    async fn greeting(role: Role) -> Vec<u8> {
        // As in `received`.
        let (caller, mut master) = UnixStream::pair().expect("sockets");
        let mut bytes = vec![0; 4];
        let read = async {
            master.read_exact(&mut bytes).await?;
            let length = bytes.first_chunk().map_or(0, |head| u32::from_be_bytes(*head) as usize);
            bytes.resize(4 + length, 0);
            master.read_exact(&mut bytes[4..]).await
        };
        tokio::select! {
            _ = connect_over::<(), ()>(caller.into(), role) => {}
            _ = read => {}
        }
        bytes
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        RUNTIME.with_borrow(|runtime| {
            let framed = |kind: u8| -> Vec<Vec<u8>> {
                let of_kind = messages::seeds().into_iter().filter(|seed| seed[0] == kind);
                let length = |body: &[u8]| u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
                of_kind.map(|seed| [&length(&seed[1..])[..], &seed[1..]].concat()).collect()
            };
            let mut seeds = Vec::new();
            for (role, kind) in [(Role::Node, 0), (Role::Client, 2)] {
                let greeting = runtime.block_on(greeting(role));
                let frames = framed(kind);
                seeds.extend(frames.chunks(5).map(|frames| [&greeting[..], &frames.concat()].concat()));
            }
            seeds
        })
    }
}

pub mod shepherds {
    //! Orders, answers and plans between a node and its shepherds.

    use limo_shepherd::{Answer, Order, Plan};

    use crate::input::{choice, chosen};

    pub const WORDS: &[&str] = &[];

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, bytes) = choice(bytes, 3);
        match kind {
            0 => back(bytes, |bytes| Order::decode(bytes).ok(), Order::encode),
            1 => back(bytes, |bytes| Answer::decode(bytes).ok(), Answer::encode),
            _ => back(bytes, |bytes| Plan::decode(bytes).ok(), Plan::encode),
        }
    }

    fn back<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<T>, encode: impl Fn(&T) -> Vec<u8>) -> bool {
        let Some(value) = decode(bytes) else { return false };
        let bytes = encode(&value);
        assert!(decode(&bytes).is_some_and(|again| encode(&again) == bytes), "another message comes back");
        true
    }

    /// The golden bytes of each message.
    const GOLDEN: &str = include_str!("../../shepherd/tests/golden/messages.txt");

    pub fn seeds() -> Vec<Vec<u8>> {
        let seed = |line: &str| {
            let (name, hex) = line.split_once(": ")?;
            let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?;
            // Orders and answers have the same form, and often both are decoded.
            let kinds = (0..3).filter(|kind| read(&chosen(*kind, &bytes)));
            assert!(!name.is_empty());
            Some(kinds.map(|kind| chosen(kind, &bytes)).collect::<Vec<_>>())
        };
        let plan = Plan { argv: vec![b"sh".to_vec(), b"-c".to_vec()], directory: b"/".to_vec(), ..Plan::default() };
        GOLDEN.lines().filter_map(seed).flatten().chain([chosen(2, plan.encode())]).collect()
    }
}
