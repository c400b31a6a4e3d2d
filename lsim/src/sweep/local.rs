//! Simulations on this machine, and checks before them. A workload is read for its first configuration and dropped
//! after the last, so that memory holds about one per worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use anyhow::{Result, anyhow};
use limo_model::with_causes;
use limo_trace::Workload;

use super::configuration::Configuration;
use super::file::Plan;
use super::measures::{Values, values};
use super::workers::{locked, spread};
use crate::engine::simulate;
use crate::output::Metrics;
use crate::setup::Loaded;

/// Workload of one source, with the number of its configurations.
#[derive(Debug)]
struct Shared {
    left: usize,
    workload: Option<Arc<Workload>>,
}

/// Result of a check.
#[derive(Debug)]
pub struct Checked {
    pub jobs: usize,
    pub notes: Vec<String>,
}

/// Workloads in memory.
#[derive(Debug)]
pub struct Local<'p> {
    plan: &'p Plan,
    /// Workloads by source.
    shared: Vec<Mutex<Shared>>,
}

impl<'p> Local<'p> {
    /// Prepares `configurations`, each of which will run once.
    pub fn new<'c>(plan: &'p Plan, configurations: impl IntoIterator<Item = &'c Configuration>) -> Self {
        let mut left = vec![0; plan.sources.len()];
        for configuration in configurations {
            left[configuration.source] += 1;
        }
        let shared = left.into_iter().map(|left| Mutex::new(Shared { left, workload: None })).collect();
        Self { plan, shared }
    }

    fn load(&self, configuration: &Configuration) -> Result<Loaded> {
        let mut shared = locked(&self.shared[configuration.source]);
        let workload = match &shared.workload {
            Some(workload) => Arc::clone(workload),
            None => Arc::new(self.plan.sources[configuration.source].workload(&configuration.setup)?),
        };
        shared.left = shared.left.saturating_sub(1);
        shared.workload = (shared.left > 0).then(|| Arc::clone(&workload));
        drop(shared);
        configuration.setup.over(workload)
    }

    /// Runs one configuration; returns its figures or an error.
    pub fn run(&self, configuration: &Configuration) -> Result<Values, String> {
        let run = || self.load(configuration).and_then(|loaded| simulated(&loaded));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(result) => result.map_err(|error| with_causes(&*error)),
            Err(_) => Err("the simulation panicked: please report this configuration".to_owned()),
        }
    }
}

fn simulated(loaded: &Loaded) -> Result<Values> {
    let heading = loaded.heading();
    let mut metrics = Metrics::new(&heading);
    let summary = simulate(&loaded.scenario(), &mut metrics)?;
    Ok(values(&metrics, &summary, heading.start))
}

/// Checks `configurations`, which are sorted by workload, without running them.
pub fn check(plan: &Plan, configurations: &[&Configuration], workers: usize) -> Vec<Result<Checked, String>> {
    let local = Local::new(plan, configurations.iter().copied());
    spread(configurations.len(), workers, |index| {
        let loaded = local.load(configurations[index]).map_err(|error| with_causes(&*error))?;
        Ok(Checked { jobs: loaded.workload.jobs.len(), notes: loaded.notes })
    })
}

/// Returns the configuration with `key`.
///
/// # Errors
/// If there is none.
pub fn named<'c>(configurations: &'c [Configuration], key: &str) -> Result<&'c Configuration> {
    configurations.iter().find(|configuration| configuration.key == key).ok_or_else(|| {
        anyhow!("no configuration has the key `{key}`: the file, a trace or the version of lsim has changed; --dry-run lists the keys")
    })
}
