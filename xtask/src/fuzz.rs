//! `cargo xtask fuzz`: readers of input from outside under libFuzzer, which keeps the inputs that reach new code.
//!
//! The program of `fuzz` is built once, instrumented as by cargo-fuzz, which is not needed. As many readers as there are
//! processors run beside each other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use limo_model::Span;
use limo_mutations::{TARGETS, Target, target};

use crate::workspace::{nightly, root, target_dir};

/// The platform. It is named, so that build scripts are not instrumented.
pub const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Instrumentation of libFuzzer, with AddressSanitizer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address";

/// Limits of libFuzzer: seconds for an input, MiB of all memory and of one allocation, and bytes of an input.
const LIMITS: [&str; 4] = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=64", "-max_len=4096"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Readers to be tested [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Number of inputs of each reader
    #[arg(long, value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Time for each reader
    #[arg(long, value_name = "SPAN", default_value = "1min")]
    time: Span,
}

/// Result of one reader.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    inputs: u64,
    /// Edges of the program that were reached.
    coverage: u64,
    findings: Vec<String>,
}

/// Builds the program, runs it, and prints a line for each reader.
///
/// # Errors
/// If the nightly toolchain is missing, a reader is unknown, or an input breaks a guarantee.
pub fn run(arguments: &Arguments) -> Result<()> {
    let chosen = chosen(&arguments.targets)?;
    let place = target_dir()?.join("fuzz");
    let program = build(&place)?;
    let seconds = (arguments.time.ms() / 1000).max(1);
    let end = arguments.runs.map_or_else(|| format!("-max_total_time={seconds}"), |runs| format!("-runs={runs}"));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    println!("{:<16} {:>12} {:>9} {:>8}  findings", "target", "inputs", "coverage", "time");
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = Instant::now();
                    let failure = match fuzz(target, &program, &place, &end) {
                        Ok(Outcome { inputs, coverage, findings }) => {
                            let (seconds, found) = (begin.elapsed().as_secs(), findings.join(" "));
                            println!("{:<16} {inputs:>12} {coverage:>9} {seconds:>6} s  {found}", target.name);
                            (!findings.is_empty()).then(|| target.name.to_owned())
                        }
                        Err(error) => Some(format!("{} ({error:#})", target.name)),
                    };
                    // No thread panics while it holds the lock.
                    failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(failure);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    if !failures.is_empty() {
        bail!("failed: {}. Put the file of each finding into mutations/regressions/TARGET", failures.join(", "));
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    names
        .iter()
        .map(|name| target(name).with_context(|| format!("no reader `{name}`: there are {}", known())))
        .collect()
}

/// Builds the program; returns its path.
fn build(place: &Path) -> Result<PathBuf> {
    let directory = place.join("build");
    let status = nightly(&["build", "--release", "--bins", "--locked", "--target", PLATFORM])?
        .current_dir(root()?.join("fuzz"))
        .env("CARGO_TARGET_DIR", &directory)
        .env("RUSTFLAGS", FLAGS)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cannot build the program of fuzz");
    Ok(directory.join(PLATFORM).join("release/reader"))
}

/// Runs one reader; its output goes to a file.
fn fuzz(target: &Target, program: &Path, place: &Path, end: &str) -> Result<Outcome> {
    let name = target.name;
    let corpus = place.join("corpus").join(name);
    let seeds = place.join("seeds").join(name);
    let findings = place.join("findings").join(name);
    for dir in [&corpus, &seeds, &findings] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    for (index, seed) in (target.seeds)().iter().enumerate() {
        fs::write(seeds.join(index.to_string()), seed).context("cannot write a seed")?;
    }
    let log = place.join(format!("{name}.log"));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.env("LIMO_FUZZ_READER", name).arg(&corpus).arg(&seeds);
    let regressions = root()?.join("mutations/regressions").join(name);
    if regressions.is_dir() {
        command.arg(regressions);
    }
    command.args(LIMITS).arg(end).arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", findings.display()));
    // libFuzzer refuses an empty dictionary.
    if !target.words.is_empty() {
        let dictionary = place.join(format!("{name}.dict"));
        fs::write(&dictionary, dictionary_of(target.words)).context("cannot write a dictionary")?;
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    let outcome = outcome(&String::from_utf8_lossy(&fs::read(&log).context("cannot read the log")?));
    if !status.success() && outcome.findings.is_empty() {
        bail!("{status} without a finding: see {}", log.display());
    }
    Ok(outcome)
}

/// Returns a dictionary in libFuzzer's format.
fn dictionary_of(words: &[&str]) -> String {
    let escaped = |word: &str| word.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    words.iter().map(|word| format!("\"{}\"\n", escaped(word))).collect()
}

/// Reads libFuzzer's output.
fn outcome(log: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once(" cov: ") {
            let coverage = rest.split(' ').next().and_then(|number| number.parse().ok());
            outcome.coverage = coverage.unwrap_or(outcome.coverage);
        }
        if let Some((key, number)) = line.split_once(": ").filter(|(key, _)| key.starts_with("stat::")) {
            numbers.extend(number.trim().parse().ok().map(|number| (key, number)));
        }
        outcome.findings.extend(line.split_once("Test unit written to ").map(|(_, file)| file.to_owned()));
    }
    outcome.inputs = numbers.get("stat::number_of_executed_units").copied().unwrap_or(0);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_libfuzzer_is_read() {
        let log = "#2\tINITED cov: 81 ft: 82 corp: 1/1b exec/s: 0 rss: 30Mb\n\
            #4096\tNEW    cov: 90 ft: 99 corp: 2/5b lim: 4 exec/s: 0 rss: 31Mb L: 4/4 MS: 1 ChangeBit-\n\
            artifact_prefix='f/'; Test unit written to f/crash-1\nstat::number_of_executed_units: 5000\n\
            stat::average_exec_per_sec:     0\n";
        let expected = Outcome { inputs: 5_000, coverage: 90, findings: vec!["f/crash-1".to_owned()] };
        assert_eq!(outcome(log), expected);
        assert_eq!(dictionary_of(&["a\n"]), "\"\\x61\\x0a\"\n");
    }

    #[test]
    fn an_unknown_reader_is_refused() {
        let error = chosen(&["swf".to_owned(), "swv".to_owned()]).expect_err("unknown").to_string();
        assert!(error.starts_with("no reader `swv`: there are messages, "), "{error}");
        assert_eq!(chosen(&[]).expect("all").len(), TARGETS.len());
    }
}
