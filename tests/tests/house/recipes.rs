//! Recipes of CONTRIBUTING.md that count files, checked with their own examples.

use crate::sources::Source;

/// The types of the query for changes. The table that answers it does not use them.
const CHANGES: [&str; 3] = ["ChangesQuery", "ChangesPage", "ChangesLookup"];

/// Returns the sources, apart from tests, that name a type of the query for changes.
pub fn of_changes(sources: &[Source]) -> Vec<String> {
    let names = |code: &str| {
        let mut words = code.split(|of: char| !of.is_alphanumeric());
        words.any(|word| CHANGES.contains(&word))
    };
    let is_in = |source: &&Source| !source.path().contains("tests") && source.code().any(|(_, code)| names(code));
    sources.iter().filter(is_in).map(|source| source.path().to_owned()).collect()
}

#[test]
fn a_file_that_names_a_type_of_a_question_is_found() {
    let at = |path: &str, text: &str| Source::new(path, text);
    let sources = [
        at("lq/src/a.rs", "use b::{ChangesQuery};"),
        at("lq/src/b.rs", "struct NoChangesQuery; // ChangesPage"),
        at("lq/tests/c.rs", "use b::ChangesPage;"),
    ];
    assert_eq!(of_changes(&sources), ["lq/src/a.rs"]);
}
