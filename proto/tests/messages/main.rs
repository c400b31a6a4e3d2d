//! Every message is decoded as it was sent. All other bytes are decoded or refused, within bounded memory. Peers with
//! another protocol get an error. This test counts allocations to check the bounds.

mod any;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use limo_model::{Attempt, JobId, Power};
use limo_proto::{
    BODY_LIMIT, Channel, ClientToMaster, Data, EnrolAnswer, EnrolRequest, Frame, Launch, MasterToClient, MasterToNode,
    NodeQuery, NodeToMaster, Query, Sample, StreamId, decode_stored, encode_stored,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use any::*;

/// The system's allocator, with the sum of the current thread's allocations.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged; the counter is a plain thread-local number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn data<M>() -> impl Strategy<Value = Frame<M>>
where
    M: std::fmt::Debug,
{
    (stream(), any::<u64>(), vec(any::<u8>(), 0..1000))
        .prop_map(|(stream, offset, bytes)| Frame::Data(Data { stream, offset, bytes: Bytes::from(bytes) }))
}

fn check_back<M>(frame: &Frame<M>)
where
    M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let bytes = frame.encode().expect("it is small");
    assert_eq!(&Frame::<M>::decode(bytes).expect("just encoded"), frame);
}

/// Checks that decoding allocates a small multiple of the body plus a fixed sum: serde reserves at most 1 MiB for a
/// list with a claimed length, and lists nest four deep in these messages.
fn check_bounded<M: DeserializeOwned>(body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    let size = body.len();
    let before = ASKED.with(Cell::get);
    drop(Frame::<M>::decode(body));
    let asked = ASKED.with(Cell::get) - before;
    assert!(asked <= 5 * BODY_LIMIT + 64 * size, "{asked} bytes for a body of {size}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_nodes_message_comes_back(message in from_node(), data in data()) {
        check_back(&Frame::Message(message));
        check_back::<NodeToMaster>(&data);
    }

    #[test]
    fn a_message_to_a_node_comes_back(message in to_node()) {
        check_back(&Frame::Message(message));
    }

    #[test]
    fn a_clients_message_comes_back(message in from_client()) {
        check_back(&Frame::Message(message));
    }

    #[test]
    fn a_message_to_a_client_comes_back(message in to_client()) {
        check_back(&Frame::Message(message));
    }

    #[test]
    fn any_bytes_are_bounded(mut body in vec(any::<u8>(), 0..2_000), kind in 0..4_u8) {
        if let Some(first) = body.first_mut() {
            *first = kind;
        }
        check_bounded::<NodeToMaster>(&body);
        check_bounded::<MasterToNode>(&body);
        check_bounded::<ClientToMaster>(&body);
        check_bounded::<MasterToClient>(&body);
        check_bounded::<EnrolRequest>(&body);
        check_bounded::<EnrolAnswer>(&body);
    }

    #[test]
    fn a_damaged_message_is_bounded(message in to_node(), at in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
        let mut body = Frame::Message(message).encode().expect("it is small").to_vec();
        let at = at % body.len();
        body[at] = byte;
        body.truncate(1 + cut % body.len());
        check_bounded::<MasterToNode>(&body);
    }

    #[test]
    fn stored_values_are_read_back_equal(launch in launch()) {
        let bytes = encode_stored(&launch).expect("it is small");
        prop_assert_eq!(decode_stored::<Launch>(&bytes).expect("just stored"), launch);
    }
}

#[test]
fn refusals_name_the_error() {
    let check = |body: &[u8], expected: &str| {
        let refused = Frame::<NodeToMaster>::decode(Bytes::copy_from_slice(body)).expect_err("refused");
        assert_eq!(refused.to_string(), expected);
    };
    check(&[], "an empty frame");
    check(&[9, 1, 2], "a frame of the unknown kind 9");
    check(&[2, 0, 0], "a data frame of 2 bytes is shorter than its head of 21");
    check(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "a data frame of the unknown channel 3");
    let too_large = Frame::Message(ClientToMaster::Ask(Box::new(Query::Node(NodeQuery("x".repeat(BODY_LIMIT))))));
    let refused = too_large.encode().expect_err("refused").to_string();
    assert!(refused.ends_with("bytes: the limit is 1048576"), "{refused}");
    let stored = decode_stored::<Launch>(&[99, 0]).expect_err("refused").to_string();
    assert_eq!(stored, "stored in format 99: this program reads 1");
}

#[test]
fn a_hostile_length_allocates_nothing() {
    // This is JobRefused for job 1, attempt 1, with a reason of 2^32 bytes that do not follow.
    let body = [1, 2, 1, 1, 253, 0, 0, 0, 0, 1, 0, 0, 0];
    let before = ASKED.with(Cell::get);
    let refused = Frame::<NodeToMaster>::decode(Bytes::copy_from_slice(&body)).expect_err("refused").to_string();
    let asked = ASKED.with(Cell::get) - before;
    assert!(asked < 10_000, "{asked} bytes");
    assert_eq!(refused, "the message is malformed: LimitExceeded");
}

#[test]
fn a_curve_or_band_that_cannot_be_is_refused() {
    // This is ChangeConf with prices: Some curve without steps and without an end.
    let refused =
        |body: &[u8]| Frame::<ClientToMaster>::decode(Bytes::copy_from_slice(body)).expect_err("refused").to_string();
    assert!(
        refused(&[1, 5, 4, 1, 0, 0]).contains("a curve needs at least one value"),
        "{}",
        refused(&[1, 5, 4, 1, 0, 0])
    );
    // This is Limits: one step at 0 with low 2 mW and high 1 mW.
    let crossed = refused(&[1, 5, 1, 1, 0, 4, 2, 0]);
    assert!(crossed.contains("is above the upper limit"), "{crossed}");
}

/// Checks the bytes of version 1. If this test fails, the version must change.
#[test]
fn golden_bytes() {
    let check = |frame: Frame<NodeToMaster>, expected: &[u8]| assert_eq!(frame.encode().expect("small"), expected);
    let (job, attempt) = (JobId(300), Attempt(2));
    // The bytes are kind 1, variant 1, 300 as a 16-bit varint, and 2.
    check(Frame::Message(NodeToMaster::JobAck { job, attempt }), &[1, 1, 251, 44, 1, 2]);
    // 41.5 W are 41,500 mW, zigzag 83,000 as a 32-bit varint.
    check(
        Frame::Message(NodeToMaster::Reading(Sample::once(Power::from_mw(41_500)))),
        &[1, 5, 252, 56, 68, 1, 0, 252, 56, 68, 1, 0, 252, 56, 68, 1, 0, 252, 56, 68, 1, 0, 1],
    );
    let stream = StreamId::new(JobId(1), Channel::Stdout);
    let data = Data { stream, offset: 258, bytes: Bytes::from_static(b"hi") };
    check(Frame::Data(data), &[2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, b'h', b'i']);
}

/// Returns the change of a group's limit.
fn limit() -> limo_proto::Change {
    limo_proto::Change::GroupLimit { group: "rack".into(), limit: limo_model::Power::from_watts(90) }
}
