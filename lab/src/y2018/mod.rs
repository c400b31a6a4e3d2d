//! The simulator of power-capping-2018 as its authors published it, with its faults, to reproduce its rows.
//!
//! PA-HPC-SIM differs from the paper: lists that are permuted by removals, an unstable sort, a DVFS that slows no job, and
//! jobs that DynShare never ends. Each of these changes results, so the core of the master cannot have them. The description
//! that this module follows is `PROGRAM.md`, next to the traces of the paper; each module names its section.
//!
//! Cost: a visit each 5 s of simulated time, and a plan at each arrival or end; a plan is linear in waiting jobs times nodes.

mod calendar;
mod check;
mod collections;
pub mod command;
mod dispatcher;
pub mod instance;
pub mod job;
pub mod measures;
mod meter;
mod oracle;
mod planner;
mod resources;
mod shares;
mod sort;
#[cfg(test)]
mod tests;

use dispatcher::Dispatcher;
use instance::Instance;
use planner::Discipline;
use resources::NodeList;

/// The cap of runs without one, in watts.
pub const NO_CAP_W: i64 = 1_000_000;

/// The algorithms of the published program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Policy {
    /// List scheduling: the job with the shortest request first
    #[value(name = "LS")]
    Ls,
    /// EASY backfilling under a cap
    #[value(name = "BF")]
    Bf,
    /// EASY backfilling that reduces the power of jobs to fit under the cap
    #[value(name = "DVFS")]
    Dvfs,
    /// EASY backfilling without a cap; running jobs share the power
    #[value(name = "DynShare")]
    DynShare,
    /// DynShare that admits jobs up to three times the cap
    #[value(name = "DynShare3")]
    DynShare3,
}

/// The settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    pub policy: Policy,
    /// Slowdown factor, 0 to 1; without effect under LS and BF.
    pub factor: f64,
    /// Power cap, and under DynShare the target, in watts.
    pub cap_w: i64,
}

impl Policy {
    /// Returns true if the slowdown factor has an effect.
    pub fn has_factor(self) -> bool {
        !matches!(self, Self::Ls | Self::Bf)
    }
}

impl Parameters {
    fn discipline(self) -> Discipline {
        match self.policy {
            Policy::Ls => Discipline::Ls,
            Policy::Bf | Policy::DynShare | Policy::DynShare3 => Discipline::Bf,
            Policy::Dvfs => Discipline::Dvfs(self.factor),
        }
    }

    /// Returns the cap for starts, in watts.
    fn admission_w(self) -> i64 {
        match self.policy {
            Policy::DynShare => NO_CAP_W,
            Policy::DynShare3 => 3 * self.cap_w,
            Policy::Ls | Policy::Bf | Policy::Dvfs => self.cap_w,
        }
    }

    /// Returns target in watts and slowdown factor if running jobs share the power.
    fn shared(self) -> Option<(i64, f64)> {
        matches!(self.policy, Policy::DynShare | Policy::DynShare3).then_some((self.cap_w, self.factor))
    }
}

/// End of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimulationEnd {
    Done(JobSchedule),
    /// A job, by its index, can never start: it needs more than the cap or than all nodes.
    Infeasible {
        job: usize,
    },
    /// A job was never started. The published program ends at an assertion.
    Stuck,
}

/// The simulated schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSchedule {
    /// By job.
    pub records: Vec<JobRecord>,
    /// Highest draw that was measured, in watts.
    pub peak_w: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Seconds after the first arrival.
    pub start_s: i64,
    /// End as known when the last job started.
    pub end_s: i64,
    pub is_slowed: bool,
    /// Node of each unit.
    pub places: Vec<usize>,
}

/// Simulates an instance.
pub fn simulate(instance: &Instance, nodes: &NodeList, parameters: Parameters) -> SimulationEnd {
    let most_w = if parameters.policy == Policy::Dvfs { i64::MAX } else { parameters.admission_w() };
    let never = |job: &job::Job| job.watts() > most_w || nodes.idle().place(job).is_none();
    match instance.jobs.iter().position(never) {
        Some(job) => SimulationEnd::Infeasible { job },
        None => Dispatcher::new(&instance.jobs, nodes, parameters).run(),
    }
}
