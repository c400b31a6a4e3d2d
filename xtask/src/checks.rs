//! `cargo xtask test`: everything that CI runs, in order, up to the first failure. The tests come last, so that the
//! runner's own summary closes the output.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use limo_requirements::SKIPS;

use crate::workspace::{cargo, has_cargo};
use crate::{package, skips};

/// A cargo command.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
}

/// The name of the step that runs the tests.
const TESTS: &str = "tests";

/// The checks that run, and the skipped ones with their reasons.
struct Plan {
    steps: Vec<Step>,
    skipped: Vec<&'static str>,
}

/// Presence of the optional tools.
#[derive(Clone, Copy)]
struct Tools {
    deny: bool,
    nextest: bool,
    debhelper: bool,
}

/// Runs `cargo xtask test`.
///
/// # Errors
/// If a step cannot be run, or fails.
pub fn run() -> Result<()> {
    let debhelper = package::can_make_deb();
    let plan = plan(Tools { deny: has_cargo("deny")?, nextest: has_cargo("nextest")?, debhelper });
    let names: Vec<&str> = plan.steps.iter().map(|step| step.name).collect();
    eprintln!("xtask: plan: {}", names.join(", "));
    for reason in &plan.skipped {
        eprintln!("xtask: skipped: {reason}");
    }
    let skips = tempfile::NamedTempFile::new().context("cannot make a file for the tests that skip")?;
    for step in &plan.steps {
        eprintln!("xtask: {}: cargo {}", step.name, step.arguments.join(" "));
        let begin = Instant::now();
        let mut command = cargo(step.arguments)?;
        let status = command.env(SKIPS, skips.path()).status().with_context(|| format!("cannot run {}", step.name))?;
        let elapsed = begin.elapsed().as_secs_f64();
        if step.name == TESTS {
            let record = fs::read_to_string(skips.path()).context("cannot read which tests skipped something")?;
            skips::summary(&record).iter().for_each(|line| eprintln!("xtask: skipped: {line}"));
        }
        if !status.success() {
            bail!("{} failed after {elapsed:.1} s ({status}): cargo {}", step.name, step.arguments.join(" "));
        }
        eprintln!("xtask: {}: good, {elapsed:.1} s", step.name);
    }
    Ok(())
}

fn plan(tools: Tools) -> Plan {
    let mut plan = Plan { steps: Vec::new(), skipped: Vec::new() };
    let mut step = |name, arguments| plan.steps.push(Step { name, arguments });
    step("format", &["fmt", "--all", "--check"]);
    step("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    if tools.deny {
        step("licences", &["deny", "--workspace", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    } else {
        plan.skipped.push("licences: cargo-deny is not installed (`cargo install --locked cargo-deny`)");
    }
    let mut step = |name, arguments| plan.steps.push(Step { name, arguments });
    // The end-to-end tests run the programs that this step builds.
    step("programs", &["build", "--workspace", "--bins"]);
    if tools.debhelper {
        // A test installs them.
        step("packages", &["xtask", "package", "deb", "--profile", "dev"]);
    } else {
        plan.skipped.push("packages: debhelper is not installed (`apt install dpkg-dev debhelper`)");
    }
    let mut step = |name, arguments| plan.steps.push(Step { name, arguments });
    if tools.nextest {
        step(TESTS, &["nextest", "run", "--workspace"]);
    } else {
        step(TESTS, &["test", "--workspace"]);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tools: Tools, steps: &[&str], tests: &str, skipped: usize) {
        let plan = plan(tools);
        assert_eq!(plan.steps.iter().map(|step| step.name).collect::<Vec<_>>(), steps);
        assert_eq!(plan.steps.last().map(|step| step.arguments[0]), Some(tests));
        assert_eq!(plan.skipped.len(), skipped);
    }

    #[test]
    fn missing_requirements_are_printed_and_the_tests_run_last() {
        let all = ["format", "lints", "licences", "programs", "packages", "tests"];
        check(Tools { deny: true, nextest: true, debhelper: true }, &all, "nextest", 0);
        let least = ["format", "lints", "programs", "tests"];
        check(Tools { deny: false, nextest: false, debhelper: false }, &least, "test", 2);
    }
}
