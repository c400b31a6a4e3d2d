//! The predictor of draws beside the controller: features of jobs, and the training of a model from the profile database. A
//! training runs in its own thread; only its result reaches the controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use limo_model::{Request, Time};
use limo_profiles::predict::{Features, LEAST_ROWS, Predictor, Settings, train_until};
use limo_profiles::{ProfileDb, StoredModel};
use limo_sched::OnHardware;

/// Seed of the random choices of each training.
const SEED: u64 = 1;

/// A model, which goes on learning in memory.
#[derive(Debug)]
pub struct Model {
    pub predictor: Predictor,
    /// Time of its training.
    pub trained: Time,
    /// Number of jobs in its training.
    pub rows: u32,
}

/// The newest model, and the number of finished jobs since its training.
#[derive(Debug, Default)]
pub struct Loaded {
    pub model: Option<Model>,
    pub since: u32,
}

/// Returns what is known of a job when it is submitted, for one chunk on a unit.
pub fn features(request: &Request, on: &OnHardware, of: (bool, Time)) -> Features {
    Features::of_chunk(request, (&on.hardware, on.cores, on.is_accelerator), of)
}

/// Trains a model with the next number from all finished jobs, and keeps it.
///
/// # Errors
/// If there are too few jobs, the database cannot be read or written, or the master is stopping.
pub async fn trained(profiles: &ProfileDb, stopping: &Arc<AtomicBool>, at: Time) -> Result<Model> {
    let (jobs, newest) = profiles.finished_after(0).await?;
    let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    ensure!(count >= LEAST_ROWS, "{count} measured jobs have finished: a training needs {LEAST_ROWS}");
    let number = profiles.model().await?.map_or(1, |before| before.number.saturating_add(1));
    let stopping = Arc::clone(stopping);
    let train = move || {
        let settings = Settings { number, seed: SEED };
        let predictor = train_until(&jobs, settings, &|| stopping.load(Ordering::Relaxed))?;
        let bytes = predictor.to_bytes();
        Some((predictor, bytes))
    };
    let found = tokio::task::spawn_blocking(train).await.context("the training failed")?;
    let (predictor, bytes) = found.context("the master is stopping")?;
    profiles.keep_model(StoredModel { number, trained: at, rows: count, newest, bytes }).await?;
    Ok(Model { predictor, trained: at, rows: count })
}

/// Returns the kept model with what it has learned since. One that this program cannot use is replaced.
///
/// # Errors
/// If the database cannot be read or written.
pub async fn loaded(profiles: &ProfileDb, stopping: &Arc<AtomicBool>, at: Time) -> Result<Loaded> {
    let Some(StoredModel { number, trained: then, rows, newest, bytes }) = profiles.model().await? else {
        let (jobs, _) = profiles.finished_after(0).await?;
        return Ok(Loaded { model: None, since: u32::try_from(jobs.len()).unwrap_or(u32::MAX) });
    };
    let (later, _) = profiles.finished_after(newest).await?;
    let since = u32::try_from(later.len()).unwrap_or(u32::MAX);
    let read = move || {
        let mut predictor = Predictor::from_bytes(&bytes)?;
        predictor.observe_all(&later);
        Ok::<_, limo_profiles::predict::ModelError>(predictor)
    };
    match tokio::task::spawn_blocking(read).await.context("the model cannot be read")? {
        Ok(predictor) => Ok(Loaded { model: Some(Model { predictor, trained: then, rows }), since }),
        Err(error) => {
            tracing::warn!(%error, number, "the model of the predictor is not used: another one is trained");
            Ok(Loaded { model: Some(trained(profiles, stopping, at).await?), since: 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{JobId, Power, Span};
    use limo_profiles::predict::FinishedJob;

    use super::*;

    const AT: Time = Time::from_unix_ms(1_700_000_000_000);

    fn on() -> OnHardware {
        OnHardware { hardware: "xeon".into(), cores: 4, is_accelerator: false }
    }

    /// A job of 40 W, whose nameplate is 100 W.
    fn job() -> FinishedJob {
        let features = features(&Request::one_core("cg"), &on(), (false, AT));
        let (mean, nameplate) = (Power::from_watts(40), Power::from_watts(100));
        let duration = Span::from_secs(60);
        FinishedJob { features, mean, peak: mean, nameplate, duration, submitted: AT, ended: AT.moved(duration) }
    }

    async fn database(dir: &std::path::Path, jobs: u32) -> ProfileDb {
        let db = ProfileDb::open(dir).await.expect("a database");
        for number in 1..=u64::from(jobs) {
            db.add_finished(JobId(number), job()).await.expect("kept");
        }
        db
    }

    fn going_on() -> Arc<AtomicBool> {
        Arc::default()
    }

    #[tokio::test]
    async fn a_master_that_stops_keeps_no_model() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = database(dir.path(), 20).await;
        let stopped = trained(&db, &Arc::new(AtomicBool::new(true)), AT).await.expect_err("stopped").to_string();
        assert_eq!((stopped.as_str(), db.model().await), ("the master is stopping", Ok(None)));
    }

    #[test]
    fn the_hardware_and_its_cores_are_features() {
        let request = Request::one_core("cg");
        let of = |on: &OnHardware| features(&request, on, (false, AT));
        let others = [
            OnHardware { hardware: "epyc".into(), ..on() },
            OnHardware { cores: 8, ..on() },
            OnHardware { is_accelerator: true, ..on() },
        ];
        assert!(others.iter().all(|other| of(other) != of(&on())));
        let unknown = features(&Request::one_core(limo_model::application::UNKNOWN), &on(), (false, AT));
        assert_eq!(unknown.application, 0);
    }

    #[tokio::test]
    async fn models_are_numbered_kept_and_learn_what_has_finished_since() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = database(dir.path(), 19).await;
        let few = trained(&db, &going_on(), AT).await.expect_err("too few").to_string();
        assert_eq!(few, "19 measured jobs have finished: a training needs 20");
        let none = loaded(&db, &going_on(), AT).await.expect("readable");
        assert_eq!((none.model.is_none(), none.since), (true, 19));
        db.add_finished(JobId(20), job()).await.expect("kept");
        for number in 1..=2 {
            let model = trained(&db, &going_on(), AT).await.expect("enough jobs");
            assert_eq!((model.predictor.number(), model.rows, model.trained), (number, 20, AT));
            assert!(model.predictor.trial().is_better_than_nameplate());
        }
        let more = FinishedJob { mean: Power::from_watts(80), ..job() };
        for number in 21..=60 {
            db.add_finished(JobId(number), more).await.expect("kept");
        }
        let found = loaded(&db, &going_on(), AT).await.expect("readable");
        let model = found.model.expect("a model");
        assert_eq!((found.since, model.predictor.number(), model.rows), (40, 2, 20));
        let mean = model.predictor.predict(&job().features).expect("known").mean;
        assert!((Power::from_watts(70)..Power::from_watts(90)).contains(&mean), "{mean}");
    }

    #[tokio::test]
    async fn a_model_of_another_version_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let db = database(dir.path(), 20).await;
        trained(&db, &going_on(), AT).await.expect("enough jobs");
        let mut kept = db.model().await.expect("readable").expect("a model");
        kept.bytes[4] = 1;
        kept.number = 7;
        db.keep_model(kept).await.expect("kept");
        let found = loaded(&db, &going_on(), AT).await.expect("trained anew");
        assert_eq!((found.model.expect("a model").predictor.number(), found.since), (8, 0));
        let kept = db.model().await.expect("readable").expect("a model");
        assert!(kept.number == 8 && Predictor::from_bytes(&kept.bytes).is_ok());
    }
}
