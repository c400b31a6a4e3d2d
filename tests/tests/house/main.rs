//! The rules of the house, checked on cargo's data about the workspace and on its sources. A test of each rule breaks
//! it on purpose.

mod failures;
mod lexer;
mod manifests;
mod names;
mod packages;
mod recipes;
mod sources;
mod tree;

use std::path::Path;

use tree::Tree;

/// Returns the root of the workspace: the directory above this crate.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate of the workspace lies in its root")
}

/// Fails if `broken` lists anything that breaks `rule`.
fn check(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

fn check_sources(rule: &str, find: impl Fn(&sources::Source) -> Vec<String>) {
    let tree = Tree::read(root());
    let sources = tree.sources();
    assert!(sources.len() > 100, "{} sources are not all of them", sources.len());
    check(rule, &sources.iter().flat_map(find).collect::<Vec<_>>());
}

#[test]
fn the_core_depends_on_data_errors_and_numbers_only() {
    check(
        "model and sched depend on serde, thiserror, libm, rand_xoshiro and each other only",
        &packages::impure(&packages::read(root())),
    );
}

#[test]
fn programs_and_adapters_stand_alone() {
    check("each crate depends on what the house allows", &packages::misplaced(&packages::read(root())));
}

#[test]
fn tests_enable_no_features_that_programs_lack() {
    let found = packages::only_for_tests(&packages::read(root()));
    check("tests use crates as programs do: each other feature doubles the time of a build", &found);
}

#[test]
fn a_directory_is_a_crate_and_has_its_name() {
    check("a library is limo-DIRECTORY, a program is DIRECTORY", &packages::misnamed(&packages::read(root())));
}

#[test]
fn a_version_stands_once() {
    let tree = Tree::read(root());
    let broken = tree.members().flat_map(|(path, text)| manifests::unshared(path, text));
    check("members take every dependency from the workspace", &broken.collect::<Vec<_>>());
}

#[test]
fn http_is_spoken_by_one_client() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest of the workspace");
    check("`reqwest` is the one HTTP client", &manifests::other_clients(&manifest));
}

#[test]
fn bincode_is_one_module() {
    let tree = Tree::read(root());
    let users = tree.members().filter(|(_, text)| text.contains("bincode")).map(|(path, _)| path.to_owned());
    assert_eq!(users.collect::<Vec<_>>(), ["proto/Cargo.toml"]);
    check_sources("bincode is known to proto/src/encoding.rs only", sources::encoding_elsewhere);
}

#[test]
fn the_core_knows_no_outside_world() {
    check_sources("model and sched are pure", sources::impure);
}

#[test]
fn the_core_is_built_in_layers() {
    check_sources("a module of the core uses only those below it", sources::upward_uses);
}

#[test]
fn no_source_asks_for_a_policy_by_name() {
    check_sources("policies are told apart by their parts", sources::named_policies);
}

#[test]
fn a_name_is_one_type() {
    check("a name stands for one type of a crate", &names::repeated(&Tree::read(root()).sources()));
}

#[test]
fn each_source_states_its_purpose() {
    check_sources("a source opens with `//!`", sources::without_head);
}

#[test]
fn sources_are_short() {
    check_sources("a source has at most 400 lines", sources::long);
}

#[test]
fn a_query_is_in_five_files() {
    let files = recipes::of_changes(&Tree::read(root()).sources());
    let named = [
        "lconf/src/history.rs",
        "lmaster/src/controller/history.rs",
        "lmaster/src/database.rs",
        "lmaster/src/web/api.rs",
        "proto/src/queries.rs",
    ];
    assert_eq!(files, named, "CONTRIBUTING.md says that a query is in these and its table; the API is another caller");
}

#[test]
fn the_tests_of_failures_exist() {
    let document = std::fs::read_to_string(root().join("docs/failures.md")).expect("the document");
    let sources = Tree::read(root()).sources();
    check("docs/failures.md names tests", &failures::unknown_tests(&document, &sources));
}

#[test]
fn no_test_is_ignored() {
    check_sources("no test is ignored", sources::ignored_tests);
}

#[test]
fn tests_wait_for_events() {
    check_sources("no test sleeps", sources::sleeping_tests);
}

#[test]
fn files_are_replaced_in_one_way() {
    check_sources("files are replaced by `limo_files`", sources::own_renames);
}

#[test]
fn random_numbers_come_from_one_crate() {
    check_sources("pseudo-random numbers come from `rand_xoshiro`", sources::own_generators);
}

#[test]
fn contents_are_digested_in_one_place() {
    check_sources("digests come from `limo_model::Digest`", sources::own_digests);
}

#[test]
fn decimal_numbers_are_read_in_one_place() {
    check_sources("decimal numbers are read by `limo_model::decimal`", sources::own_decimals);
}

#[test]
fn nothing_outside_tests_panics_without_a_proof() {
    check_sources("`unwrap` and `expect` have a comment that proves them", sources::unproven);
}

#[test]
fn names_say_something() {
    check_sources("no empty name", sources::empty_names);
}

#[test]
fn nothing_knows_the_machine_it_was_made_on() {
    let tree = Tree::read(root());
    check(
        "no text names the machine it was made on",
        &tree.texts().flat_map(|(path, text)| tree::traces(path, text)).collect::<Vec<_>>(),
    );
}

#[test]
fn only_the_laboratory_knows_a_place_outside() {
    let tree = Tree::read(root());
    check(
        "what is installed names no path outside the repository",
        &tree.texts().flat_map(|(path, text)| tree::outside(path, text)).collect::<Vec<_>>(),
    );
}

#[test]
fn the_documents_are_there() {
    let missing = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"]
        .into_iter()
        .filter(|name| !root().join(name).exists());
    check("the documents at the top", &missing.map(|name| format!("{name} is missing")).collect::<Vec<_>>());
}
