//! Wrong command lines, and traces that are missing.

use super::{lab, refused};

#[test]
fn usage() {
    let folder = tempfile::tempdir().expect("a folder");
    refused(
        folder.path(),
        "reproduce energy-budget-2017 --compat 2017 --hold-after 0s",
        125,
        "error: the argument '--compat <YEAR>' cannot be used with '--hold-after <SPAN>'\n\nUsage: lab reproduce energy-budget-2017 --compat <YEAR>\n\nFor more information, try '--help'.",
    );
    refused(
        folder.path(),
        "bench --only easier",
        1,
        "lab: `easier` is not a part of the benchmark: easy, htc, pools, kth-sp2, sdsc-sp2, sdsc-blue, curie, htc-100000, htc-600000, htc-6000000, pool, pool-no-jobs, pool-no-owners, pool-ranks, pool-6000000, rounds, rounds-ranked, rounds-window, rounds-program, owners, dynshare, campaign, predictor",
    );
}

/// Checks that the campaign needs its weeks, and that a part of the benchmark without its trace is skipped.
#[test]
fn without_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let weeks = "lab: cannot read ./energy-budget-2017: No such file or directory (os error 2)";
    refused(folder.path(), "reproduce energy-budget-2017 --traces .", 1, weeks);
    let bench = lab(folder.path(), "bench --quick --only kth-sp2 --traces .");
    let text = String::from_utf8_lossy(&bench.stdout);
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    assert!(
        text.contains("skipped: ./easy-oracles/KTH-SP2_easy_result.swf.gz does not exist: give --traces"),
        "{text}"
    );
}
