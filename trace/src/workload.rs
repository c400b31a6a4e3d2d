//! Workload in memory: the data of jobs for a simulation, small enough for millions of jobs.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use limo_model::{Chunk, Span, Time, Widths};

use crate::compact::{CompactSpan, Index};

/// Job of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    /// Number in the file: column 1 of the Standard Workload Format.
    pub number: i64,
    /// Submission, from the start of the workload; not negative.
    pub submit: Span,
    /// Wait in the file (column 3), if any.
    pub wait: Option<CompactSpan>,
    /// True running time; not negative.
    pub run: Span,
    /// Requested time, after which the job is ended. Positive.
    pub walltime: Option<CompactSpan>,
    /// Processors, at least 1.
    pub processors: u32,
    /// User of column 12; negative if unknown.
    pub user: i32,
    /// Application of column 14, or the index in [`Workload::applications`] if that is not empty; negative if
    /// unknown.
    pub application: i32,
    /// Queue of column 15, or the index in [`Workload::queues`] if that is not empty; negative if unknown.
    pub queue: i32,
    /// Treatment by a policy.
    pub treatment: Treatment,
    /// Index in [`Workload::chunks`], if the format says how the job is divided among nodes. Its processors then only count
    /// in figures.
    pub chunks: Option<Index>,
    /// Index in [`Workload::moldables`], if the job has a range of nodes. It takes whole nodes; its processors then only
    /// count in figures.
    pub moldable: Option<Index>,
    /// Time after its submission at which its user removes it.
    pub removed: Option<CompactSpan>,
    /// Index in [`Workload::transfers`], if it transfers data.
    pub bytes: Option<Index>,
}

/// The range of nodes of a job, and its true running times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moldable {
    /// Numbers of nodes among which a policy chooses.
    pub widths: Widths,
    /// Running time by number of nodes; empty if it is the same on all, or in proportion for a malleable job.
    pub runs: BTreeMap<u32, Span>,
    /// True if the number of nodes may also change while the job runs.
    pub malleable: bool,
}

impl Moldable {
    /// Returns the running time on this number of nodes: that of the nearest smaller number, or of the smallest. Without
    /// any, a malleable job takes `run` on the least number and is faster in proportion on more.
    pub fn run_on(&self, nodes: u32, run: Span) -> Option<Span> {
        let known = self.runs.range(..=nodes).next_back().or_else(|| self.runs.iter().next()).map(|(_, run)| *run);
        let least = i64::from(self.widths.least.get());
        known.or_else(|| self.malleable.then(|| run.scaled(least, i64::from(nodes.max(1)))))
    }
}

/// Equal chunks of a job, of which several may share a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunks {
    /// Number of chunks.
    pub count: NonZeroU32,
    /// Resources of each chunk.
    pub each: Chunk,
    /// Allowed types of accelerators; empty allows all.
    pub hardware: Vec<String>,
}

/// Permitted treatment of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Treatment {
    /// True if the job may be suspended.
    pub may_suspend: bool,
    /// True if the job may be requeued.
    pub may_requeue: bool,
    /// True if the job is a filler, which only keeps the draw above its lower limit.
    pub filler: bool,
    /// True if the job may run at a cap without a profile, to measure it.
    pub explore: bool,
    /// True if the job takes every core of its unit; its processors then only count in figures.
    pub whole_unit: bool,
    /// Accelerators of one type that the job takes on each of its nodes, besides its processors.
    pub accelerators: u32,
    /// True if each of its processors may be on any node, with its accelerators.
    pub packed: bool,
    /// True if it only fills a node before the workload begins; it is in no figure.
    pub fills: bool,
}

/// Application of jobs, if the workload names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Application {
    /// Name for profiles and platforms.
    pub name: String,
    /// Types of accelerators for which the job has a command.
    pub variants: Vec<String>,
}

/// Jobs in order of submission, ties in the order of the reader, and the file's data on their machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    /// Jobs, sorted by [`Job::submit`].
    pub jobs: Vec<Job>,
    /// Applications of the jobs, if the format names them.
    pub applications: Vec<Application>,
    /// Chunks of jobs, if the format has them.
    pub chunks: Vec<Chunks>,
    /// Ranges of nodes of jobs, if the format has them.
    pub moldables: Vec<Moldable>,
    /// Bytes of the input and of the output of jobs, if the format has them.
    pub transfers: Vec<[u64; 2]>,
    /// Names of the queues of jobs, if the format names them.
    pub queues: Vec<String>,
    /// Start of the workload, if known (`UnixStartTime`).
    pub start: Option<Time>,
    /// Processors of the machine, if known (`MaxProcs`).
    pub processors: Option<u32>,
    /// Omitted and repaired data, one line each, with counts.
    pub notes: Vec<String>,
}

impl Workload {
    /// Returns the chunks of a job, if the format has them.
    pub fn chunks(&self, job: &Job) -> Option<&Chunks> {
        self.chunks.get(job.chunks?.get())
    }

    /// Returns the range of nodes of a job, if it has one.
    pub fn moldable(&self, job: &Job) -> Option<&Moldable> {
        self.moldables.get(job.moldable?.get())
    }

    /// Returns the bytes of the input and of the output of a job.
    pub fn transfer(&self, job: &Job) -> Option<[u64; 2]> {
        self.transfers.get(job.bytes?.get()).copied()
    }

    /// Returns the name of a job's queue: its number in the file, unless the format names queues.
    pub fn queue(&self, job: &Job) -> Option<String> {
        let index = usize::try_from(job.queue).ok()?;
        if self.queues.is_empty() { Some(index.to_string()) } else { self.queues.get(index).cloned() }
    }

    /// Adds chunks, unless it has equal ones already. Returns their index for a job.
    pub fn add_chunks(&mut self, chunks: Chunks) -> Index {
        let index = self.chunks.iter().position(|known| *known == chunks).unwrap_or_else(|| {
            self.chunks.push(chunks);
            self.chunks.len() - 1
        });
        Index::of(index)
    }

    /// Returns the application of a job, if its name is known.
    pub fn application(&self, job: &Job) -> Option<&Application> {
        self.applications.get(usize::try_from(job.application).ok()?)
    }

    /// Applies a treatment to this share of the jobs, in hundredths of a percent, spread evenly. A smaller share is
    /// not always a part of a larger one; equal shares are the same jobs.
    pub fn treat(&mut self, hundredths: u64, way: impl Fn(&mut Treatment)) {
        let mut sum = 0;
        for job in &mut self.jobs {
            sum += hundredths.min(10_000);
            if sum >= 10_000 {
                sum -= 10_000;
                way(&mut job.treatment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_evenly() {
        let check = |hundredths: u64, expected: &str| {
            let job = Job {
                number: 1,
                submit: Span::ZERO,
                wait: None,
                run: Span::ZERO,
                walltime: None,
                processors: 1,
                user: -1,
                application: -1,
                queue: -1,
                treatment: Treatment::default(),
                chunks: None,
                moldable: None,
                removed: None,
                bytes: None,
            };
            let mut workload = Workload { jobs: vec![job; 8], ..Workload::default() };
            workload.treat(hundredths, |treatment| treatment.may_suspend = true);
            let shown: String =
                workload.jobs.iter().map(|job| if job.treatment.may_suspend { 's' } else { '-' }).collect();
            assert_eq!(shown, expected, "{hundredths}");
        };
        check(0, "--------");
        check(2_500, "---s---s");
        check(3_333, "---s--s-");
        check(5_000, "-s-s-s-s");
        check(10_000, "ssssssss");
        check(20_000, "ssssssss");
    }
}
