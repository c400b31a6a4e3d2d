//! Readers of input from outside, as functions of bytes, and mutated inputs for them. libFuzzer calls the same functions
//! (`fuzz`) as the tests.
//!
//! A function returns true if the input is accepted. It panics if a guarantee is broken: a reader panics, an error
//! names no place, or a value changes when it is written and read again.

#![warn(missing_docs)]

mod allocations;
mod devices;
mod feeds;
mod input;
mod mutator;
mod pools;
mod protocol;
mod tables;
mod texts;
mod workloads;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use allocations::{Counting, peak};
pub use mutator::Mutator;

/// Most bytes that a reader may have allocated at one time, besides [`MEMORY_PER_BYTE`].
pub const MEMORY: usize = 16 << 20;

/// Bytes that a reader may allocate in addition for each byte of its input.
pub const MEMORY_PER_BYTE: usize = 1024;

/// Number of mutated inputs of a test, unless `LIMO_FUZZ_INPUTS` has another one.
const INPUTS: usize = 5_000;

/// A reader of input from outside.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the test, for `cargo xtask fuzz`, and of the directory in `regressions`.
    pub name: &'static str,
    /// Reads an input; returns true if it is accepted, and panics if a guarantee is broken.
    pub read: fn(&[u8]) -> bool,
    /// Returns accepted inputs of each form.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the format.
    pub words: &'static [&'static str],
}

macro_rules! targets {
    ($($module:ident::$name:ident),* $(,)?) => {
        /// All readers.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            read: $module::$name::read,
            seeds: $module::$name::seeds,
            words: $module::$name::WORDS,
        }),*];
    };
}

targets![
    protocol::messages,
    protocol::connection,
    protocol::shepherds,
    workloads::swf,
    workloads::batsim_workload,
    workloads::batsim_platform,
    workloads::platform,
    workloads::curves,
    workloads::recipe,
    workloads::log_crypt,
    pools::htcondor,
    pools::logins,
    pools::fta,
    pools::prepared,
    pools::groups,
    tables::lists,
    tables::profiles,
    tables::variation,
    tables::hardware,
    tables::predictor,
    feeds::prices,
    feeds::limits,
    feeds::openadr,
    feeds::configuration,
    devices::answers,
    devices::counters,
    texts::values,
    texts::certificates,
];

/// Returns the reader of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns the number of mutated inputs of a test: `LIMO_FUZZ_INPUTS`, or 5,000.
///
/// # Panics
/// If the variable is not a number.
pub fn inputs() -> usize {
    // Only tests call this, and a wrong number ends them.
    std::env::var("LIMO_FUZZ_INPUTS").map_or(INPUTS, |text| text.parse().expect("a number of inputs"))
}

/// Reads mutated texts with a reader that a program does not share: a fifth of [`inputs`], because programs are tested without
/// optimisation. The texts are the same in each run.
///
/// # Panics
/// If the reader panics, naming the text, or accepts all texts or none.
pub fn read_mutated(seeds: &[&str], words: &[&str], read: impl Fn(&str) -> bool) {
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    let mut mutator = Mutator::new(1, words);
    let count = inputs() / 5;
    let accepted = (0..count).filter(|_| {
        let input = mutator.input(&seeds);
        let text = String::from_utf8_lossy(&input);
        catch_unwind(AssertUnwindSafe(|| read(&text)))
            .unwrap_or_else(|_| panic!("this text makes the reader panic:\n{text}"))
    });
    let accepted = accepted.count();
    // Both are tested: texts that are accepted and others that are not.
    assert!((count / 1_000..count - count / 1_000).contains(&accepted), "{accepted} of {count} are accepted");
}
