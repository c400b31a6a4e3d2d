//! Any message comes back as it was sent; any bytes decode or are refused, within bounded memory; peers that do not speak
//! this protocol are told so. The allocator of this test counts, so that "bounded" is measured.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use limo_model::{
    Attempt, Band, Budget, Budgets, Cores, Curve, Energy, JobId, Memory, Meter, NodeId, NodeSpec, Outcome, Part, Power,
    Price, Release, Request, Span, Time, UnitId, UnitKind, UnitSpec, Usage,
};
use limo_proto::{
    AttemptReport, AttemptState, BODY_LIMIT, Change, Channel, ClientToMaster, Data, DoExec, Frame, Io, Launch,
    MasterToClient, MasterToNode, NewSlave, NodeToMaster, Query, Sample, SendExec, StreamId, decode_stored,
    encode_stored,
};
use limo_sched::{ModeSetting, Preset, Wait};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The system's allocator, which keeps the sum of what the current thread asked for.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator unchanged; the counter is a plain thread-local number.
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

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..12).prop_map(|chars| chars.into_iter().collect())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn power() -> impl Strategy<Value = Power> {
    any::<i64>().prop_map(Power::from_mw)
}

fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time::from_unix_ms)
}

fn ids() -> impl Strategy<Value = (JobId, Attempt)> {
    (any::<u64>(), any::<u32>()).prop_map(|(job, attempt)| (JobId(job), Attempt(attempt)))
}

fn stream() -> impl Strategy<Value = StreamId> {
    let channel = prop_oneof![Just(Channel::Stdin), Just(Channel::Stdout), Just(Channel::Stderr)];
    (any::<u64>(), channel).prop_map(|(job, channel)| StreamId { job: JobId(job), channel })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u8>().prop_map(Outcome::Exited),
        any::<i32>().prop_map(Outcome::Signaled),
        (any::<u8>(), text()).prop_map(|(code, reason)| Outcome::NotStarted { code, reason }),
        text().prop_map(|reason| Outcome::Lost { reason }),
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<i64>(), any::<u64>(), proptest::option::of(any::<i64>())).prop_map(|(ms, rss, energy)| Usage {
        elapsed: Span::from_ms(ms),
        user_cpu: Span::from_ms(ms / 2),
        system_cpu: Span::ZERO,
        max_rss: Memory::from_bytes(rss),
        energy: energy.map(Energy::from_mj),
    })
}

fn request() -> impl Strategy<Value = Request> {
    let cores = prop_oneof![Just(Cores::All), any::<std::num::NonZeroU32>().prop_map(Cores::Count)];
    (text(), cores, any::<bool>(), proptest::option::of(time()), vec(text(), 0..3)).prop_map(
        |(name, cores, immediate, deadline, names)| Request {
            user: name.clone(),
            name: name.clone(),
            application: name.clone(),
            size: name,
            nodes: std::num::NonZeroU32::MIN,
            cores,
            memory: Memory::from_bytes(7),
            time_limit: deadline.map(|at| Span::from_ms(at.unix_ms())),
            immediate,
            deadline,
            start_by: deadline,
            include: names.clone(),
            exclude: names.clone(),
            hardware: names.clone(),
            variants: names,
            may_suspend: immediate,
            may_requeue: !immediate,
            filler: immediate,
        },
    )
}

fn launch() -> impl Strategy<Value = Launch> {
    (vec(bytes(), 1..4), vec((text(), vec(bytes(), 1..3)), 0..2), vec((bytes(), bytes()), 0..4), any::<u32>()).prop_map(
        |(argv, variants, env, number)| Launch {
            cwd: argv[0].clone(),
            argv,
            variants,
            env,
            umask: number,
            uid: number,
            io: if number % 2 == 0 { Io::Attached } else { Io::Detached },
        },
    )
}

fn spec() -> impl Strategy<Value = NodeSpec> {
    (text(), vec((text(), power(), any::<bool>(), any::<u32>()), 0..4), power()).prop_map(|(name, units, idle)| {
        let unit = |(name, nameplate, cpu, cores): (String, Power, bool, u32)| UnitSpec {
            hardware: name.clone(),
            name,
            kind: if cpu { UnitKind::Cpu } else { UnitKind::Accelerator },
            cores,
            nameplate,
            caps: cpu.then_some((nameplate, nameplate)),
        };
        let units = units.into_iter().map(unit).collect();
        NodeSpec { name, units, memory: Memory::from_bytes(1), idle, meter: Meter::Emulated, rest: None }
    })
}

fn from_node() -> impl Strategy<Value = NodeToMaster> {
    let state = prop_oneof![
        Just(AttemptState::Held),
        Just(AttemptState::Running),
        (outcome(), usage()).prop_map(|(outcome, usage)| AttemptState::Ended { outcome, usage }),
    ];
    let report = (ids(), state, any::<u64>()).prop_map(|((job, attempt), state, stdin_offset)| AttemptReport {
        job,
        attempt,
        state,
        stdin_offset,
    });
    prop_oneof![
        (spec(), text(), vec(report, 0..3)).prop_map(|(spec, instance, attempts)| {
            NodeToMaster::NewSlave(Box::new(NewSlave { spec, boot: instance.clone(), instance, attempts }))
        }),
        ids().prop_map(|(job, attempt)| NodeToMaster::JobAck { job, attempt }),
        (ids(), text()).prop_map(|((job, attempt), reason)| NodeToMaster::JobRefused { job, attempt, reason }),
        ids().prop_map(|(job, attempt)| NodeToMaster::Started { job, attempt }),
        (ids(), outcome(), usage()).prop_map(|((job, attempt), outcome, usage)| NodeToMaster::Ended {
            job,
            attempt,
            outcome,
            usage
        }),
        power().prop_map(|draw| NodeToMaster::Reading(Sample::once(draw))),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| NodeToMaster::StreamAck { stream, offset }),
        (any::<u64>(), vec((any::<u16>(), text()), 0..3))
            .prop_map(|(generation, failed)| NodeToMaster::Capped { generation, failed }),
        (ids(), any::<bool>()).prop_map(|((job, attempt), paused)| NodeToMaster::Paused { job, attempt, paused }),
        (any::<u64>(), text()).prop_map(|(ticket, report)| NodeToMaster::Probed { ticket, report }),
    ]
}

fn to_node() -> impl Strategy<Value = MasterToNode> {
    let part = (any::<u32>(), any::<u16>(), proptest::option::of(power())).prop_map(|(node, unit, cap)| Part {
        unit: UnitId { node: NodeId(node), unit },
        count: 1,
        cores: node,
        memory: Memory::from_bytes(5),
        cap,
    });
    prop_oneof![
        Just(MasterToNode::Registered),
        text().prop_map(|reason| MasterToNode::Refused { reason }),
        (ids(), text(), vec(part, 0..3), launch()).prop_map(|((job, attempt), name, placement, launch)| {
            let (application, size, user) = (name.clone(), name.clone(), name.clone());
            MasterToNode::DoExec(Box::new(DoExec { job, attempt, name, application, size, user, placement, launch }))
        }),
        ids().prop_map(|(job, attempt)| MasterToNode::Go { job, attempt }),
        ids().prop_map(|(job, attempt)| MasterToNode::Drop { job, attempt }),
        ids().prop_map(|(job, attempt)| MasterToNode::Stop { job, attempt, grace: Span::from_secs(30) }),
        (ids(), any::<i32>()).prop_map(|((job, attempt), signal)| MasterToNode::Signal { job, attempt, signal }),
        ids().prop_map(|(job, attempt)| MasterToNode::EndedAck { job, attempt }),
        (ids(), any::<u64>()).prop_map(|((job, _), offset)| MasterToNode::ReadFrom { job, stdout: offset, stderr: 1 }),
        ids().prop_map(|(job, _)| MasterToNode::Discard { job }),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| MasterToNode::StreamAck { stream, offset }),
        (any::<u64>(), vec(proptest::option::of(power()), 0..3))
            .prop_map(|(generation, caps)| MasterToNode::Caps { generation, caps }),
        ids().prop_map(|(job, attempt)| MasterToNode::Suspend { job, attempt }),
        ids().prop_map(|(job, attempt)| MasterToNode::Resume { job, attempt }),
        any::<u64>().prop_map(|ticket| MasterToNode::Probe { ticket }),
    ]
}

/// Of periods that follow each other.
fn budgets() -> impl Strategy<Value = Budgets> {
    let release = prop_oneof![Just(Release::Even), Just(Release::ByPrice)];
    vec((0..i64::MAX, release), 0..5).prop_map(|periods| {
        let period = |(from, (energy, release)): (i64, (i64, Release))| {
            let (from, until) = (Time::from_unix_ms(from), Time::from_unix_ms(from + 1));
            Budget { from, until, energy: Energy::from_mj(energy), release }
        };
        Budgets::new((-2..).zip(periods).map(period).collect()).expect("ascending")
    })
}

fn change() -> impl Strategy<Value = Change> {
    let steps = vec((1..1000_i64, any::<i64>()), 1..5).prop_map(|steps| {
        let mut at = 0;
        let step = |(gap, price): (i64, i64)| {
            at += gap;
            (Time::from_unix_ms(at), Price::from_milli_per_mwh(price))
        };
        Curve::new(steps.into_iter().map(step).collect(), None).expect("ascending")
    });
    prop_oneof![
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::Cancel),
        proptest::option::of(steps).prop_map(Change::Prices),
        Just(Change::Limits(Curve::constant(Band::UNLIMITED))),
        (budgets(), proptest::option::of(budgets())).prop_map(|(budgets, seen)| Change::Budgets { budgets, seen }),
        Just(Change::Mode(ModeSetting::Auto)),
        Just(Change::Policy(Preset::LimoPrototype)),
        (text(), text()).prop_map(|(node, reason)| Change::Drain { node, reason }),
        text().prop_map(|node| Change::Resume { node }),
    ]
}

fn from_client() -> impl Strategy<Value = ClientToMaster> {
    prop_oneof![
        (any::<[u8; 16]>(), request(), launch())
            .prop_map(|(key, request, launch)| ClientToMaster::SendExec(Box::new(SendExec { key, request, launch }))),
        (ids(), any::<[u8; 16]>(), any::<u64>()).prop_map(|((job, _), key, offset)| ClientToMaster::Attach {
            job,
            key,
            stdout: offset,
            stderr: 3
        }),
        (ids(), any::<i32>()).prop_map(|((job, _), signal)| ClientToMaster::Signal { job, signal }),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| ClientToMaster::StreamAck { stream, offset }),
        change().prop_map(|change| ClientToMaster::ChangeConf(Box::new(change))),
        request().prop_map(|request| ClientToMaster::Ask(Box::new(Query::DryRun(Box::new(request))))),
        any::<u32>().prop_map(|limit| ClientToMaster::Ask(Box::new(Query::Jobs { ended: true, limit }))),
        text().prop_map(|node| ClientToMaster::Ask(Box::new(Query::Node(node)))),
    ]
}

fn to_client() -> impl Strategy<Value = MasterToClient> {
    prop_oneof![
        any::<u64>().prop_map(|job| MasterToClient::Accepted { job: JobId(job) }),
        (text(), proptest::option::of(text())).prop_map(|(reason, hint)| MasterToClient::Refused { reason, hint }),
        (any::<u64>(), power(), power(), proptest::option::of(time())).prop_map(|(job, needs, left, until)| {
            MasterToClient::Waiting { job: JobId(job), wait: Wait::Band { needs, left, until } }
        }),
        (any::<u64>(), text()).prop_map(|(job, node)| MasterToClient::Running {
            job: JobId(job),
            unit: node.clone(),
            node
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(job, stdin_offset)| MasterToClient::Attached { job: JobId(job), stdin_offset }),
    ]
}

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

/// Decoding may ask for a small multiple of the body and a fixed sum: serde reserves at most a mebibyte for a list whose
/// length is a claim, and lists nest four deep in these messages.
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
    fn what_is_stored_comes_back(launch in launch()) {
        let bytes = encode_stored(&launch).expect("it is small");
        prop_assert_eq!(decode_stored::<Launch>(&bytes).expect("just stored"), launch);
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let check = |body: &[u8], expected: &str| {
        let refused = Frame::<NodeToMaster>::decode(Bytes::copy_from_slice(body)).expect_err("refused");
        assert_eq!(refused.to_string(), expected);
    };
    check(&[], "an empty frame");
    check(&[9, 1, 2], "a frame of the unknown kind 9");
    check(&[2, 0, 0], "a data frame of 2 bytes is shorter than its head of 17");
    check(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0], "a data frame of the unknown channel 3");
    let too_large =
        Frame::Message(NodeToMaster::JobRefused { job: JobId(1), attempt: Attempt(1), reason: "x".repeat(BODY_LIMIT) });
    let refused = too_large.encode().expect_err("refused").to_string();
    assert!(refused.ends_with("bytes: the limit is 1048576"), "{refused}");
    let stored = decode_stored::<Launch>(&[99, 0]).expect_err("refused").to_string();
    assert_eq!(stored, "stored in format 99: this program reads 1");
}

#[test]
fn a_hostile_length_claims_nothing() {
    // JobRefused for job 1, attempt 1, with a reason of 2^32 bytes that do not follow.
    let body = [1, 2, 1, 1, 253, 0, 0, 0, 0, 1, 0, 0, 0];
    let before = ASKED.with(Cell::get);
    let refused = Frame::<NodeToMaster>::decode(Bytes::copy_from_slice(&body)).expect_err("refused").to_string();
    let asked = ASKED.with(Cell::get) - before;
    assert!(asked < 10_000, "{asked} bytes");
    assert_eq!(refused, "the message is malformed: LimitExceeded");
}

#[test]
fn a_curve_or_band_that_cannot_be_is_refused() {
    // ChangeConf with prices: Some curve without steps and without an end.
    let refused =
        |body: &[u8]| Frame::<ClientToMaster>::decode(Bytes::copy_from_slice(body)).expect_err("refused").to_string();
    assert!(
        refused(&[1, 5, 4, 1, 0, 0]).contains("a curve needs at least one value"),
        "{}",
        refused(&[1, 5, 4, 1, 0, 0])
    );
    // Limits: one step at 0 with low 2 mW and high 1 mW.
    let crossed = refused(&[1, 5, 1, 1, 0, 4, 2, 0]);
    assert!(crossed.contains("is above the upper limit"), "{crossed}");
}

/// The bytes of version 1. If this fails, the version must change.
#[test]
fn golden_bytes() {
    let check = |frame: Frame<NodeToMaster>, expected: &[u8]| assert_eq!(frame.encode().expect("small"), expected);
    let (job, attempt) = (JobId(300), Attempt(2));
    // Kind 1; variant 1; 300 as a 16-bit varint; 2.
    check(Frame::Message(NodeToMaster::JobAck { job, attempt }), &[1, 1, 251, 44, 1, 2]);
    // 41.5 W are 41,500 mW, zigzag 83,000 as a 32-bit varint.
    check(
        Frame::Message(NodeToMaster::Reading(Sample::once(Power::from_mw(41_500)))),
        &[1, 5, 252, 56, 68, 1, 0, 252, 56, 68, 1, 0, 252, 56, 68, 1, 0, 252, 56, 68, 1, 0, 1],
    );
    let stream = StreamId { job: JobId(1), channel: Channel::Stdout };
    let data = Data { stream, offset: 258, bytes: Bytes::from_static(b"hi") };
    check(Frame::Data(data), &[2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2, b'h', b'i']);
}
