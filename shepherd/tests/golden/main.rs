//! The bytes of every message between `lslave` and `lshepherd`. A shepherd outlives upgrades, so the bytes of a released
//! message never change: new fields are added at the end, with new tags.
//!
//! `LIMO_GOLDEN=write cargo nextest run -p limo-shepherd --test golden` adds the lines of new messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use limo_shepherd::{Answer, BootTime, Claim, CommandFailure, Ended, Handle, Holds, Kept, Launch, Order, Why};

const HANDLE: Handle = Handle(7);
const CLAIM: Claim = Claim { job: 5, attempt: 2 };
const KEPT: Kept = Kept { stdin: true, stdout: true, stderr: true, terminal: false, work: true };

fn orders() -> Vec<(&'static str, Order)> {
    let handle = HANDLE;
    let launch = Launch {
        handle,
        time_limit: Some(3_000),
        warning: Some((10, 500)),
        checkpoint: None,
        kill_grace: 5,
        lease: Some(BootTime(77)),
        launch_deadline: 30_000,
        claim: Some(CLAIM),
        kept: KEPT,
    };
    let checkpoints = Launch { checkpoint: Some((Some(12), 60_000)), ..launch };
    let by_command = Launch { checkpoint: Some((None, 60_000)), ..launch };
    vec![
        ("hello", Order::Hello { name: Some("ready-1".into()) }),
        ("launch", Order::Launch(launch)),
        ("launch with checkpoints", Order::Launch(checkpoints)),
        ("launch with checkpoints by a command", Order::Launch(by_command)),
        ("signal", Order::Signal { handle, signal: 15 }),
        ("stop", Order::Stop { handle, grace: 100, evicts: false }),
        ("stop for eviction", Order::Stop { handle, grace: 100, evicts: true }),
        ("lease", Order::Lease { until: BootTime(88) }),
        ("frozen", Order::Frozen { handle, on: true }),
        ("halted", Order::Halted { handle, on: true }),
        ("remove carried", Order::RemoveCarried { directory: b"/tmp/limo-x".to_vec(), uid: 1000 }),
        ("extend", Order::Extend { handle, limit: 9 }),
        ("limit", Order::Limit { handle, limit: Some(9) }),
        ("wake", Order::Wake { handle }),
        ("drop streams", Order::DropStreams { handle }),
        ("resize", Order::Resize { handle, rows: 24, columns: 80 }),
        ("end work", Order::EndWork { handle }),
        ("release", Order::Release { handle }),
    ]
}

fn answers() -> Vec<(&'static str, Answer)> {
    let handle = HANDLE;
    let holds =
        Holds { handle, claim: CLAIM, cookie: "cookie".into(), kept: KEPT, frozen: true, halted: true, elapsed: 12 };
    let ended = Ended {
        status: 256,
        elapsed: 1,
        user_cpu: 2,
        system_cpu: 3,
        max_rss: 4,
        why: Why::Limit,
        exceeded_memory: None,
    };
    let failed = CommandFailure { status: 9, is_late: true };
    let exceeded = Ended { exceeded_memory: Some(5), ..ended };
    vec![
        ("ready", Answer::Ready),
        ("greeting", Answer::Hello { pid: 3, holds: None }),
        ("greeting with a job", Answer::Hello { pid: 3, holds: Some(Box::new(holds)) }),
        ("started", Answer::Started { handle, leader: 4, freezes: false }),
        ("started in a group", Answer::Started { handle, leader: 4, freezes: true }),
        ("not started", Answer::NotStarted { handle, step: 9, errno: 2, reason: "why".into() }),
        ("stopping", Answer::Stopping { handle, why: Why::Lease }),
        ("exited", Answer::Exited { handle, ended }),
        ("exceeded its memory", Answer::Exited { handle, ended: exceeded }),
        ("emptied", Answer::Emptied { handle, left: 1 }),
        ("checkpointed", Answer::Checkpointed { handle, ran: 60_000, took: 0, failed: None }),
        ("checkpoint failed", Answer::Checkpointed { handle, ran: 60_000, took: 70, failed: Some(failed) }),
        ("moved", Answer::Moved { handle }),
        ("trouble", Answer::Trouble { text: "text".into() }),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |digit: &u8| (*digit as char).to_digit(16).expect("a digit");
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::try_from(digit(&pair[0]) * 16 + digit(&pair[1])).expect("a byte")).collect()
}

#[test]
fn messages_keep_their_bytes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    let made = orders().into_iter().map(|(name, order)| (name, hex(&order.encode())));
    let made = made.chain(answers().into_iter().map(|(name, answer)| (name, hex(&answer.encode()))));
    let made: BTreeMap<&str, String> = made.collect();
    if std::env::var("LIMO_GOLDEN").is_ok_and(|wish| wish == "write") {
        let text: String = made.iter().map(|(name, bytes)| format!("{name}: {bytes}\n")).collect();
        std::fs::write(&path, text).expect("written");
    }
    let text = std::fs::read_to_string(&path).expect("readable");
    let kept: BTreeMap<&str, String> =
        text.lines().filter_map(|line| line.split_once(": ")).map(|(name, bytes)| (name, bytes.to_owned())).collect();
    assert_eq!(made, kept);
}

/// A message of a later release has more fields, which this one ignores.
#[test]
fn further_fields_are_ignored() {
    let further: Vec<u8> = [&999_u16.to_le_bytes()[..], &3_u32.to_le_bytes(), b"new"].concat();
    for (name, order) in orders() {
        assert_eq!(Order::decode(&[order.encode(), further.clone()].concat()), Ok(order), "{name}");
    }
    for (name, answer) in answers() {
        assert_eq!(Answer::decode(&[answer.encode(), further.clone()].concat()), Ok(answer), "{name}");
    }
}

/// The first release had no shepherds that outlive `lslave`: its messages lack the later fields.
#[test]
fn messages_of_the_first_release_are_understood() {
    assert_eq!(Order::decode(&bytes("0100")), Ok(Order::Hello { name: None }));
    assert_eq!(
        Answer::decode(&bytes("01000200080000000300000000000000")),
        Ok(Answer::Hello { pid: 3, holds: None }),
        "a greeting with its process only"
    );
    let launch = "0200010008000000070000000000000003000800000005000000000000000500080000003075000000000000";
    let expected = Launch {
        handle: HANDLE,
        time_limit: None,
        warning: None,
        checkpoint: None,
        kill_grace: 5,
        lease: None,
        launch_deadline: 30_000,
        claim: None,
        kept: Kept::default(),
    };
    assert_eq!(Order::decode(&bytes(launch)), Ok(Order::Launch(expected)));
}
