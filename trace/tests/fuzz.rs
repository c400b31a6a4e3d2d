//! Properties of the readers. For any bytes they end without a panic, and errors name file and line; written files
//! can be read again.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use limo_model::{Span, Time};
use limo_trace::curve::{Clock, Table, band, budget, hourly_price, price};
use limo_trace::swf::{self, Options, Reader, SwfError};
use limo_trace::{Job, Platform, Workload, batsim};
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
        Job { number, submit, wait, run, walltime, processors, user, application, queue, moldable: None, removed: None, bytes: None, treatment: limo_trace::Treatment::default(), chunks: None }
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

/// Replaces some bytes at random places.
fn mutated(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8, usize)]) -> Vec<u8> {
    for (at, byte, cut) in changes {
        let at = at.index(bytes.len().max(1)).min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, [*byte]);
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, usize)>> {
    let bytes =
        prop_oneof![Just(b'-'), Just(b'e'), Just(b'.'), Just(b'\n'), Just(b' '), Just(b','), Just(b'9'), any::<u8>()];
    vec((any::<prop::sample::Index>(), bytes, 0..4_usize), 0..6)
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
    fn any_bytes_as_a_workload(bytes in vec(any::<u8>(), 0..400)) {
        if let Err(error) = load(bytes, Options::default()) {
            prop_assert!(is_placed(&error.to_string(), "t.swf"), "{}", error);
        }
    }

    #[test]
    fn a_mutated_workload(workload in workload(), changes in changes(), compat in any::<bool>()) {
        let options = if compat { Options::COMPAT_2017 } else { Options::default() };
        let bytes = mutated(text(&workload), &changes);
        match load(bytes, options) {
            Ok(read) => {
                prop_assert!(read.jobs.is_sorted_by_key(|job| job.submit));
                prop_assert!(read.jobs.iter().all(|job| job.submit >= Span::ZERO && job.run >= Span::ZERO && job.processors > 0));
                prop_assert!(read.jobs.iter().all(|job| job.walltime.is_none_or(|walltime| walltime > Span::ZERO)));
            }
            Err(error) => prop_assert!(is_placed(&error.to_string(), "t.swf"), "{}", error),
        }
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
    fn a_damaged_gzip(workload in workload(), changes in changes()) {
        if let Err(error) = load(mutated(packed(&text(&workload)), &changes), Options::default()) {
            let text = error.to_string();
            prop_assert!(is_placed(&text, "t.swf"), "{}", text);
        }
    }

    #[test]
    fn curves(head in 0..5_usize, rows in "([0-9a-zT:., eE+-]{0,12}[,\n]){0,12}", changes in changes()) {
        let heads = ["time,price_eur_per_mwh\n", "time,low_w,high_w\n", "from,until,energy_kwh\n", "date,Price,x\n", ""];
        let valid = ["0,80\n1h,-5\n", "0,1,2\n1h,,5\n", "0,1h,5\n1h,2h,6\n", "2015-01-01 00:00:00,1,2\n", "a\n"];
        for body in [rows.as_bytes(), valid[head].as_bytes()] {
            let bytes = mutated([heads[head].as_bytes(), body].concat(), &changes);
            let clock = Clock::unix(Time::from_unix_ms(0));
            let table = || Table::new("c.csv", Cursor::new(bytes.clone()));
            let results = [
                table().and_then(|table| price(table, clock).map(drop)),
                table().and_then(|table| band(table, clock).map(drop)),
                table().and_then(|table| budget(table, clock).map(drop)),
                table().and_then(|table| hourly_price(table, clock).map(drop)),
            ];
            for error in results.into_iter().filter_map(Result::err) {
                prop_assert!(is_placed(&error.to_string(), "c.csv"), "{}", error);
            }
        }
    }

    #[test]
    fn platforms(changes in changes(), noise in "\\PC{0,200}") {
        let toml = "[[nodes]]\nname = \"n\"\ncount = 9\nidle = \"95 W\"\nbusy = \"190.738 W\"\n";
        let xml = "<platform><host id=\"a\" speed=\"1Gf\"><prop id=\"watt_off\" value=\"9\"/></host><cluster id=\"c\" radical=\"0-9\" speed=\"1Gf\"/></platform>";
        for (toml, xml) in [(toml.as_bytes(), xml.as_bytes()), (noise.as_bytes(), noise.as_bytes())] {
            let toml = String::from_utf8_lossy(&mutated(toml.to_vec(), &changes)).into_owned();
            if let Err(error) = Platform::parse("p.toml", &toml) {
                prop_assert!(is_placed(&error.to_string(), "p.toml"), "{}", error);
            }
            let xml = String::from_utf8_lossy(&mutated(xml.to_vec(), &changes)).into_owned();
            if let Err(error) = batsim::parse_platform("p.xml", &xml) {
                prop_assert!(error.to_string().starts_with("p.xml:"), "{}", error);
            }
        }
    }

    #[test]
    fn batsim_workloads(changes in changes(), gzip in any::<bool>()) {
        let json = br#"{"nb_res": 4, "jobs": [{"id": "w0!1", "subtime": 0.1, "walltime": 9, "res": 1, "profile": "d"}],
            "profiles": {"d": {"type": "delay", "delay": 20.2}}}"#;
        let bytes = mutated(json.to_vec(), &changes);
        let bytes = if gzip { packed(&bytes) } else { bytes };
        if let Err(error) = batsim::parse("w.json", Cursor::new(bytes), batsim::Options::default()) {
            prop_assert!(error.to_string().starts_with("w.json: "), "{}", error);
        }
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
