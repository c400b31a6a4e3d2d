//! Formats the conditions that a job still waits for, as users type them.

use limo_model::Dependency;
use limo_proto::JobReport;

/// Returns the open dependencies, such as `afterok:12` and `singleton`.
pub fn dependencies(job: &JobReport) -> Vec<String> {
    let singleton = job.singleton.then(|| "singleton".to_owned());
    job.dependencies.iter().map(Dependency::to_string).chain(singleton).collect()
}
