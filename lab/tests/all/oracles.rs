//! Complete EASY schedules of another simulator: the waits of all jobs agree, through the program.

use std::collections::BTreeMap;
use std::io::Read;

use limo_requirements::trace_set;

use super::{column, printed, read};

/// Checks `jobs` waits of the trace `name`.
fn check(name: &str, jobs: usize) {
    let Some(traces) = trace_set("easy-oracles") else { return };
    let (folder, trace) = (tempfile::tempdir().expect("a folder"), traces.join(name));
    let packed = std::fs::File::open(&trace).expect("a trace");
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(packed).read_to_string(&mut text).expect("a whole file");
    let expected: BTreeMap<i64, i64> = text.lines().filter(|line| !line.starts_with(';')).map(wait).collect();
    assert_eq!(expected.len(), jobs);
    printed(folder.path(), &format!("run --trace {} --policy easy --out out", trace.display()));
    let rows = read(folder.path(), "out/jobs.csv");
    let number = |cell: &&str| cell.parse::<i64>().expect("a whole number");
    let (ids, waits) = (column(&rows, "job_id"), column(&rows, "waiting_time"));
    let found: BTreeMap<i64, i64> = ids.iter().map(number).zip(waits.iter().map(number)).collect();
    assert_eq!(ids.len(), jobs);
    let first = expected.iter().zip(&found).find(|(expected, found)| expected != found);
    assert_eq!(first, None, "the first job with another wait: the oracle's and ours");
    assert_eq!(expected.len(), found.len());
}

/// Parses number and wait of a line: columns 1 and 3.
fn wait(line: &str) -> (i64, i64) {
    let mut fields = line.split_whitespace().map(|field| field.parse::<i64>().expect("a whole number"));
    (fields.next().expect("a number"), fields.nth(1).expect("a wait"))
}

#[test]
fn kth_sp2() {
    check("KTH-SP2_easy_result.swf.gz", 28_481);
}

#[test]
fn sdsc_sp2() {
    check("SDSC-SP2_easy_result.swf.gz", 54_006);
}

#[test]
fn sdsc_blue() {
    check("SDSC-BLUE_easy_result.swf.gz", 232_542);
}

#[test]
fn curie() {
    check("CEA-curie_easy_result.swf.gz", 295_540);
}
