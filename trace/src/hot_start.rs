//! Jobs that fill nodes before a workload begins, since a cluster is never empty (power-capping-2018, section 5.1): each
//! takes a full node and draws 5 W; half of them run for 600 s, half for 1,200 s.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use limo_model::{Chunk, Cores, EstimateSource, Memory, Power, Profile, ProfileKey, Span, UnitKind};
use thiserror::Error;

use crate::compact::{CompactSpan, Index};
use crate::platform::{Group, Platform};
use crate::workload::{Application, Chunks, Job, Treatment, Workload};

/// Draw of a job that fills a node, above idle.
pub const FILLING_DRAW: Power = Power::from_watts(5);

/// Running times of these jobs, which are their time limits too, with the names of their applications.
pub const FILLINGS: [(&str, Span); 2] =
    [("hot-start-600", Span::from_secs(600)), ("hot-start-1200", Span::from_secs(1_200))];

/// Reason why the nodes of a platform cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "group {group} of the platform has {units}: one job can only fill nodes with one CPU and accelerators of one type"
)]
pub struct HotStartError {
    /// Number of the group, from 1.
    group: usize,
    units: String,
}

impl Workload {
    /// Adds a job for each filled node, in turn on each group of the platform that has nodes left. The other jobs arrive a
    /// second later. `share` is the filled part of the nodes, 0 to 1. The applications of the jobs are the last ones.
    ///
    /// # Errors
    /// [`HotStartError`] if a node has several CPUs, or accelerators of several types.
    pub fn hot_start(&mut self, platform: &Platform, share: f64) -> Result<(), HotStartError> {
        let groups = || platform.groups.iter().enumerate();
        let chunks =
            groups().map(|(index, group)| full_node(group).map_err(|units| HotStartError { group: index + 1, units }));
        let chunks = chunks.collect::<Result<Vec<_>, _>>()?;
        let nodes: u32 = platform.groups.iter().map(|group| group.count).sum();
        let count = (share * f64::from(nodes)).round() as usize;
        if count == 0 {
            return Ok(());
        }
        if self.applications.is_empty() {
            // Numbers of applications without names select nothing, and must not become indexes.
            self.jobs.iter_mut().for_each(|job| job.application = -1);
        }
        let first = self.applications.len();
        self.applications.extend(FILLINGS.map(|(name, _)| Application { name: name.to_owned(), variants: Vec::new() }));
        for job in &mut self.jobs {
            job.submit = job.submit + Span::from_secs(1);
        }
        let last = self.jobs.iter().map(|job| job.number).max().unwrap_or(0);
        let chunks: Vec<(u32, Index)> =
            chunks.into_iter().map(|chunks| (chunks.each.cores.on(u32::MAX), self.add_chunks(chunks))).collect();
        let turns = (0..nodes).flat_map(|turn| groups().filter(move |(_, group)| turn < group.count));
        let filling = (last + 1..).zip(turns.take(count).enumerate()).map(|(number, (index, (group, _)))| {
            let length = index / platform.groups.len() % FILLINGS.len();
            let run = FILLINGS[length].1;
            Job {
                number,
                submit: Span::ZERO,
                wait: None,
                run,
                walltime: Some(CompactSpan::of(run)),
                processors: chunks[group].0,
                user: -1,
                application: i32::try_from(first + length).unwrap_or(-1),
                queue: -1,
                treatment: Treatment { fills: true, ..Treatment::default() },
                chunks: Some(chunks[group].1),
                moldable: None,
                removed: None,
                bytes: None,
            }
        });
        let filling: Vec<Job> = filling.collect();
        self.jobs.splice(..0, filling);
        Ok(())
    }
}

/// Returns the chunk that takes a node of this group, or its units if it has no such chunk.
fn full_node(group: &Group) -> Result<Chunks, String> {
    let of = |kind| group.units.iter().filter(move |unit| unit.kind == kind);
    let types: BTreeSet<&str> = of(UnitKind::Accelerator).map(|unit| unit.hardware.as_str()).collect();
    let cpus = if group.units.is_empty() { 1 } else { of(UnitKind::Cpu).count() };
    if cpus != 1 || types.len() > 1 {
        return Err(format!("{cpus} CPUs and {} types of accelerators", types.len()));
    }
    let cores = of(UnitKind::Cpu).map(|unit| unit.cores).next().unwrap_or(group.cores);
    let accelerators = NonZeroU32::new(u32::try_from(of(UnitKind::Accelerator).count()).unwrap_or(u32::MAX));
    let hardware = types.into_iter().next().or(of(UnitKind::Cpu).map(|unit| unit.hardware.as_str()).next());
    let each = Chunk {
        cores: Cores::Count(NonZeroU32::new(cores).unwrap_or(NonZeroU32::MIN)),
        with_cores: accelerators.is_some(),
        accelerators,
        memory: Memory::ZERO,
    };
    let hardware = vec![hardware.unwrap_or(&group.hardware).to_owned()];
    Ok(Chunks { count: NonZeroU32::MIN, each, hardware })
}

/// Returns the profiles of the jobs that fill nodes, as a scheduler knows them.
pub fn filling_profiles(platform: &Platform) -> Vec<(ProfileKey, Profile)> {
    let units = platform.groups.iter().flat_map(|group| &group.units);
    let units = units.map(|unit| (unit.hardware.clone(), unit.kind));
    let plain = platform.groups.iter().filter(|group| group.units.is_empty());
    let plain = plain.map(|group| (group.hardware.clone(), UnitKind::Cpu));
    let types: BTreeSet<(String, bool)> =
        units.chain(plain).map(|(name, kind)| (name, kind == UnitKind::Cpu)).collect();
    let of = |(hardware, is_cpu): (String, bool)| {
        FILLINGS.map(|(application, duration)| {
            let power = if is_cpu { FILLING_DRAW } else { Power::ZERO };
            let (application, hardware) = (application.to_owned(), hardware.clone());
            let key = ProfileKey { application, size: String::new(), hardware, cores: None, nodes: None, cap: None };
            let (energy, source) = (power * duration, EstimateSource::Imported);
            (key, Profile { duration, power, energy, spread_permille: 0, runs: 0, source })
        })
    };
    types.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: i64, submit_s: i64) -> Job {
        Job {
            number,
            submit: Span::from_secs(submit_s),
            wait: None,
            run: Span::from_secs(1),
            walltime: None,
            processors: 1,
            user: 3,
            application: 1,
            queue: -1,
            treatment: Treatment::default(),
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        }
    }

    fn platform(text: &str) -> Platform {
        Platform::parse("cluster.toml", text).expect("a platform")
    }

    const TWO_GROUPS: &str = r#"
        [[nodes]]
        name = "big"
        count = 3
        cores = 8
        idle = "10 W"
        busy = "50 W"
        [[nodes]]
        name = "small"
        cores = 2
        idle = "10 W"
        busy = "30 W"
    "#;

    #[test]
    fn a_share_of_the_nodes_is_filled_before_the_first_job_arrives() {
        let filled = |share: f64| {
            let mut workload = Workload { jobs: vec![job(7, 0), job(2, 5)], ..Workload::default() };
            workload.hot_start(&platform(TWO_GROUPS), share).expect("filled");
            let of = |job: &Job| (job.number, job.submit.ms() / 1_000, job.run.ms() / 1_000, job.processors);
            (workload.jobs.iter().map(of).collect::<Vec<_>>(), workload)
        };
        assert_eq!(filled(0.0).0, [(7, 0, 1, 1), (2, 5, 1, 1)], "nothing changes");
        let (jobs, workload) = filled(1.0);
        let expected =
            [(8, 0, 600, 8), (9, 0, 600, 2), (10, 0, 1_200, 8), (11, 0, 1_200, 8), (7, 1, 1, 1), (2, 6, 1, 1)];
        assert_eq!(jobs, expected, "in turn on both groups until one is full");
        let name = |job: &Job| workload.application(job).map(|of| of.name.clone());
        assert_eq!(name(&workload.jobs[2]).as_deref(), Some("hot-start-1200"));
        assert_eq!(name(&workload.jobs[4]), None, "a number of the trace is no index");
        assert_eq!(filled(0.5).0.len(), 4);
    }

    #[test]
    fn a_node_with_two_cpus_is_refused() {
        let text = r#"
            [[nodes]]
            name = "n"
            idle = "10 W"
            [[nodes.unit]]
            name = "cpu0"
            hardware = "xeon"
            kind = "cpu"
            cores = 4
            nameplate = "50 W"
            [[nodes.unit]]
            name = "cpu1"
            hardware = "xeon"
            kind = "cpu"
            cores = 4
            nameplate = "50 W"
        "#;
        let refused = Workload::default().hot_start(&platform(text), 0.5).expect_err("two CPUs").to_string();
        assert!(refused.starts_with("group 1 of the platform has 2 CPUs and 0 types of accelerators:"), "{refused}");
    }
}
