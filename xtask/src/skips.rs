//! Counts the tests that skipped something, from the file in which they record it.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the number of all tests that skipped something, then a line for each missing requirement: the number of
/// tests, and the first recorded reason.
pub fn summary(record: &str) -> Vec<String> {
    let mut all = BTreeSet::new();
    let mut missing: BTreeMap<&str, (BTreeSet<&str>, &str)> = BTreeMap::new();
    for line in record.lines() {
        let (test, rest) = line.split_once('\t').unwrap_or((line, ""));
        let (requirement, reason) = rest.split_once('\t').unwrap_or((rest, ""));
        all.insert(test);
        missing.entry(requirement).or_insert_with(|| (BTreeSet::new(), reason)).0.insert(test);
    }
    let mut lines = vec![format!("tests that skipped something: {}", all.len())];
    let each = missing.iter().map(|(requirement, (tests, reason))| (requirement, tests.len(), reason));
    lines.extend(each.map(|(requirement, count, reason)| format!("{count} need {requirement}: {reason}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_counts_once_for_each_requirement() {
        assert_eq!(summary(""), ["tests that skipped something: 0"]);
        let record = "e2e a\tan optional program\tno zsh\ne2e a\tan optional program\tno fish\n\
                      e2e b\troot\tonly root can\ne2e a\troot\tonly root may\n";
        let expected =
            ["tests that skipped something: 2", "1 need an optional program: no zsh", "2 need root: only root can"];
        assert_eq!(summary(record), expected);
    }
}
