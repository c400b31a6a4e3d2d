//! A type name is unique within a crate.

use std::collections::BTreeMap;

use crate::sources::Source;

/// Type names that readers see with their module.
const CONVENTIONAL: [&str; 3] = ["Options", "Arguments", "Error"];

/// Returns the name of the type that a line of code defines.
fn defined(code: &str) -> Option<&str> {
    let words: Vec<&str> = code.split_whitespace().collect();
    let keyword = words.iter().position(|word| ["struct", "enum", "trait"].contains(word))?;
    let is_definition = words[..keyword].iter().all(|word| word.starts_with("pub"));
    let name = words.get(keyword + 1).filter(|_| is_definition)?;
    Some(name.split(|of: char| !of.is_alphanumeric()).next().unwrap_or(name))
}

/// Returns each definition of a name that occurs more than once in its crate.
pub fn repeated(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for source in sources {
        let Some((of, _)) = source.path().split_once("/src/") else { continue };
        for (number, code) in source.code() {
            if let Some(name) = defined(code).filter(|name| !CONVENTIONAL.contains(name)) {
                places.entry((of, name)).or_default().push(format!("{}:{number}: `{name}`", source.path()));
            }
        }
    }
    places.into_values().filter(|places| places.len() > 1).flatten().collect()
}

#[test]
fn a_name_with_two_types_is_found() {
    let at = |path: &str, text: &str| Source::new(path, text);
    let first = at("sched/src/a.rs", "pub(crate) struct Held<'a> {\n}\nimpl Held {\n}\npub struct Options;");
    let second = at("sched/src/b.rs", "enum Held { One }\nstruct Options;\n// struct Alone\nstruct Alone;");
    let other = at("model/src/b.rs", "struct Held;\nstruct Alone;");
    assert_eq!(repeated(&[first, second, other]), ["sched/src/a.rs:1: `Held`", "sched/src/b.rs:1: `Held`"]);
}
