//! The tests that docs/failures.md names.

use std::collections::BTreeSet;
use std::path::Path;

use crate::sources::Source;

/// Returns the names in the last column of the tables that are neither a function nor a module of the sources. A name may
/// end with `…`.
pub fn unknown_tests(document: &str, sources: &[Source]) -> Vec<String> {
    let mut known = BTreeSet::new();
    for source in sources {
        known.extend(Path::new(source.path()).file_stem().and_then(|stem| stem.to_str()));
        for (_, code) in source.code() {
            let name = code.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            known.extend(name);
        }
    }
    let is_known = |name: &str| match name.strip_suffix('…') {
        Some(begin) => known.iter().any(|known| known.starts_with(begin)),
        None => known.contains(name),
    };
    let mut unknown = Vec::new();
    for (line, text) in (1..).zip(document.lines()) {
        let Some((_, cell)) = text.strip_suffix('|').and_then(|row| row.rsplit_once('|')) else { continue };
        for name in cell.split('`').skip(1).step_by(2) {
            if !is_known(name.rsplit("::").next().unwrap_or(name)) {
                unknown.push(format!("line {line}: `{name}`"));
            }
        }
    }
    unknown
}

#[test]
fn a_name_of_no_test_is_found() {
    let sources = [Source::new("a/tests/crowded.rs", "async fn silent_users() {\nfn full_disk<T>(of: T) {")];
    let document = "text with `code`\n| a `failure` | a `reaction` | `crowded`, a `full_…` |\n| b | c | `e2e::silent_users`, `loud` |";
    assert_eq!(unknown_tests(document, &sources), ["line 3: `loud`"]);
}
