//! Properties of workloads in files: written files can be read again, and truncated ones are refused. `limo-mutations` has
//! the tests with mutated files.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use limo_model::{Span, Time};
use limo_trace::swf::{self, Options, Reader, SwfError};
use limo_trace::{CompactSpan, Job, Platform, Treatment, Workload, batsim};
use proptest::collection::vec;
use proptest::prelude::*;

fn load(bytes: Vec<u8>, options: Options) -> Result<Workload, SwfError> {
    swf::load_from(Reader::new("t.swf", Cursor::new(bytes))?, options)
}

/// Returns true if the text starts with the file's name and a line, or reports an empty file.
fn is_placed(text: &str, file: &str) -> bool {
    let Some(rest) = text.strip_prefix(file).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let line = rest.split(':').next().unwrap_or("");
    line.parse::<u64>().is_ok_and(|line| line > 0) || rest.starts_with(" the file has no ")
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

/// Returns a span: a second, a number of the archive, or nothing.
fn span(low: i64) -> impl Strategy<Value = Span> {
    prop_oneof![(low..5).prop_map(Span::from_secs), (low..10_000_000_000).prop_map(Span::from_ms)]
}

prop_compose! {
    fn job()(
        number in prop_oneof![0..100_i64, -9_000_000_000_000_000..9_000_000_000_000_000_i64],
        submit in span(0),
        wait in proptest::option::of(span(0)),
        run in span(0),
        walltime in proptest::option::of(span(1)),
        processors in prop_oneof![1..9_u32, 1..=u32::MAX],
        user in prop_oneof![-1..9_i32, any::<i32>()],
        application in any::<i32>(),
        queue in any::<i32>(),
    ) -> Job {
        Job {
            number,
            submit,
            wait: wait.map(CompactSpan::of),
            run,
            walltime: walltime.map(CompactSpan::of),
            processors,
            user,
            application,
            queue,
            moldable: None,
            removed: None,
            bytes: None,
            treatment: Treatment::default(),
            chunks: None,
        }
    }
}

prop_compose! {
    fn workload()(
        mut jobs in vec(job(), 1..30),
        start in proptest::option::of(0..4_000_000_000_000_i64),
        processors in proptest::option::of(1..=u32::MAX),
    ) -> Workload {
        jobs.sort_by_key(|job| job.submit);
        Workload { jobs, start: start.map(Time::from_unix_ms), processors, ..Workload::default() }
    }
}

fn text(workload: &Workload) -> Vec<u8> {
    let mut text = Vec::new();
    swf::write_to(&mut text, workload).expect("memory");
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_workload_is_read_again(workload in workload(), gzip in any::<bool>()) {
        // This is the order in which a reader puts simultaneous submissions.
        let mut workload = workload;
        workload.jobs.sort_by_key(|job| (job.submit, job.number));
        let text = text(&workload);
        let bytes = if gzip { packed(&text) } else { text };
        let mut read = load(bytes, Options::default()).expect("what was written");
        read.notes.clear();
        prop_assert_eq!(read, workload);
    }

    #[test]
    fn a_truncated_gzip_is_never_a_workload(workload in workload(), at in any::<prop::sample::Index>()) {
        let whole = packed(&text(&workload));
        let cut = at.index(whole.len() - 2) + 2;
        let error = load(whole[..cut].to_vec(), Options::default()).expect_err("cut");
        prop_assert!(is_placed(&error.to_string(), "t.swf"), "{}", error);
        prop_assert!(matches!(error, SwfError::Truncated { .. }), "{}", error);
    }

    #[test]
    fn a_load_keeps_the_order_and_scales_the_length(workload in workload(), up in 1..1_000_i64, down in 1..1_000_i64) {
        let (first, last) = (workload.jobs[0].submit, workload.jobs[workload.jobs.len() - 1].submit);
        let scaled = workload.at_load(up, down);
        prop_assert!(scaled.jobs.is_sorted_by_key(|job| job.submit));
        let length = (scaled.jobs[scaled.jobs.len() - 1].submit - scaled.jobs[0].submit).ms();
        // The difference is at most the half millisecond of one rounding.
        prop_assert!((i128::from(length) * i128::from(up) - i128::from((last - first).ms()) * i128::from(down)).abs() * 2 <= i128::from(up));
    }
}

#[test]
fn deep_nesting_overflows_no_stack() {
    let xml = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
    assert!(batsim::parse_platform("p.xml", &xml).is_err());
    let json = format!("{{\"jobs\": {}", "[".repeat(200_000));
    assert!(batsim::parse("w.json", Cursor::new(json.into_bytes()), batsim::Options::default()).is_err());
    let toml = format!("x = {}", "[".repeat(200_000));
    assert!(Platform::parse("p.toml", &toml).is_err());
}
