//! `cargo xtask sanitize`: tests of crates with unsafe code under AddressSanitizer, and under Miri if it is installed.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::fuzz::PLATFORM;
use crate::workspace::{nightly, target_dir};

/// Tests that run under AddressSanitizer.
const ADDRESS: [(&str, &[&str]); 3] = [
    ("shepherd", &["-p", "limo-shepherd"]),
    ("lshepherd", &["-p", "lshepherd"]),
    ("proto", &["-p", "limo-proto", "--test", "messages"]),
];

/// Tests that run under Miri.
const MIRI: [(&str, &[&str]); 1] = [("lprof", &["-p", "lprof", "--lib", "blas"])];

/// Crates with unsafe code whose tests do not run here, and the reasons.
const SKIPPED: [(&str, &str); 3] = [
    ("lprof under AddressSanitizer", "its tests measure time, and load libraries of drivers that are not instrumented"),
    ("lmaster, lrun and lslave", "their unsafe blocks only call functions of the C library, mostly in other processes"),
    ("shepherd and lshepherd under Miri", "Miri has neither shared mappings nor `clone`"),
];

/// Runs the tests; prints a line for each crate, and those that were skipped.
///
/// # Errors
/// If the nightly toolchain is missing, or a test fails.
pub fn run() -> Result<()> {
    let mut failed = Vec::new();
    for (name, arguments) in ADDRESS {
        let status = nightly(&["test", "--target", PLATFORM])?
            .args(arguments)
            .env("CARGO_TARGET_DIR", target_dir()?.join("sanitize"))
            .env("RUSTFLAGS", "-Zsanitizer=address")
            // Processes that a test kills cannot free their memory.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .status()
            .context("cannot run cargo")?;
        println!("AddressSanitizer: {name}: {}", if status.success() { "good" } else { "failed" });
        failed.extend((!status.success()).then_some(name));
    }
    let miri = nightly(&["miri", "--version"])?.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if miri.is_ok_and(|status| status.success()) {
        for (name, arguments) in MIRI {
            let status = nightly(&["miri", "test"])?
                .args(arguments)
                .env("CARGO_TARGET_DIR", target_dir()?.join("miri"))
                .status()
                .context("cannot run cargo")?;
            println!("Miri: {name}: {}", if status.success() { "good" } else { "failed" });
            failed.extend((!status.success()).then_some(name));
        }
    } else {
        println!("skipped: Miri: it is not installed (`rustup +nightly component add miri`)");
    }
    SKIPPED.iter().for_each(|(name, reason)| println!("skipped: {name}: {reason}"));
    if failed.is_empty() { Ok(()) } else { bail!("tests of {} fail under a sanitizer", failed.join(", ")) }
}
