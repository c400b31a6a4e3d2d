//! What a job still waits for, as people type it.

use limo_model::Dependency;
use limo_proto::JobReport;

/// `afterok:12`, `singleton`.
pub fn dependencies(job: &JobReport) -> Vec<String> {
    let singleton = job.singleton.then(|| "singleton".to_owned());
    job.dependencies.iter().map(Dependency::to_string).chain(singleton).collect()
}
