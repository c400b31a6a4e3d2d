//! The record of a run, from the journal of its master: the draw by the meters, and the jobs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use limo_journal::{Entry, History};
use limo_model::{Curve, JobId, NodeId, Outcome, Power, Time};
use limo_sched::Event;

use super::pace::Pace;

/// A job, in times of the hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    pub application: String,
    pub submitted: Time,
    /// Time of the last start; `None` if the job never started.
    pub started: Option<Time>,
    pub ended: Option<(Time, Outcome)>,
}

/// A run, in times of the hour.
#[derive(Debug)]
pub struct Record {
    /// The draw of the whole cluster.
    pub draw: Curve<Power>,
    pub jobs: BTreeMap<JobId, JobRecord>,
}

impl Record {
    /// Reads the record from a journal.
    ///
    /// # Errors
    /// If the journal cannot be read, or has no meters.
    pub fn read(state_dir: &Path, pace: Pace) -> Result<Self> {
        let mut recorder = Recorder::default();
        for entry in History::open(state_dir)? {
            let entry = entry.context("cannot read the journal of the demo")?;
            if let Entry::Event(event) = entry.entry {
                recorder.note(pace.of_hour(entry.at), &event);
            }
        }
        recorder.finish()
    }

    /// Returns the failures of jobs, one line each; empty if all ended with exit code 0.
    pub fn mishaps(&self) -> Vec<String> {
        let mishap = |(id, job): (&JobId, &JobRecord)| match &job.ended {
            Some((_, Outcome::Exited(0))) => None,
            Some((_, outcome)) => Some(format!("job {id} ({}) ended otherwise: {outcome:?}", job.application)),
            None if job.started.is_some() => Some(format!("job {id} ({}) has not ended", job.application)),
            None => Some(format!("job {id} ({}) was never started", job.application)),
        };
        self.jobs.iter().filter_map(mishap).collect()
    }
}

/// Adds up the meters. A node counts with its idle draw from its registration to its first reading.
#[derive(Debug, Default)]
struct Recorder {
    /// Names of the nodes, which are numbered in the order of their first registration.
    names: Vec<String>,
    draws: BTreeMap<NodeId, Power>,
    steps: Vec<(Time, Power)>,
    jobs: BTreeMap<JobId, JobRecord>,
}

impl Recorder {
    fn note(&mut self, at: Time, event: &Event) {
        match event {
            Event::NodeUp { spec } if !self.names.contains(&spec.name) => {
                let id = NodeId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
                self.names.push(spec.name.clone());
                self.draws.insert(id, spec.idle);
                self.step(at);
            }
            Event::Readings { draws } => {
                self.draws.extend(draws.iter().copied());
                self.step(at);
            }
            Event::Submitted { job, request } => {
                let application = request.application.clone();
                self.jobs.insert(*job, JobRecord { application, submitted: at, started: None, ended: None });
            }
            Event::Started { job, .. } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.started = Some(at);
                }
            }
            Event::Ended { job, outcome, .. } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.ended = Some((at, outcome.clone()));
                }
            }
            _ => {}
        }
    }

    /// Adds the draw from `at` on.
    fn step(&mut self, at: Time) {
        let draw = self.draws.values().copied().sum();
        match self.steps.last_mut() {
            Some((last, value)) if *last >= at => *value = draw,
            _ => self.steps.push((at, draw)),
        }
    }

    fn finish(self) -> Result<Record> {
        ensure!(!self.steps.is_empty(), "the journal of the demo has no reading of any meter");
        Ok(Record { draw: Curve::new(self.steps, None)?, jobs: self.jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Attempt, Cores, Memory, Meter, NodeSpec, Request, Usage};

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    fn node(name: &str, idle: i64) -> Event {
        let spec = NodeSpec {
            name: name.into(),
            units: Vec::new(),
            memory: Memory::ZERO,
            idle: watts(idle),
            meter: Meter::Emulated,
            rest: None,
        };
        Event::NodeUp { spec }
    }

    fn submitted(job: u64) -> Event {
        let request = Request { user: "ada".into(), name: "cg".into(), cores: Cores::All, ..Request::one_core("cg") };
        Event::Submitted { job: JobId(job), request: Box::new(request) }
    }

    fn record(events: Vec<(i64, Event)>) -> Record {
        let mut recorder = Recorder::default();
        for (ms, event) in events {
            recorder.note(at(ms), &event);
        }
        recorder.finish().expect("readings")
    }

    #[test]
    fn the_draw_is_the_sum_of_the_meters_and_idle_before_the_first_reading() {
        let record = record(vec![
            (0, node("a", 10)),
            (0, node("b", 5)),
            (20, Event::Readings { draws: vec![(NodeId(1), watts(25))] }),
            (30, Event::Readings { draws: vec![(NodeId(0), watts(40))] }),
            // The node registers again, and its meter still shows the last value.
            (35, node("b", 5)),
            (40, Event::Readings { draws: vec![(NodeId(0), watts(11)), (NodeId(1), watts(6))] }),
        ]);
        let expected = [(0, 15), (20, 35), (30, 65), (40, 17)].map(|(ms, draw)| (at(ms), watts(draw)));
        assert_eq!(record.draw.steps(), expected);
    }

    #[test]
    fn jobs_that_did_not_end_well_are_named() {
        let attempt = Attempt(1);
        let ended = |job, outcome| Event::Ended { job: JobId(job), attempt, outcome, usage: Usage::default() };
        let record = record(vec![
            (0, node("a", 10)),
            (1, submitted(1)),
            (1, submitted(2)),
            (1, submitted(3)),
            (2, submitted(4)),
            (3, Event::Started { job: JobId(1), attempt }),
            (4, Event::Started { job: JobId(2), attempt }),
            (4, Event::Started { job: JobId(3), attempt }),
            (9, ended(1, Outcome::Exited(0))),
            (9, ended(2, Outcome::Exited(1))),
        ]);
        assert_eq!(
            record.mishaps(),
            ["job 2 (cg) ended otherwise: Exited(1)", "job 3 (cg) has not ended", "job 4 (cg) was never started",]
        );
        assert_eq!(record.jobs[&JobId(1)].started, Some(at(3)));
    }
}
