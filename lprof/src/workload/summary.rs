//! Figures of a workload: counts, sizes, times and the work of its matrices.

use std::time::Duration;

use serde::Serialize;

use super::recipe::{BLOCK, flop, operations};

/// Sums over the packages of a workload.
#[derive(Debug, Clone, Default)]
pub struct WorkloadSums {
    packages: u64,
    bytes: u64,
    smallest: Option<u64>,
    largest: u64,
    due: Duration,
    is_other_than_lud: bool,
    dimensions: f64,
    operations: f64,
    flop: f64,
}

/// The figures of [`WorkloadSums`], with units in their names.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Version of this form.
    pub schema: u32,
    /// Number of packages.
    pub packages: u64,
    /// Size of all contents.
    pub content_bytes: u64,
    /// Size of the smallest content; 0 without packages.
    pub smallest_bytes: u64,
    /// Size of the largest content.
    pub largest_bytes: u64,
    /// Due time of the last package, after the start of the session.
    pub last_due_s: f64,
    /// Work of the packages, if each may be a matrix.
    pub lud: Option<LudFigures>,
}

/// The work of matrices.
#[derive(Debug, Serialize)]
pub struct LudFigures {
    /// Mean dimension.
    pub mean_dimension: f64,
    /// Mean number of operations of a matrix: limo-2018, Equation (4.1).
    pub mean_op: f64,
    /// Mean number of floating-point operations of a matrix, 2/3 n³.
    pub mean_flop: f64,
    /// Operations of all matrices.
    pub total_op: f64,
    /// Floating-point operations of all matrices.
    pub total_flop: f64,
}

impl WorkloadSums {
    /// Adds a package of `size` bytes that is due `delay` after the one before.
    pub fn add(&mut self, delay: Duration, size: u64) {
        self.packages += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.smallest = Some(self.smallest.map_or(size, |smallest| smallest.min(size)));
        self.largest = self.largest.max(size);
        self.due = self.due.saturating_add(delay);
        let Some(dimension) = dimension(size) else {
            self.is_other_than_lud = true;
            return;
        };
        self.dimensions += dimension as f64;
        self.operations += operations((dimension / BLOCK) as u32);
        self.flop += flop(dimension);
    }

    /// Returns the figures of all packages so far.
    pub fn figures(&self) -> Figures {
        let count = self.packages as f64;
        let lud = (self.packages > 0 && !self.is_other_than_lud).then(|| LudFigures {
            mean_dimension: self.dimensions / count,
            mean_op: self.operations / count,
            mean_flop: self.flop / count,
            total_op: self.operations,
            total_flop: self.flop,
        });
        Figures {
            schema: 1,
            packages: self.packages,
            content_bytes: self.bytes,
            smallest_bytes: self.smallest.unwrap_or(0),
            largest_bytes: self.largest,
            last_due_s: self.due.as_secs_f64(),
            lud,
        }
    }
}

/// Returns the dimension of a matrix of `size` bytes: √(size/4), a multiple of 16 (limo-2018, section 4.1.2). `None` if
/// no such matrix has that size, or its dimension is 2^24 or more.
pub fn dimension(size: u64) -> Option<usize> {
    let dimension = (size / 4).isqrt();
    let is_matrix = dimension * dimension * 4 == size && dimension > 0 && dimension.is_multiple_of(BLOCK as u64);
    usize::try_from(dimension).ok().filter(|dimension| is_matrix && *dimension < 1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_multiples_of_16() {
        assert_eq!(dimension(4 * 16 * 16), Some(16));
        assert_eq!(dimension(4 * 4096 * 4096), Some(4096));
        for size in [0, 1, 4, 4 * 15 * 15, 4 * 17 * 17, 4 * 16 * 16 + 1, 4 * 16 * 32, u64::MAX] {
            assert_eq!(dimension(size), None, "{size}");
        }
    }

    #[test]
    fn figures_are_sums_and_means() {
        let mut summary = WorkloadSums::default();
        summary.add(Duration::from_micros(5), 4 * 16 * 16);
        summary.add(Duration::from_micros(7), 4 * 32 * 32);
        let figures = summary.figures();
        assert_eq!((figures.packages, figures.content_bytes), (2, 5_120));
        assert_eq!((figures.smallest_bytes, figures.largest_bytes, figures.last_due_s), (1_024, 4_096, 12e-6));
        let lud = figures.lud.expect("matrices");
        assert_eq!((lud.mean_dimension, lud.mean_op, lud.total_op), (24.0, 33_468.0, 66_936.0));
        summary.add(Duration::ZERO, 3);
        assert!(summary.figures().lud.is_none());
    }
}
