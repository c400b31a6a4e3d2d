//! `lab bench`: speed of the simulator and of the core, next to limits and the figures of other programs.
//!
//! Measures the work of users: whole runs with their files, and rounds of a loaded core. The benchmark is not a test.
//! Its figures depend on the machine and its load, so both are also printed.

mod campaign;
mod cluster;
pub mod command;
mod dynshare;
mod easy;
pub mod figure;
mod host;
mod htc;
mod part;
mod pool;
mod predictor;
mod rounds;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use figure::Figure;
use host::Machine;
use part::{Part, Report};

/// All findings, as `--json` prints them.
#[derive(Debug, Serialize)]
pub struct Findings {
    schema: u32,
    before: Machine,
    after: Machine,
    parts: Vec<Named>,
}

#[derive(Debug, Serialize)]
struct Named {
    name: String,
    title: String,
    #[serde(flatten)]
    report: Report,
}

/// Returns the parts with that name or group, or all parts for `None`.
///
/// # Errors
/// If no part has that name.
fn chosen(only: Option<&str>, quick: bool) -> Result<Vec<Part>> {
    let mut parts = Part::all(quick);
    let Some(only) = only else { return Ok(parts) };
    let known: Vec<String> = parts.iter().map(|part| part.name()).collect();
    parts.retain(|part| part.name() == only || part.group() == only);
    if parts.is_empty() {
        bail!("`{only}` is not a part of the benchmark: easy, htc, pools, {}", known.join(", "));
    }
    Ok(parts)
}

/// Measures one part in this process; returns JSON for the parent process.
///
/// # Errors
/// The same as for [`Part::measure`], and if the name is unknown.
pub fn measure(name: &str, traces: &Path, quick: bool) -> Result<String> {
    let Some(part) = chosen(Some(name), quick)?.into_iter().next() else { bail!("`{name}` is no part") };
    Ok(serde_json::to_string(&part.measure(traces, quick)?)?)
}

/// Runs all parts, or those that `only` selects, one after another, each in its own process. Calls `tell` before each
/// part.
///
/// # Errors
/// If a part fails.
pub fn run(only: Option<&str>, traces: &Path, quick: bool, tell: impl Fn(&str)) -> Result<Findings> {
    let before = Machine::now();
    let mut parts = Vec::new();
    let mut grown: BTreeMap<&str, Vec<(u32, Report)>> = BTreeMap::new();
    for part in chosen(only, quick)? {
        tell(&part.title());
        let report = part.apart(traces, quick)?;
        if let Some(jobs) = part.jobs() {
            grown.entry(part.group()).or_default().push((jobs, report.clone()));
        }
        parts.push(Named { name: part.name(), title: part.title(), report });
    }
    for (group, reports) in &grown {
        let growth = htc::growth(reports);
        if !growth.is_empty() {
            let name = format!("growth-{group}");
            let title = format!("{name}: exponents of time and memory with the number of jobs");
            parts.push(Named { name, title, report: Report::of(growth) });
        }
    }
    Ok(Findings { schema: 1, before, after: Machine::now(), parts })
}

impl Findings {
    /// Returns the figures that miss their limits.
    pub fn missed(&self) -> impl Iterator<Item = &Figure> {
        self.parts.iter().flat_map(|part| &part.report.figures).filter(|figure| figure.reached == Some(false))
    }

    /// Formats the findings as text: a block for each part, then the machine.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            text.push_str(&format!("{}\n", part.title));
            if let Some(why) = &part.report.skipped {
                text.push_str(&format!("  skipped: {why}\n"));
            }
            for figure in &part.report.figures {
                text.push_str(&format!("  {figure}\n"));
            }
            text.push('\n');
        }
        let load = |machine: &Machine| machine.load_average.map_or("unknown".to_owned(), |load| load.to_string());
        let (cores, before, after) = (self.before.cores, load(&self.before), load(&self.after));
        let debug = if cfg!(debug_assertions) { "; built without optimisation" } else { "" };
        text.push_str(&format!(
            "on {cores} cores; load average {before} at the begin, {after} at the end, this program included{debug}\n"
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: Option<&str>, quick: bool) -> Result<String> {
        chosen(only, quick).map(|parts| parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn parts() {
        let all = "kth-sp2 sdsc-sp2 sdsc-blue curie htc-100000 htc-600000 htc-6000000 pool pool-no-jobs pool-no-owners pool-ranks pool-6000000 rounds rounds-ranked rounds-window rounds-program owners dynshare campaign predictor";
        assert_eq!(names(None, false).expect("all"), all);
        assert_eq!(
            names(None, true).expect("some"),
            "kth-sp2 sdsc-sp2 htc-100000 pool pool-no-jobs pool-no-owners rounds rounds-ranked rounds-window rounds-program owners dynshare campaign predictor"
        );
        assert_eq!(names(Some("htc"), false).expect("a group"), "htc-100000 htc-600000 htc-6000000");
        assert_eq!(names(Some("curie"), false).expect("a part"), "curie");
        assert_eq!(
            names(Some("easier"), true).expect_err("unknown").to_string(),
            "`easier` is not a part of the benchmark: easy, htc, pools, kth-sp2, sdsc-sp2, htc-100000, pool, pool-no-jobs, pool-no-owners, rounds, rounds-ranked, rounds-window, rounds-program, owners, dynshare, campaign, predictor"
        );
    }

    #[test]
    fn a_text() {
        let machine = Machine { cores: 2, load_average: Some(1.5) };
        let report = Report::skipped("no traces".to_owned());
        let named = Named { name: "kth".to_owned(), title: "kth: EASY".to_owned(), report };
        let figures = vec![Figure::new("CPU time", 0.25, "s")];
        let other = Named { name: "htc".to_owned(), title: "htc: many".to_owned(), report: Report::of(figures) };
        let findings = Findings { schema: 1, before: machine, after: machine, parts: vec![named, other] };
        let text = findings.text();
        let line = "  CPU time                                     0.250 s\n";
        let expected = format!("kth: EASY\n  skipped: no traces\n\nhtc: many\n{line}\non 2 cores; load average 1.5");
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(findings.missed().count(), 0);
    }
}
