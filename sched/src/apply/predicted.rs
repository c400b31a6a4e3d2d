//! Predictions of waiting jobs by a newer model.

use limo_model::{JobId, PREDICTED_LIMIT, Predicted, Request};

use crate::cluster::Cluster;
use crate::facts::Known;
use crate::refused::Refused;
use crate::state::Phase;

/// Replaces the predictions of a waiting job. A job that has been assigned keeps those of its start.
pub(super) fn predicted(cluster: &mut Cluster, id: JobId, predicted: &[Predicted]) -> Result<(), Refused> {
    check(predicted)?;
    let job = cluster.state.jobs.get_mut(id).ok_or(Refused::NoSuchJob { job: id })?;
    if !matches!(job.phase, Phase::Waiting(_)) {
        return Err(Refused::NotPredictable { job: id });
    }
    let request = Request { predicted: predicted.to_vec(), ..Request::clone(&job.request) };
    job.request = cluster.requests.share(&request);
    if let Some(place) = cluster.state.queue.place(id) {
        let index = &mut cluster.index;
        index.shapes.insert(Known::of(&cluster.state), &index.classes, place, &request);
    }
    Ok(())
}

/// Refuses more predictions than a job may have.
pub(super) fn check(predicted: &[Predicted]) -> Result<(), Refused> {
    let count = predicted.len();
    if count > PREDICTED_LIMIT { Err(Refused::TooManyPredictions { count }) } else { Ok(()) }
}
