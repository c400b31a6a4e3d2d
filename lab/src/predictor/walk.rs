//! Walks through the submissions and ends of jobs in time: each job is predicted at its submission, by a model that knows
//! only jobs that had ended before.

use limo_model::{Confidence, Power, Span, Time};
use limo_profiles::predict::margin::Sum;
use limo_profiles::predict::{FinishedJob, Prediction, Predictor, Settings, train};

use super::{Errors, KnownJob, watts};

/// How to walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// Number of submitted jobs after which jobs are predicted.
    pub first: usize,
    /// Number of further ended jobs after which a model is trained anew.
    pub again: usize,
    pub seed: u64,
    /// Time between two looks at the sum of the running jobs; `None` for no look.
    pub every: Option<Span>,
    pub confidence: Confidence,
}

/// The results.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Walked {
    pub errors: Errors,
    pub trainings: u32,
    /// Number of looks at the sum, and of those at which it was at most the predicted sum with its margin.
    pub looks: u32,
    pub kept: u32,
    /// Sums over all looks: measured draws, and predicted ones without and with margin.
    pub measured_w: f64,
    pub predicted_w: f64,
    pub with_margin_w: f64,
}

impl Walked {
    pub fn kept_percent(&self) -> f64 {
        100.0 * f64::from(self.kept) / f64::from(self.looks.max(1))
    }

    /// Returns the mean margin in per cent of the predicted sum.
    pub fn margin_percent(&self) -> f64 {
        100.0 * (self.with_margin_w / self.predicted_w - 1.0)
    }
}

/// What can happen, in the order of equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WalkStep {
    End(usize),
    Submission(usize),
    Start(usize),
}

/// Predicts all jobs.
pub fn walk(cases: &[KnownJob], walk: &Walk) -> Walked {
    let each = |(index, case): (usize, &KnownJob)| {
        [
            (case.row.submitted, WalkStep::Submission(index)),
            (case.start, WalkStep::Start(index)),
            (case.row.ended, WalkStep::End(index)),
        ]
    };
    let mut happenings: Vec<(Time, WalkStep)> = cases.iter().enumerate().flat_map(each).collect();
    happenings.sort_unstable();
    let mut found = Walked::default();
    let mut rows: Vec<FinishedJob> = Vec::new();
    let (mut submitted, mut trained) = (0, 0);
    let mut model: Option<Predictor> = None;
    let mut predicted: Vec<Option<Prediction>> = vec![None; cases.len()];
    let mut running: Vec<usize> = Vec::new();
    // Jobs without a prediction run until then, so that sums are not complete before.
    let mut unpredicted = 0_u32;
    let mut look: Option<Time> = None;
    for (now, happening) in happenings {
        while let Some((at, every)) = look.zip(walk.every).filter(|(at, _)| *at < now) {
            if unpredicted == 0 && !running.is_empty() {
                sum(cases, &predicted, &running, walk.confidence, &mut found);
            }
            look = Some(at.moved(every));
        }
        match happening {
            WalkStep::Submission(index) => {
                submitted += 1;
                if submitted > walk.first && model.is_none() {
                    found.trainings += 1;
                    trained = rows.len();
                    model = Some(train(&rows, Settings { number: found.trainings, seed: walk.seed }));
                    look = Some(now);
                }
                let Some(model) = &model else { continue };
                let case = &cases[index];
                let naive = model.naive(case.features());
                predicted[index] = model.predict(case.features());
                if let Some((found_, naive)) = predicted[index].zip(naive) {
                    found.errors.add(case, found_.mean, found_.high, naive);
                }
            }
            WalkStep::Start(index) => {
                running.push(index);
                unpredicted += u32::from(predicted[index].is_none());
            }
            WalkStep::End(index) => {
                running.retain(|other| *other != index);
                unpredicted -= u32::from(predicted[index].is_none());
                rows.push(cases[index].row);
                let Some(model) = &mut model else { continue };
                model.observe(&cases[index].row, predicted[index].map(|found| found.draw()).as_ref());
                if rows.len() == trained + walk.again {
                    found.trainings += 1;
                    trained = rows.len();
                    *model = train(&rows, Settings { number: found.trainings, seed: walk.seed });
                }
            }
        }
    }
    found
}

fn sum(
    cases: &[KnownJob],
    predicted: &[Option<Prediction>],
    running: &[usize],
    confidence: Confidence,
    found: &mut Walked,
) {
    let mut sum = Sum::default();
    let mut measured = Power::ZERO;
    for index in running {
        measured += cases[*index].row.mean;
        if let Some(prediction) = &predicted[*index] {
            sum.add(prediction.mean, prediction.deviation);
        }
    }
    let high = sum.with_margin(confidence);
    found.looks += 1;
    found.kept += u32::from(measured <= high);
    found.measured_w += watts(measured);
    found.predicted_w += watts(sum.mean());
    found.with_margin_w += watts(high);
}

/// Predicts the last jobs by a model of the first 70 % of all jobs, which learns nothing more. `cases` are in the order of
/// submission.
pub fn split(cases: &[KnownJob], seed: u64) -> Errors {
    let (first, last) = cases.split_at(training(cases.len()));
    let mut rows: Vec<&KnownJob> = first.iter().collect();
    rows.sort_by_key(|case| case.row.ended);
    let rows: Vec<FinishedJob> = rows.into_iter().map(|case| case.row).collect();
    let model = train(&rows, Settings { number: 1, seed });
    let mut errors = Errors::default();
    for case in last {
        let naive = model.naive(case.features());
        if let Some((found, naive)) = model.predict(case.features()).zip(naive) {
            errors.add(case, found.mean, found.high, naive);
        }
    }
    errors
}

/// Returns the number of jobs for the training: 70 %.
pub fn training(jobs: usize) -> usize {
    jobs * 7 / 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_profiles::predict::Features;

    fn case(submitted: i64, end: i64, watts: i64) -> KnownJob {
        let features = Features { cores: 1, ..Features::default() };
        let mean = Power::from_watts(watts);
        let time = |secs| Time::from_unix_ms(1_000 * secs);
        let duration = Span::from_secs(end - submitted);
        let (submitted, ended) = (time(submitted), time(end));
        let row = FinishedJob { features, mean, peak: mean, nameplate: Power::ZERO, duration, submitted, ended };
        KnownJob { row, start: submitted, expected: None }
    }

    /// Jobs of 10 W until 1,000 s, and of 20 W that end only after the last submission.
    #[test]
    fn a_job_is_predicted_only_by_jobs_that_had_ended() {
        let mut cases: Vec<KnownJob> = (0..100).map(|i| case(10 * i, 10 * i + 10, 10)).collect();
        cases.extend((100..150).map(|i| case(10 * i, 5_000, 20)));
        let every = Some(Span::from_secs(10));
        let confidence = Confidence::new(990).expect("in the range");
        let found = walk(&cases, &Walk { first: 50, again: 1_000, seed: 1, every, confidence });
        // When the 51st job is submitted, 50 have ended, all of 10 W.
        assert_eq!((found.trainings, found.errors.jobs), (1, 100));
        assert!((found.errors.predicted_w - 1_000.0).abs() < 10.0, "{found:?}");
        assert!((found.errors.measured_w - 1_500.0).abs() < 1e-6);
    }

    #[test]
    fn a_split_trains_with_the_first_seventy_per_cent() {
        let cases: Vec<KnownJob> = (0..100).map(|i| case(10 * i, 10 * i + 10, if i < 70 { 10 } else { 20 })).collect();
        let errors = split(&cases, 1);
        assert_eq!(errors.jobs, 30);
        assert!((errors.distance() - 0.5).abs() < 0.01 && (errors.sum_percent() - 50.0).abs() < 1.0, "{errors:?}");
    }
}
