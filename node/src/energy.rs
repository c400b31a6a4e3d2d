//! The energy of jobs on a machine with a meter: what the meter shows is shared out among those that run.
//!
//! The meter is looked at when a job begins and when it ends, so that what was drawn is told apart. The end of a job that
//! ran for long enough is told once that last look is there, or after [`PATIENCE`].

use std::time::Duration;

use limo_model::{JobId, Power, Span};
use limo_power::Attributed;

use super::Node;
use super::meter::Measured;

/// How long the end of a job waits for the look after it: a meter that takes longer misses the end of the run.
const PATIENCE: Duration = Duration::from_millis(250);

/// A shorter run is over before a meter tells anything of it.
const SHORTEST: Span = Span::from_secs(1);

impl Node {
    /// The job runs, and is expected to draw so much.
    pub(super) fn energy_begins(&mut self, job: JobId, expected: Power) {
        let at = self.now.since;
        if let Some(measured) = self.measured() {
            measured.energy.start(job.0, expected, at);
            self.look_now();
        }
    }

    /// The job stands still, or goes on.
    pub(super) fn energy_paused(&mut self, job: JobId, paused: bool) {
        let at = self.now.since;
        if let Some(measured) = self.measured() {
            measured.energy.set_paused(job.0, paused, at);
            self.look_now();
        }
    }

    /// The job's process is gone after so long, if that is known.
    pub(super) fn energy_ends(&mut self, job: JobId, elapsed: Option<Span>) {
        let at = self.now.since;
        let Some(measured) = self.measured() else { return };
        measured.energy.end(job.0, at);
        if elapsed.is_some_and(|elapsed| elapsed >= SHORTEST) {
            self.look_now();
        }
    }

    /// Whether the meter is still to tell about a job of which nothing is left.
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

    /// What a job used that is over.
    pub(super) fn energy_used(&mut self, job: JobId) -> Option<Attributed> {
        let at = self.now.since;
        let measured = self.measured()?;
        measured.ending.remove(&job);
        measured.energy.take(job.0, at)
    }

    /// When the first end is told that waits for a look.
    pub(super) fn endings_due(&self) -> Option<Duration> {
        self.as_measured()?.ending.values().min().copied()
    }

    /// Tells the ends of the jobs about which the meter has told, or takes too long.
    pub(super) fn tell_endings(&mut self) {
        let Some(measured) = self.measured() else { return };
        let jobs: Vec<JobId> = measured.ending.keys().copied().collect();
        for job in jobs {
            self.swept(job);
        }
    }

    /// Asks the meter beside its rhythm.
    fn look_now(&mut self) {
        let now = self.now.since;
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(measured) = self.measured() {
            measured.ask(now, &mut effects);
        }
        self.effects = effects;
    }

    /// Asks once more if the look that was under way began before a job ended.
    pub(super) fn look_again(&mut self) {
        let waits = |measured: &Measured| measured.ending.keys().any(|job| measured.energy.awaits_look(job.0));
        if self.as_measured().is_some_and(waits) {
            self.look_now();
        }
    }
}
