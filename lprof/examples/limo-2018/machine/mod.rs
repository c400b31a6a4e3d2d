//! The replayed machine; see `main.rs`.

mod gpu;
mod meter;
mod workloads;

use std::path::Path;

use lprof::results::{self, Measurement};

/// Writes all results into a directory, which must not have results yet.
///
/// # Errors
/// If it has, or if they cannot be written.
pub fn write(dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("results.jsonl");
    anyhow::ensure!(!file.exists(), "{} exists already", file.display());
    let measurements: Vec<Measurement> = gpu::measurements().chain(workloads::measurements()).collect();
    measurements.iter().try_for_each(|measurement| results::append(dir, measurement))
}
