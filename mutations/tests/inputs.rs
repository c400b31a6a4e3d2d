//! Each reader reads its seeds, its regressions, and mutated inputs without a panic and within bounded memory.
//!
//! `LIMO_FUZZ_INPUTS` is the number of mutated inputs of each reader. The inputs are the same in each run.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use limo_mutations::{Counting, MEMORY, MEMORY_PER_BYTE, Mutator, TARGETS, Target, peak, target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads an input. One that breaks a guarantee is written to a file, which the panic names.
fn accepts(target: &Target, input: &[u8]) -> bool {
    let (result, bytes) = peak(|| catch_unwind(AssertUnwindSafe(|| (target.read)(input))));
    let limit = MEMORY + MEMORY_PER_BYTE * input.len();
    match result {
        Ok(accepted) if bytes <= limit => accepted,
        result => {
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.input", target.name));
            fs::write(&file, input).expect("written");
            let reason = match result {
                Ok(_) => format!("holds {bytes} bytes of memory at one time: the limit is {limit}"),
                Err(_) => "panics".to_owned(),
            };
            panic!("{} {reason}, for the input in {}", target.name, file.display());
        }
    }
}

fn regressions(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(name);
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| fs::read(entry.expect("an entry").path()).expect("readable")).collect()
}

fn check(name: &str) {
    let target = target(name).expect("a reader of that name");
    let inputs = limo_mutations::inputs();
    let seeds = (target.seeds)();
    let refused: Vec<_> =
        seeds.iter().filter(|seed| !accepts(target, seed)).map(|seed| String::from_utf8_lossy(seed)).collect();
    assert!(refused.is_empty(), "{name} refuses its seeds {refused:?}");
    for input in regressions(name) {
        accepts(target, &input);
    }
    let mut mutator = Mutator::new(1, target.words);
    let accepted = (0..inputs).filter(|_| accepts(target, &mutator.input(&seeds))).count();
    println!("{name}: {accepted} of {inputs} inputs are accepted");
    // Both are tested: inputs that are accepted and others that are not.
    assert!((inputs / 1_000..inputs - inputs / 1_000).contains(&accepted), "{accepted} of {inputs} are accepted");
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn each_reader_has_a_test() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests![
    messages,
    connection,
    shepherds,
    swf,
    batsim_workload,
    batsim_platform,
    platform,
    curves,
    recipe,
    log_crypt,
    htcondor,
    logins,
    fta,
    prepared,
    groups,
    lists,
    profiles,
    variation,
    hardware,
    predictor,
    prices,
    limits,
    openadr,
    configuration,
    answers,
    counters,
    values,
    certificates,
];
