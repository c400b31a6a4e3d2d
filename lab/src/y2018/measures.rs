//! The figures that the published program prints for a schedule (PROGRAM.md, section 7), and a row of results.

use super::instance::Instance;
use super::resources::NodeList;
use super::{JobSchedule, Parameters, SimulationEnd, simulate};

/// Times of a run below which the bounded slowdown takes this one, in seconds. The paper has 300 s.
const LEAST_RUN_S: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures {
    pub total_wait_s: i64,
    /// Mean of the bounded slowdowns.
    pub bsld: f64,
    /// Highest measured draw, in watts.
    pub peak_w: i64,
    /// Latest end, in seconds after the first arrival.
    pub makespan_s: i64,
    /// Per cent of the jobs whose duration is not that at full power.
    pub slowed_pct: f64,
}

impl Measures {
    /// Computes the figures. The schedule is one of the instance, which has jobs.
    pub fn new(instance: &Instance, schedule: &JobSchedule) -> Self {
        let jobs = instance.jobs.len() as f64;
        let (mut total_wait_s, mut slowdowns) = (0, 0.0);
        for (job, record) in instance.jobs.iter().zip(&schedule.records) {
            let wait_s = record.start_s - job.arrival_s;
            total_wait_s += wait_s;
            let turnaround_s = wait_s + record.end_s - record.start_s;
            slowdowns += f64::max(1.0, turnaround_s as f64 / job.run_s.max(LEAST_RUN_S) as f64);
        }
        let slowed = schedule.records.iter().filter(|record| record.is_slowed).count();
        Self {
            total_wait_s,
            bsld: slowdowns / jobs,
            peak_w: schedule.peak_w,
            makespan_s: schedule.records.iter().map(|record| record.end_s).max().unwrap_or(0),
            slowed_pct: 100.0 * slowed as f64 / jobs,
        }
    }

    /// Returns the values in the order and with the digits of `oracle.csv`.
    pub fn cells(&self) -> [String; 5] {
        let Self { total_wait_s, bsld, peak_w, makespan_s, slowed_pct } = self;
        [
            total_wait_s.to_string(),
            format!("{bsld:.9}"),
            peak_w.to_string(),
            makespan_s.to_string(),
            slowed_pct.to_string(),
        ]
    }
}

/// Result of a simulation, in the words of `oracle.csv`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    Ok(Measures),
    Infeasible,
    Abort,
}

impl Status {
    /// Simulates.
    pub fn of(instance: &Instance, nodes: &NodeList, parameters: Parameters) -> Self {
        match simulate(instance, nodes, parameters) {
            SimulationEnd::Done(schedule) => Self::Ok(Measures::new(instance, &schedule)),
            SimulationEnd::Infeasible { .. } => Self::Infeasible,
            SimulationEnd::Stuck => Self::Abort,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Infeasible => "infeasible",
            Self::Abort => "abort",
        }
    }

    pub fn measures(&self) -> Option<&Measures> {
        match self {
            Self::Ok(measures) => Some(measures),
            Self::Infeasible | Self::Abort => None,
        }
    }

    /// Returns status and values like a row of `oracle.csv`; values are empty without a schedule.
    pub fn cells(&self) -> [String; 6] {
        let [wait, bsld, peak, makespan, slowed] = self.measures().map(Measures::cells).unwrap_or_default();
        [self.name().to_owned(), wait, bsld, peak, makespan, slowed]
    }
}
