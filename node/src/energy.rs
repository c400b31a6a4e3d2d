//! Energy of jobs on a machine with a meter: the measured energy is attributed to the running jobs.
//!
//! The meter is sampled when a job begins and when it ends, to separate the energy of different jobs. The end of a job
//! that ran long enough is reported once the last sample is there, or after [`PATIENCE`].

use std::time::Duration;

use limo_model::{JobId, Power, Span};
use limo_power::Attributed;

use super::Node;
use super::meter::Measured;

/// Longest wait of a job's end for its last sample. A slower meter misses the end of the run.
const PATIENCE: Duration = Duration::from_millis(250);

/// Shortest run whose end waits for a sample; a meter does not show shorter ones.
const SHORTEST: Span = Span::from_secs(1);

impl Node {
    /// Starts a job with its expected draw.
    pub(super) fn energy_begins(&mut self, job: JobId, expected: Power) {
        let at = self.now.since;
        if let Some(measured) = self.measured() {
            measured.energy.start(job.0, expected, at);
            self.look_now();
        }
    }

    /// Suspends or resumes a job.
    pub(super) fn energy_paused(&mut self, job: JobId, paused: bool) {
        let at = self.now.since;
        if let Some(measured) = self.measured() {
            measured.energy.set_paused(job.0, paused, at);
            self.look_now();
        }
    }

    /// Ends a job after `elapsed`, if that is known.
    pub(super) fn energy_ends(&mut self, job: JobId, elapsed: Option<Span>) {
        let at = self.now.since;
        let Some(measured) = self.measured() else { return };
        measured.energy.end(job.0, at);
        if elapsed.is_some_and(|elapsed| elapsed >= SHORTEST) {
            self.look_now();
        }
    }

    /// Returns true if the last sample of a finished job is missing.
    pub(super) fn awaits_look(&mut self, job: JobId, elapsed: Span) -> bool {
        let now = self.now.since;
        let Some(measured) = self.measured() else { return false };
        if elapsed < SHORTEST || !measured.energy.awaits_look(job.0) {
            return false;
        }
        let is_new = !measured.ending.contains_key(&job);
        let until = *measured.ending.entry(job).or_insert(now + PATIENCE);
        if is_new {
            self.look_now();
        }
        until > now
    }

    /// Returns the energy of a finished job.
    pub(super) fn energy_used(&mut self, job: JobId) -> Option<Attributed> {
        let at = self.now.since;
        let measured = self.measured()?;
        measured.ending.remove(&job);
        measured.energy.take(job.0, at)
    }

    /// Returns the earliest deadline of an end that waits for a sample.
    pub(super) fn endings_due(&self) -> Option<Duration> {
        self.as_measured()?.ending.values().min().copied()
    }

    /// Reports the ends of jobs with their last sample, or after the deadline.
    pub(super) fn tell_endings(&mut self) {
        let Some(measured) = self.measured() else { return };
        let jobs: Vec<JobId> = measured.ending.keys().copied().collect();
        for job in jobs {
            self.swept(job);
        }
    }

    /// Samples the meter at once, regardless of its interval.
    fn look_now(&mut self) {
        let now = self.now.since;
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(measured) = self.measured() {
            measured.ask(now, &mut effects);
        }
        self.effects = effects;
    }

    /// Samples again if the last sample began before a job ended.
    pub(super) fn look_again(&mut self) {
        let waits = |measured: &Measured| measured.ending.keys().any(|job| measured.energy.awaits_look(job.0));
        if self.as_measured().is_some_and(waits) {
            self.look_now();
        }
    }
}
