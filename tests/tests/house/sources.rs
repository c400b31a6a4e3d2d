//! Rules for sources.

use crate::lexer::{Line, is_word, lines, words};

/// Most lines of a source: enough for a module with its tests, and few enough to read at once.
const LINE_LIMIT: usize = 400;

/// Tests, or directories of tests, with a sleep that does not wait for a condition, and the reason.
const SLEEPERS: [(&str, &str); 11] = [
    ("tests/src/until.rs", "looks again and again, with a limit: how the other tests wait for what reports no event"),
    ("tests/src/bin/limo-workload.rs", "a program whose work is to take its time"),
    ("tests/tests/e2e/master_crash.rs", "chooses the random instant of a kill"),
    ("tests/tests/e2e/node_crash.rs", "chooses the random instant of a kill"),
    ("tests/src/bin/limo-hostile.rs", "a program that goes on for a given time"),
    ("tests/tests/adversity/", "chooses how long failures and attacks last, and looks at a steady rate"),
    ("tests/tests/faults/", "chooses how long failures last, and delays bytes as a lossy network does"),
    ("tests/tests/statements/life.rs", "chooses how long a failure lasts, and when the next thing happens"),
    ("tests/tests/statements/looks.rs", "looks at a steady rate for as long as the run lasts"),
    ("tests/tests/owners/main.rs", "chooses when owners come and how long failures last"),
    ("tests/src/torrent.rs", "writes at a steady rate, so that bytes are under way at each kill"),
];

/// Sources that rename files themselves, and the reason. All others use `limo_files::replace`.
const RENAMERS: [(&str, &str); 6] = [
    ("files/src/lib.rs", "replaces files"),
    ("lmaster/src/listen.rs", "puts a socket in its place"),
    ("lslave/src/spool/log.rs", "goes on writing to the new file"),
    ("lconf/src/backup.rs", "takes the name before it asks for the content"),
    ("lsim/src/output/folder.rs", "puts a folder in its place"),
    ("xtask/src/response/plant.rs", "plays a device"),
];

/// Constants of generators of pseudo-random numbers. Generators come from `rand_xoshiro`.
const GENERATORS: [&str; 3] = ["0xbf58_476d_1ce4_e5b9", "6_364_136_223_846_793_005", "0x2545_f491_4f6c_dd1d"];

/// First value of the digest FNV-1a. `model/src/digest.rs` computes it.
const DIGEST: &str = "0xcbf2_9ce4_8422_2325";

/// Sources that put digits together themselves, and the reason. All others use `limo_model::decimal`.
const DIGIT_READERS: [(&str, &str); 2] =
    [("model/src/decimal.rs", "reads numbers"), ("model/src/file_name.rs", "reads a width, which stops at its limit")];

/// Names without meaning.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "shared"];

/// Modules of the standard library with external effects. `sched/clippy.toml` lists the types and functions of other
/// modules.
const OUTSIDE_STD: [&str; 5] = ["fs", "net", "thread", "env", "process"];

pub struct Source {
    path: String,
    lines: Vec<Line>,
    /// By line: true if it is part of a test.
    is_test: Vec<bool>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let lines = lines(text.strip_suffix('\n').unwrap_or(text));
        let whole = path.starts_with("tests/")
            || path.contains("/tests/")
            || path.contains("/benches/")
            || path.ends_with("/tests.rs");
        let is_test = if whole { vec![true; lines.len()] } else { test_lines(&lines) };
        Self { path: path.to_owned(), lines, is_test }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns each line's number from 1, and its text without comments.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered().map(|(number, line, _)| (number, line.code.as_str()))
    }

    /// Returns each line with its number from 1, and true if it is part of a test.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Line, bool)> {
        self.lines.iter().zip(&self.is_test).enumerate().map(|(index, (line, is_test))| (index + 1, line, *is_test))
    }

    fn find(&self, what: &str, wrong: impl Fn(&Line, bool) -> bool) -> Vec<String> {
        let found = self.numbered().filter(|(_, line, is_test)| wrong(line, *is_test));
        found.map(|(number, ..)| format!("{}:{number}: {what}", self.path)).collect()
    }
}

/// Marks each item under `#[cfg(test)]`, from the attribute to its closing brace or its semicolon.
fn test_lines(lines: &[Line]) -> Vec<bool> {
    let mut marks = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].code.contains("#[cfg(test)]") {
            at += 1;
            continue;
        }
        let (mut depth, mut opened) = (0_i64, false);
        while at < lines.len() {
            marks[at] = true;
            let code = &lines[at].code;
            depth += code.matches('{').count() as i64 - code.matches('}').count() as i64;
            opened |= code.contains('{');
            at += 1;
            if depth == 0 && (opened || code.trim_end().ends_with(';')) {
                break;
            }
        }
    }
    marks
}

pub fn without_head(source: &Source) -> Vec<String> {
    let opens = source.lines.first().is_some_and(|line| line.code.is_empty() && line.comment.starts_with('!'));
    if opens { Vec::new() } else { vec![format!("{}: does not open with `//!`", source.path)] }
}

pub fn long(source: &Source) -> Vec<String> {
    let count = source.lines.len();
    if count <= LINE_LIMIT { Vec::new() } else { vec![format!("{}: {count} lines", source.path)] }
}

pub fn ignored_tests(source: &Source) -> Vec<String> {
    source.find("an ignored test", |line, _| line.code.contains("#[ignore"))
}

pub fn sleeping_tests(source: &Source) -> Vec<String> {
    if SLEEPERS.iter().any(|(path, _)| source.path.starts_with(path)) {
        return Vec::new();
    }
    // Without an argument, `sleep()` is another function, or the name of a test.
    let is_called = |code: &str, name| code.match_indices(name).any(|(at, _)| !code[..at].ends_with(is_word));
    let waits = |code: &str| is_called(code, "sleep(") || is_called(code, "sleep_until(");
    let sleeps = |line: &Line| waits(&line.code.replace("sleep()", ""));
    source.find("sleeps", |line, is_test| is_test && sleeps(line))
}

pub fn own_renames(source: &Source) -> Vec<String> {
    if RENAMERS.iter().any(|(path, _)| *path == source.path) {
        return Vec::new();
    }
    source.find("renames a file", |line, is_test| !is_test && line.code.contains("fs::rename("))
}

pub fn own_generators(source: &Source) -> Vec<String> {
    // The digest of this file is compared with that of earlier programs.
    if source.path == "sched/benches/round.rs" {
        return Vec::new();
    }
    source.find("has a generator of its own", |line, _| GENERATORS.iter().any(|number| line.code.contains(number)))
}

pub fn own_digests(source: &Source) -> Vec<String> {
    // The bench must not depend on what it measures.
    if ["model/src/digest.rs", "sched/benches/round.rs"].contains(&source.path()) {
        return Vec::new();
    }
    source.find("has a digest of its own", |line, _| line.code.contains(DIGEST))
}

pub fn own_decimals(source: &Source) -> Vec<String> {
    if DIGIT_READERS.iter().any(|(path, _)| *path == source.path) {
        return Vec::new();
    }
    let reads = |code: &str| code.contains("* 10 + ") || code.contains("to_digit(10)");
    source.find("reads digits itself", |line, is_test| !is_test && reads(&line.code))
}

/// Returns calls of `unwrap()` and `expect()` outside tests without a comment in their statement or on the line before
/// it.
pub fn unproven(source: &Source) -> Vec<String> {
    let panics = |line: &Line| line.code.contains(".unwrap()") || line.code.contains(".expect(");
    let found = source
        .numbered()
        .filter(|(number, line, is_test)| !is_test && panics(line) && !is_commented(&source.lines, number - 1));
    found.map(|(number, ..)| format!("{}:{number}: no comment says why it cannot fail", source.path)).collect()
}

fn is_commented(lines: &[Line], mut index: usize) -> bool {
    loop {
        if !lines[index].comment.is_empty() {
            return true;
        }
        let Some(before) = index.checked_sub(1) else { return false };
        let code = lines[before].code.trim_end();
        // The statement began after this line, unless the line is a comment.
        if code.ends_with([';', '{', '}']) || (code.is_empty() && lines[before].comment.is_empty()) {
            return false;
        }
        index = before;
    }
}

pub fn empty_names(source: &Source) -> Vec<String> {
    let stem = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let mut found = source.find("a name that says nothing", |line, _| {
        let words: Vec<&str> = words(&line.code).collect();
        words.windows(2).any(|pair| match pair {
            ["mod", name] => EMPTY_NAMES.contains(name),
            // One name is allowed, because every collection of the standard library has it.
            ["fn", name] => name.starts_with("get_") && *name != "get_mut",
            _ => false,
        })
    });
    if EMPTY_NAMES.contains(&stem) || source.path.split('/').any(|part| EMPTY_NAMES.contains(&part)) {
        found.push(format!("{}: a name that says nothing", source.path));
    }
    found
}

/// Sources that do no I/O.
const PURE: [&str; 3] = ["model/src/", "sched/src/", "node/src/"];

pub fn impure(source: &Source) -> Vec<String> {
    if !PURE.iter().any(|dir| source.path.starts_with(dir)) {
        return Vec::new();
    }
    // The exit status of a process is a number.
    let code = |line: &Line| line.code.replace("std::process::ExitStatus", "").replace("std::os::unix::process", "");
    source.find("reaches outside", |line, is_test| !is_test && reaches_through_std(&code(line)))
}

/// Sources that must not name a policy: the behaviour of a policy follows from its parts, in `model/src/preset.rs`.
/// Reproductions and benchmarks name the policies that they reproduce.
const NAMELESS: [&str; 7] =
    ["sched/src/", "lmaster/src/", "lslave/src/", "lconf/src/", "lq/src/", "lrun/src/", "lsim/src/commands/"];

pub fn named_policies(source: &Source) -> Vec<String> {
    if !NAMELESS.iter().any(|dir| source.path.starts_with(dir)) || source.path.contains("/tests") {
        return Vec::new();
    }
    let names = |code: &str| {
        let rests = code.split("Preset::").skip(1);
        rests.filter_map(|rest| words(rest).next()).any(|word| !["ALL", "DEFAULT"].contains(&word) && is_type(word))
    };
    source.find("names a policy", |line, is_test| !is_test && names(&line.code))
}

/// Modules of the core from the bottom up. Each uses only those before it, so that the checker cannot use the index.
const LAYERS: [&str; 25] = [
    "structure",
    "solve",
    "options",
    "account",
    "fairshare",
    "budget",
    "plan",
    "round",
    "refused",
    "event",
    "state",
    "mode",
    "facts",
    "books",
    "check",
    "index",
    "cluster",
    "apply",
    "view",
    "future",
    "engine",
    "policy",
    "core",
    "explain",
    "offer",
];

pub fn upward_uses(source: &Source) -> Vec<String> {
    let Some(own) = source.path.strip_prefix("sched/src/").filter(|path| *path != "lib.rs") else { return Vec::new() };
    let module = own.split(['/', '.']).next().unwrap_or_default();
    let below = LAYERS.iter().position(|layer| *layer == module).map_or(&LAYERS[..0], |own| &LAYERS[..=own]);
    let uses = |code: &str| {
        let mut paths = code.split("crate::").skip(1);
        paths.any(|path| path.starts_with("{") || words(path).next().is_none_or(|used| !below.contains(&used)))
    };
    source.find("uses a module above its own", |line, is_test| !is_test && uses(&line.code))
}

/// Returns true for types and variants, which begin with a capital letter, unlike functions.
fn is_type(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Finds `std::fs`, and `fs` within `std::{...}`.
fn reaches_through_std(code: &str) -> bool {
    code.split("std::").skip(1).any(|rest| match rest.strip_prefix('{') {
        Some(group) => words(group).any(|word| OUTSIDE_STD.contains(&word)),
        None => words(rest).next().is_some_and(|word| OUTSIDE_STD.contains(&word)),
    })
}

pub fn encoding_elsewhere(source: &Source) -> Vec<String> {
    if source.path == "proto/src/encoding.rs" {
        return Vec::new();
    }
    source.find("names bincode", |line, _| words(&line.code).any(|word| word == "bincode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Source) -> Vec<String>, path: &str, text: &str, broken: usize) {
        let found = rule(&Source::new(path, text));
        assert_eq!(found.len(), broken, "{path}: {found:?} in\n{text}");
    }

    #[test]
    fn heads_and_lengths() {
        check(without_head, "a/src/b.rs", "//! What for.\n", 0);
        check(without_head, "a/src/b.rs", "// What for.\n", 1);
        check(without_head, "a/src/b.rs", "\n//! What for.\n", 1);
        check(long, "a/src/b.rs", &"x\n".repeat(400), 0);
        check(long, "a/src/b.rs", &"x\n".repeat(401), 1);
    }

    #[test]
    fn ignored_tests_are_found_in_code_only() {
        check(ignored_tests, "a/src/b.rs", "// #[ignore]\nlet a = \"#[ignore]\";\n", 0);
        check(ignored_tests, "a/tests/b.rs", "#[ignore = \"slow\"]\nfn a() {}\n#[ignore]\n", 2);
    }

    #[test]
    fn sleeping_is_for_programs() {
        let body = "fn a() {\n    thread::sleep(b);\n}\n";
        check(sleeping_tests, "a/src/b.rs", body, 0);
        check(sleeping_tests, "a/tests/b.rs", body, 1);
        check(sleeping_tests, "a/src/b.rs", &format!("fn c() {{}}\n#[cfg(test)]\nmod tests {{\n{body}}}\n{body}"), 1);
        check(sleeping_tests, "tests/src/until.rs", body, 0);
    }

    #[test]
    fn what_is_written_once() {
        let rename = "fn a() {\n    fs::rename(b, c);\n}\n";
        check(own_renames, "lslave/src/a.rs", rename, 1);
        check(own_renames, "files/src/lib.rs", rename, 0);
        check(own_renames, "lslave/tests/a.rs", rename, 0);
        let generator = "x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);\n// 0xbf58_476d_1ce4_e5b9\n";
        check(own_generators, "lslave/tests/a.rs", generator, 1);
        check(own_generators, "sched/benches/round.rs", generator, 0);
        check(own_digests, "lsim/src/a.rs", "let sum = 0xcbf2_9ce4_8422_2325_u64;\n", 1);
        let digits = "fn a() {\n    b = b * 10 + c.to_digit(10);\n}\n";
        check(own_decimals, "trace/src/a.rs", digits, 1);
        check(own_decimals, "model/src/decimal.rs", digits, 0);
    }

    #[test]
    fn what_may_panic_is_proven() {
        check(unproven, "a/src/b.rs", "a.unwrap_or(b).expect_err(c);\n", 0);
        check(unproven, "a/src/b.rs", "a.unwrap();\n", 1);
        check(unproven, "a/src/b.rs", "a.unwrap(); // Never empty.\n", 0);
        check(unproven, "a/src/b.rs", "// Never empty.\nlet x = a\n    .b()\n    .expect(\"c\");\n", 0);
        check(unproven, "a/src/b.rs", "// Never empty.\nlet x = a;\nlet y = a.unwrap();\n", 1);
        check(unproven, "a/src/b.rs", "#[cfg(test)]\nmod tests;\nfn a() {\n    b.unwrap();\n}\n", 1);
        check(unproven, "a/src/b/tests.rs", "a.unwrap();\n", 0);
    }

    #[test]
    fn names() {
        check(empty_names, "a/src/b.rs", "mod utility;\nfn forget_it() {}\n", 0);
        check(empty_names, "a/src/b.rs", "pub mod util;\npub(crate) fn get_it() {}\n", 2);
        check(empty_names, "a/src/common/b.rs", "\n", 1);
        check(empty_names, "a/src/helpers.rs", "\n", 1);
    }

    #[test]
    fn the_outside_world() {
        check(impure, "model/src/a.rs", "use std::fmt;\nuse std::collections::BTreeMap;\n// std::fs\n", 0);
        check(impure, "sched/src/a.rs", "use std::{fmt, fs};\nlet a = std::env::var(b);\n", 2);
        check(impure, "sched/src/a.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n", 0);
        check(impure, "node/src/a.rs", "use std::process::ExitStatus;\nuse std::process::Command;\n", 1);
        check(impure, "lmaster/src/a.rs", "use std::fs;\n", 0);
    }

    #[test]
    fn policies_by_name() {
        let named = "if a.preset == Preset::Easy {}\nPreset::ALL.map(Preset::name);\nlet b = Preset::DEFAULT;\n";
        check(named_policies, "sched/src/a.rs", named, 1);
        check(named_policies, "lab/src/reproduce/a.rs", named, 0);
        check(named_policies, "lmaster/src/controller/tests/a.rs", named, 0);
    }

    #[test]
    fn the_core_is_built_in_layers() {
        let uses = "use crate::plan::Plan;\n// crate::core\nlet a: crate::view::View;\n";
        check(upward_uses, "sched/src/core/a.rs", uses, 0);
        check(upward_uses, "sched/src/state.rs", uses, 1);
        check(upward_uses, "sched/src/structure/a.rs", "use crate::structure::A;\nuse crate::{plan, round};\n", 1);
        check(upward_uses, "sched/src/plan.rs", "#[cfg(test)]\nmod tests {\n    use crate::Core;\n}\n", 0);
        check(upward_uses, "sched/src/unknown.rs", uses, 2);
        check(upward_uses, "lmaster/src/a.rs", "use crate::b;\n", 0);
    }

    #[test]
    fn the_encoding_is_one_module() {
        check(encoding_elsewhere, "proto/src/encoding.rs", "use bincode::config;\n", 0);
        check(encoding_elsewhere, "proto/src/frame.rs", "// not bincode\nlet a = bincode::decode(b);\n", 1);
    }
}
