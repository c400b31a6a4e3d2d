//! A workload in memory: what a simulation needs of each job, small enough for millions of them.

use limo_model::{Span, Time};

/// One job of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its number in the file: column 1 of the Standard Workload Format.
    pub number: i64,
    /// From the start of the workload; not negative.
    pub submit: Span,
    /// What the file says that it waited (column 3), where it says so.
    pub wait: Option<Span>,
    /// Its real running time; not negative.
    pub run: Span,
    /// What its user asked for: the job is ended after this time. Positive.
    pub walltime: Option<Span>,
    /// At least 1.
    pub processors: u32,
    /// Column 12; negative where unknown.
    pub user: i32,
    /// Column 14; negative where unknown.
    pub application: i32,
}

/// Jobs in order of submission, ties in the stated order of the reader, and what the file says of their machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    pub jobs: Vec<Job>,
    /// When the workload starts, where the file says so (`UnixStartTime`).
    pub start: Option<Time>,
    /// Processors of the machine, where the file says so (`MaxProcs`).
    pub processors: Option<u32>,
    /// What was left out or mended while reading, one line each, with counts.
    pub notes: Vec<String>,
}
