//! Tests of the executor, with scripted generators.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::apps::Application;

/// Sum of the bytes that [`Adder`] got, and 1000 for each `fini`.
static SUM: AtomicU64 = AtomicU64::new(0);

/// Fails at inputs that begin with `!`.
struct Adder;

impl Application for Adder {
    fn process(&mut self, input: &mut [u8]) -> Result<(), ApplicationError> {
        if input.starts_with(b"!") {
            return Err(refusal("!"));
        }
        SUM.fetch_add(input.iter().map(|byte| u64::from(*byte)).sum(), Ordering::Relaxed);
        Ok(())
    }

    fn fini(self: Box<Self>) -> Result<(), ApplicationError> {
        SUM.fetch_add(1000, Ordering::Relaxed);
        Ok(())
    }
}

fn refusal(word: &str) -> ApplicationError {
    ApplicationError::Option { word: word.to_owned(), known: "none" }
}

/// An application without devices and check, which sessions do not use.
const fn entry(id: u16, name: &'static str, init: fn(&str) -> Result<Box<dyn Application>, ApplicationError>) -> Entry {
    Entry { id, name, about: "", init, devices: || Ok(Vec::new()), check: |_| Ok(()) }
}

const APPLICATIONS: &[Entry] =
    &[entry(3, "adder", |_| Ok(Box::new(Adder))), entry(4, "absent", |session| Err(refusal(session)))];

fn init(app: u16) -> Vec<u8> {
    StreamInit::new(app, "a test").unwrap().to_bytes().to_vec()
}

fn package(sqn: u32, content: &[u8]) -> Vec<u8> {
    [StreamHeader { sqn, size: content.len() as i64 }.to_bytes().as_slice(), content].concat()
}

fn fini() -> Vec<u8> {
    Status::Fini.to_bytes(9).to_vec()
}

/// Runs a session over the messages of a generator. Returns its result and the codes that the generator gets.
fn session(messages: &[Vec<u8>]) -> (Result<Served, ExecutorError>, Vec<i64>) {
    let mut output = Vec::new();
    greet(&mut output).unwrap();
    let served = run(messages.concat().as_slice(), &mut output, APPLICATIONS, 10);
    let mut output = output.as_slice();
    let mut codes = Vec::new();
    while let Some(header) = StreamHeader::read(&mut output).unwrap() {
        codes.push(header.size);
    }
    (served, codes)
}

fn refused(messages: &[Vec<u8>], codes: &[i64]) -> String {
    let (served, found) = session(messages);
    assert_eq!(found, codes);
    served.expect_err("the session fails").to_string()
}

#[test]
fn jobs_are_processed_between_ack_start_and_ack_end() {
    let (served, codes) = session(&[init(3), package(0, &[5, 6]), package(1, &[7]), fini()]);
    assert_eq!(codes, [-4, -5, -7]);
    let served = served.unwrap();
    assert_eq!((served.name.as_str(), served.application, served.jobs, served.bytes), ("a test", "adder", 2, 3));
    assert_eq!(SUM.load(Ordering::Relaxed), 1018);
}

#[test]
fn empty_packages_are_ignored() {
    let (served, codes) = session(&[init(3), package(0, b""), package(1, b"a"), package(2, b""), fini()]);
    assert_eq!((served.unwrap().jobs, codes), (1, vec![-4, -5, -7]));
}

#[test]
fn other_magic_numbers_and_versions_are_refused() {
    let with = |at: usize, number: u64| {
        let mut init = init(3);
        init[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        refused(&[init, fini()], &[-4, -2])
    };
    assert_eq!(with(0, MAGIC.swap_bytes()), "the generator has the other byte order");
    assert!(with(0, 7).starts_with("the peer is not a generator: it sent the magic number 0x7 instead of"));
    assert_eq!(with(8, 2), "the generator has version 2; this executor has 1");
}

#[test]
fn unknown_and_unavailable_applications_are_refused() {
    assert!(refused(&[init(5)], &[-4, -3]).starts_with("application number 5 is unknown"));
    assert!(refused(&[init(4)], &[-4, -1]).starts_with("absent cannot be used: the option \"a test\""));
}

#[test]
fn a_job_that_fails_ends_the_session() {
    let error = refused(&[init(3), package(0, b"\0"), package(7, b"!"), fini()], &[-4, -5, -1]);
    assert!(error.starts_with("package 7: adder failed:"), "{error}");
}

#[test]
fn large_packages_are_refused_before_their_content() {
    let header = StreamHeader { sqn: 2, size: 11 }.to_bytes().to_vec();
    let error = refused(&[init(3), package(1, &[0; 10]), header], &[-4, -5, -1]);
    assert_eq!(error, "package 2 has 11 bytes, more than 10; --max-package raises the limit");
}

#[test]
fn garbage_and_early_ends_are_errors() {
    let codes = &[-4, -5, -1];
    assert!(refused(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()], &[-4, -1]).contains("did not start the session"));
    assert!(refused(&[b"GET / HTTP/1.1\r\n\r\n".repeat(20)], &[-4, -2]).contains("the peer is not a generator"));
    let unknown = StreamHeader { sqn: 0, size: -99 }.to_bytes().to_vec();
    assert!(refused(&[init(3), unknown], codes).contains("code -99"));
    assert!(refused(&[init(3), Status::AckStart.to_bytes(0).to_vec()], codes).contains("code -5"));
    let zero = vec![0];
    assert_eq!(
        refused(&[init(3), package(0, &zero)], codes),
        "the generator ended the connection after 1 jobs, without FINI"
    );
    let cut = package(0, &zero)[..12].to_vec();
    assert!(refused(&[init(3), cut], codes).starts_with("the connection failed after 0 jobs"));
    let cut = [StreamHeader { sqn: 0, size: 5 }.to_bytes().to_vec(), zero].concat();
    assert!(refused(&[init(3), cut], codes).ends_with("it ended after 1 of the 5 bytes of a package"));
}
