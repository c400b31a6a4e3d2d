//! Reads every trace, if the folder of traces exists, and compares the result with known figures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use limo_model::{Span, Time};
use limo_requirements::trace_set;
use limo_trace::swf::{self, Options, Reader};
use limo_trace::{Job, Workload, batsim, curve};

/// Returns the files of `folder` with that ending, by name without the ending.
fn files(folder: &Path, ending: &str) -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().expect("a plain name");
        name.strip_suffix(ending).map(|name| (name.to_owned(), entry.path()))
    });
    named.collect()
}

fn load(path: &Path, options: Options) -> Workload {
    swf::load(path, options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_weeks_of_energy_budget_2017() {
    let Some(folder) = trace_set("energy-budget-2017") else { return };
    let weeks = files(&folder, ".swf.gz");
    assert_eq!(weeks.len(), 30);
    let (mut lines, mut cleaned) = (0, 0);
    for (name, path) in &weeks {
        let plain = load(path, Options::default());
        let machine = match name {
            name if name.starts_with("curie") => 80_640,
            name if name.starts_with("metacentrum") => 3_356,
            _ => 1_152,
        };
        assert_eq!(plain.processors, Some(machine), "{name}");
        assert!(plain.start.is_some(), "{name}");
        lines += plain.jobs.len();
        let compat = load(path, Options::COMPAT_2017);
        assert!(compat.jobs.is_sorted_by_key(|job| job.submit), "{name}");
        cleaned += compat.jobs.len();
    }
    // The reference, section 1, has 400,969 jobs after cleaning. The files have 404,593 lines; 3,616 of them run for
    // 0 s and 8 have a number with an exponent.
    assert_eq!((lines, cleaned), (404_593, 400_969));
}

/// Compares with Batsim's reading of the same files by the paper's authors: all jobs with their processors, times and
/// requests.
#[test]
fn the_rules_of_2017_give_the_authors_inputs() {
    let Some(folder) = trace_set("energy-budget-2017") else { return };
    let documents = files(&folder, ".json.gz");
    assert_eq!(documents.len(), 3);
    for (name, path) in &documents {
        // The profiles were made for hosts of 100 Mflop/s.
        let theirs = batsim::workload(path, batsim::Options { speed: Some(100e6) }).unwrap_or_else(|e| panic!("{e}"));
        let ours = load(&folder.join(format!("{name}.swf.gz")), Options::COMPAT_2017);
        let key = |job: &Job| (job.number, job.submit, job.run, job.walltime, job.processors);
        let sorted = |workload: &Workload| {
            let mut jobs: Vec<_> = workload.jobs.iter().map(key).collect();
            jobs.sort_unstable();
            jobs
        };
        assert_eq!(ours.processors, theirs.processors, "{name}");
        assert_eq!(sorted(&ours), sorted(&theirs), "{name}");
    }
}

#[test]
fn the_oracles() {
    let Some(folder) = trace_set("easy-oracles") else { return };
    let check = |name: &str, jobs: usize, processors: u32| {
        let workload = load(&folder.join(name), Options::default());
        assert_eq!((workload.jobs.len(), workload.processors), (jobs, Some(processors)), "{name}");
        assert!(workload.jobs.iter().all(|job| job.wait.is_some() || name.starts_with("KTH-SP2_pwa")), "{name}");
        workload
    };
    check("KTH-SP2_easy_result.swf.gz", 28_481, 100);
    check("SDSC-BLUE_easy_result.swf.gz", 232_542, 1_152);
    check("SDSC-SP2_easy_result.swf.gz", 54_006, 128);
    check("CEA-curie_easy_result.swf.gz", 295_540, 80_640);
    let log = check("KTH-SP2_pwa_log.swf.gz", 28_489, 100);
    assert_eq!(log.start, Some(Time::from_unix_ms(843_480_031_000)));
    // The oracle omits the log's 8 jobs of 0 s.
    assert!(log.notes.contains(&"8 jobs ran for 0 s: kept".to_owned()), "{:?}", log.notes);
}

#[test]
fn a_trace_survives_being_written() {
    let Some(folder) = trace_set("easy-oracles") else { return };
    let read = load(&folder.join("KTH-SP2_pwa_log.swf.gz"), Options::default());
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("again.swf.gz");
    swf::write(&path, &read).expect("written");
    let again = load(&path, Options::default());
    assert_eq!((again.jobs, again.start, again.processors), (read.jobs, read.start, read.processors));
    let header = Reader::open(&path).expect("a header").header().clone();
    assert_eq!(header.value("Note"), Some("8 jobs ran for 0 s: kept"));
}

#[test]
fn german_prices() {
    let Some(folder) = trace_set("prices") else { return };
    let table = curve::Table::open(&folder.join("de-day-ahead-2015-2017.csv")).expect("a table");
    let start: jiff::Timestamp = "2017-10-28T00:00:00+02:00".parse().expect("a date");
    let start = Time::from_unix_ms(start.as_millisecond());
    let prices = curve::hourly_price(table, curve::Clock::from_start(Some(start))).expect("prices");
    // There are 1,096 days. On the three days of 23 hours, one row is skipped; on those of 25 hours, one row holds
    // for two hours.
    assert_eq!(prices.steps().len(), 1_096 * 24 - 3);
    let (first, until) = (prices.steps()[0].0, prices.until().expect("an end"));
    assert_eq!((until - first).ms(), 1_096 * 86_400_000);
    // In the reference, 28 October 2017 has 12 negative hours. 29 October has 18 of 24 rows, with the lowest at
    // -83.04 and the mean at -50.8.
    let rows = |day: i64| {
        let from = Time::from_unix_ms(day * 86_400_000);
        prices
            .pieces(from, from + Span::from_secs(86_400))
            .map(|(_, _, price)| price.milli_per_mwh())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(0).iter().filter(|price| **price < 0).count(), 12);
    // The first 24 of that day's 25 hours are 23 rows; the last row is also negative.
    assert_eq!(rows(1).iter().filter(|price| **price < 0).count(), 17);
    assert_eq!(rows(1).iter().min(), Some(&-83_040));
    let from = Time::from_unix_ms(86_400_000);
    assert_eq!(prices.pieces(from, from + Span::from_secs(25 * 3_600)).count(), 24);
}
