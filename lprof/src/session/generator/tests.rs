//! Tests of the generator, with scripted executors and with the real one.

use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::apps::{Application, ApplicationError, Entry};
use crate::session::executor;
use crate::workload::format::Writer;

fn init() -> StreamInit {
    StreamInit::new(0, "a test").unwrap()
}

/// Packages of one byte, `delay_us` apart.
fn workload(count: u32, delay_us: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text);
    (0..count).for_each(|_| writer.package(Duration::from_micros(delay_us), b"a").unwrap());
    text
}

/// Runs the generator against an executor that has sent `statuses`, and takes everything. Returns what it got, too.
fn scripted(statuses: &[Status], text: &[u8]) -> (Result<Sent, GeneratorError>, Vec<u8>) {
    let (mut executor, own) = UnixStream::pair().unwrap();
    statuses.iter().for_each(|status| executor.write_all(&status.to_bytes(0)).unwrap());
    executor.shutdown(std::net::Shutdown::Write).unwrap();
    let sent = run(&mut Reader::new(text, 1000), &init(), own.try_clone().unwrap(), &own);
    own.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    executor.read_to_end(&mut got).unwrap();
    (sent, got)
}

fn refusal(statuses: &[Status]) -> String {
    scripted(statuses, b"0:1\na").0.expect_err("the session fails").to_string()
}

#[test]
fn a_session_has_the_messages_of_figure_3_6() {
    use Status::*;
    let (sent, got) = scripted(&[Ok, AwaitStart, AckStart, AckEnd], b"0:2\nab1:0\n#\n");
    // The executor has sent all at once, so its ACK_END may arrive before FINI is sent.
    let expected = [
        init().to_bytes().as_slice(),
        &StreamHeader { sqn: 0, size: 2 }.to_bytes(),
        b"ab",
        &StreamHeader { sqn: 1, size: 0 }.to_bytes(),
        &Fini.to_bytes(2),
    ]
    .concat();
    match sent {
        Result::Ok(sent) => assert_eq!((sent.packages, sent.bytes, got), (1, 2, expected)),
        Err(error) => assert!(expected.starts_with(&got), "{error}"),
    }
}

#[test]
fn errors_of_the_executor_are_told() {
    use Status::*;
    assert!(refusal(&[]).ends_with("ended the connection before it was ready"));
    assert!(refusal(&[AwaitStart, WrongVersion]).starts_with("the executor is incompatible"));
    assert!(refusal(&[AwaitStart, InvalidRequest]).starts_with("the executor does not have this application"));
    assert!(refusal(&[AwaitStart, Error]).contains("an error while it prepared the application"));
    assert!(refusal(&[AwaitStart, AckEnd]).contains("code -7 while it prepared the application"));
    assert!(refusal(&[AckStart]).contains("code -5 before it was ready"));
    let late = refusal(&[AwaitStart, AckStart, Error]);
    assert!(late.contains("an error during the workload") || late.contains("an error after the last"), "{late}");
}

#[test]
fn a_wrong_workload_ends_the_session() {
    let (sent, _) = scripted(&[Status::AwaitStart, Status::AckStart], b"0:1\naX");
    let error = sent.expect_err("it is wrong").to_string();
    let left = "the executor ended the connection during the workload";
    assert!(error.starts_with("the workload is wrong: line 2, byte 5:") || error == left, "{error}");
}

/// Runs the generator against the real executor with one application.
fn session<R: BufRead>(workload: &mut Reader<R>, applications: &'static [Entry]) -> (Sent, executor::Served) {
    let (theirs, own) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        executor::greet(&theirs).unwrap();
        executor::run(&theirs, &theirs, applications, 1 << 20).unwrap()
    });
    let sent = run(workload, &init(), own.try_clone().unwrap(), &own).unwrap();
    (sent, server.join().unwrap())
}

/// Relative delays would add up to 1 s: a sleep of 500 us takes some 50 to 100 us longer.
#[test]
fn delays_do_not_add_up() {
    let text = workload(10_000, 500);
    let expected = Duration::from_secs(5);
    let mut ends = (0..3).map(|_| {
        let (sent, served) = session(&mut Reader::new(text.as_slice(), 1000), crate::apps::ALL);
        assert_eq!((sent.packages, served.jobs), (10_000, 10_000));
        assert!(sent.duration >= expected, "{:?} is too early", sent.duration);
        sent.duration
    });
    // Other programs may delay the very last package of one session.
    let end = ends.find(|end| *end < expected + Duration::from_millis(5));
    assert!(end.is_some(), "three sessions ended more than 5 ms late");
}

/// Bytes that the generator has read of its workload, and that the application has processed.
static READ: AtomicU64 = AtomicU64::new(0);
static PROCESSED: AtomicU64 = AtomicU64::new(0);
static MOST_AHEAD: AtomicU64 = AtomicU64::new(0);

struct Counted<R>(R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        READ.fetch_add(read as u64, Ordering::SeqCst);
        Ok(read)
    }
}

/// Takes longer for a job than the generator for reading it.
struct Slow;

impl Application for Slow {
    fn process(&mut self, input: &mut [u8]) -> Result<(), ApplicationError> {
        for round in 0..20 {
            input.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(round));
        }
        std::hint::black_box(&input);
        let ahead = READ.load(Ordering::SeqCst) - PROCESSED.load(Ordering::SeqCst);
        MOST_AHEAD.fetch_max(ahead, Ordering::SeqCst);
        PROCESSED.fetch_add(input.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn fini(self: Box<Self>) -> Result<(), ApplicationError> {
        Ok(())
    }
}

/// An application without devices and check, which sessions do not use.
const fn entry(id: u16, name: &'static str, init: fn(&str) -> Result<Box<dyn Application>, ApplicationError>) -> Entry {
    Entry { id, name, about: "", init, devices: || Ok(Vec::new()), check: |_| Ok(()) }
}

#[test]
fn a_slow_executor_slows_the_generator() {
    const SLOW: &[Entry] = &[entry(0, "slow", |_| Ok(Box::new(Slow)))];
    const PACKAGE: u64 = 1 << 20;
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text);
    (0..100).for_each(|_| writer.package(Duration::ZERO, &vec![7; PACKAGE as usize]).unwrap());
    let source = BufReader::new(Counted(text.as_slice()));
    let (sent, _) = session(&mut Reader::new(source, PACKAGE), SLOW);
    assert_eq!(sent.bytes, 100 * PACKAGE);
    // One package at either side, what the socket and the buffers hold, and one that is being read.
    let ahead = MOST_AHEAD.load(Ordering::SeqCst);
    assert!(ahead < 5 * PACKAGE, "the generator was {ahead} bytes ahead");
    assert!(sent.behind > Duration::ZERO);
}
