//! Configurations: the cross product of a sweep's lists, each with a key that identifies it in later runs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use limo_model::Digest;

use super::digest::of_file;
use super::file::{Period, Plan, Variant};
use super::source::Source;
use super::workers::spread;
use crate::setup::Setup;

/// Most configurations; more would be a mistake, or months of work.
const MOST: usize = 1_000_000;

/// Simulation of a sweep.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Key: a readable part, then a digest of the setup, its files and the version of this program.
    pub key: String,
    /// Index into [`Plan::sources`].
    pub source: usize,
    /// Index of its combination of policy, budget and variant: a row of the table.
    pub cell: usize,
    pub setup: Setup,
    pub labels: Labels,
}

/// Labels of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Labels {
    pub workload: String,
    /// Seed; empty for a trace.
    pub seed: String,
    pub policy: String,
    pub budget: String,
    pub set: String,
}

impl Labels {
    /// Formats the labels for messages.
    pub fn told(&self) -> String {
        let Self { workload, seed, policy, budget, set } = self;
        let mut told = format!("{policy} on {workload}");
        for (name, value) in [("seed", seed), ("budget", budget), ("set", set)] {
            if !value.is_empty() && value != "none" {
                told.push_str(&format!(", {name} {value}"));
            }
        }
        told
    }
}

/// Returns all configurations, grouped by workload; within a workload in the order of the file.
///
/// # Errors
/// If a file cannot be read, or two configurations are equal.
pub fn all(plan: &Plan, workers: usize) -> Result<Vec<Configuration>> {
    let cells = plan.policies.len() * plan.budgets.len() * plan.variants.len();
    let count = cells.saturating_mul(plan.sources.len());
    if count > MOST {
        bail!("the file has {count} configurations; the limit is {MOST}: shorten a list");
    }
    let digests = spread(plan.sources.len(), workers, |index| plan.sources[index].digest());
    let files = files(&plan.base)?;
    let mut all = Vec::with_capacity(count);
    for (index, digest) in digests.into_iter().enumerate() {
        let source = (index, &plan.sources[index], digest?);
        for (policy, (budget, variant)) in plan.policies.iter().flat_map(|policy| {
            let variants = |budget| plan.variants.iter().map(move |variant| (budget, variant));
            plan.budgets.iter().flat_map(variants).map(move |rest| (*policy, rest))
        }) {
            let setup = Setup { policy: Some(policy), ..setup(&plan.base, source.1, budget, variant) };
            let labels = Labels {
                workload: source.1.name(),
                seed: source.1.seed().map(|seed| seed.to_string()).unwrap_or_default(),
                policy: policy.name().to_owned(),
                budget: budget.label.clone(),
                set: variant.name.clone(),
            };
            let key = key(&labels, &setup, source.2, &files);
            all.push(Configuration { key, source: source.0, cell: all.len() % cells, setup, labels });
        }
    }
    refuse_equal(&all)?;
    Ok(all)
}

fn setup(base: &Setup, source: &Source, budget: &Period, variant: &Variant) -> Setup {
    Setup {
        trace: Some(source.path()),
        set: variant.settings.clone(),
        budget: budget.amount,
        from: budget.from,
        until: budget.until,
        ..base.clone()
    }
}

fn refuse_equal(all: &[Configuration]) -> Result<()> {
    let mut seen: BTreeMap<&str, &Labels> = BTreeMap::new();
    for Configuration { key, labels, .. } in all {
        // Only the digest identifies a configuration.
        let digest = key.rsplit('-').next().unwrap_or(key);
        if let Some(other) = seen.insert(digest, labels) {
            bail!("two configurations are the same: {}, and {}; remove one of them", other.told(), labels.told());
        }
    }
    Ok(())
}

/// Returns name and content of the files that all configurations share.
fn files(base: &Setup) -> Result<String> {
    let mut text = String::new();
    let files = [
        &base.platform,
        &base.budgets,
        &base.prices,
        &base.limits,
        &base.profiles,
        &base.variation,
        &base.believed_variation,
    ];
    for path in files.into_iter().flatten() {
        let digest = of_file(path).with_context(|| format!("{}: the file cannot be read", path.display()))?.to_string();
        text.push_str(&format!("{} {digest}\n", file_name(path)));
    }
    Ok(text)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Makes the key. Equal results have equal keys: folders and names of variants do not count.
fn key(labels: &Labels, setup: &Setup, workload: Digest, files: &str) -> String {
    let setup = setup.clone();
    let plain = Setup {
        trace: None,
        platform: None,
        budgets: None,
        prices: None,
        limits: None,
        profiles: None,
        variation: None,
        believed_variation: None,
        ..setup
    };
    let text = format!("lsim {}\n{} {}\n{files}{plain:?}\n", env!("CARGO_PKG_VERSION"), labels.workload, workload);
    let readable = format!("{} {} {} {} {}", labels.policy, labels.budget, labels.set, labels.workload, labels.seed);
    format!("{}-{}", slug(&readable), Digest::new().with(text.as_bytes()))
}

/// Replaces characters that are not allowed in file and job names by one `-`.
fn slug(text: &str) -> String {
    let text = text.replace('%', "pct");
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let words: Vec<&str> = text.split(|c| !keep(c)).filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(workload: &str) -> Labels {
        Labels {
            workload: workload.to_owned(),
            policy: "easy".to_owned(),
            budget: "80%".to_owned(),
            ..Labels::default()
        }
    }

    #[test]
    fn keys() {
        let of = |labels: &Labels, setup: &Setup, bytes: &[u8]| key(labels, setup, Digest::new().with(bytes), "");
        let setup = Setup { first: Some(3), trace: Some("a/w.swf".into()), ..Setup::default() };
        let first = of(&labels("w.swf"), &setup, b"jobs");
        assert!(first.starts_with("easy-80pct-w.swf-"), "{first}");
        // The folder and the variant's name do not count, but jobs, options and files do.
        let moved = Setup { trace: Some("b/w.swf".into()), profiles: Some("b/profiles.csv".into()), ..setup.clone() };
        assert_eq!(of(&labels("w.swf"), &moved, b"jobs"), first);
        assert_ne!(of(&labels("w.swf"), &setup, b"Jobs"), first);
        assert_ne!(of(&labels("w.swf"), &Setup { first: Some(4), ..setup.clone() }, b"jobs"), first);
        assert_ne!(key(&labels("w.swf"), &setup, Digest::new().with(b"jobs"), "p.csv 1\n"), first);
    }

    #[test]
    fn slugs() {
        assert_eq!(
            slug("energybud 80% rest=idle:10min kth_sp2.swf.gz 3"),
            "energybud-80pct-rest-idle-10min-kth_sp2.swf.gz-3"
        );
        assert_eq!(slug(&"x".repeat(100)).len(), 60);
    }
}
