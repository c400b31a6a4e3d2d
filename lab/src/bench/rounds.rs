//! The duration of one event and its round in the core, on a large cluster under load.

use anyhow::{Result, ensure};
use limo_model::Span;

use super::cluster::{Loaded, Size, Took};
use super::figure::{Figure, Limit};

/// Measured durations of one kind of event, in ns.
pub struct Times {
    what: String,
    sorted: Vec<u64>,
}

impl Times {
    pub fn new(what: String, mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        Self { what, sorted: ns }
    }

    /// Returns the time, in us, that `permille` of a thousand rounds do not exceed.
    fn at_permille(&self, permille: usize) -> f64 {
        let at = (self.sorted.len() * permille).div_ceil(1_000).clamp(1, self.sorted.len().max(1));
        self.sorted.get(at - 1).map_or(0.0, |ns| *ns as f64 / 1_000.0)
    }

    pub fn figures(&self, limit_us: f64, peer: &str) -> [Figure; 4] {
        let figure =
            |name: &str, permille| Figure::new(&format!("{}, {name}", self.what), self.at_permille(permille), "us");
        [
            figure("p50", 500),
            figure("p99", 990).within(Limit::AtMost(limit_us)).beside(peer),
            figure("p99.9", 999),
            figure("max", 1_000),
        ]
    }
}

/// Returns figures of wall time, which other processes increase, and of CPU time.
fn both(what: &str, took: &[Took], (limit_us, peer): (f64, &str)) -> Vec<Figure> {
    let wall = Times::new(format!("{what}, wall"), took.iter().map(|took| took.wall_ns).collect());
    let cpu = Times::new(format!("{what}, CPU"), took.iter().map(|took| took.cpu_ns).collect());
    [wall, cpu].iter().flat_map(|times| times.figures(limit_us, peer)).collect()
}

/// Measures `rounds` job ends and as many arrivals on a cluster of that size. `limit_us` limits the 99th percentile.
///
/// # Errors
/// If the core refuses an event, or the cluster is not under load.
pub fn measure(size: Size, limit_us: f64, rounds: usize) -> Result<Vec<Figure>> {
    let mut loaded = Loaded::new(size)?;
    let (mut ends, mut arrivals) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    let mut started = 0;
    while ends.len() < rounds {
        let took = loaded.end()?;
        ends.push(took);
        started += took.started;
        // Each end is followed by arrivals, so that the queue stays full.
        while loaded.waiting() < size.waiting {
            let took = loaded.arrive(Span::ZERO)?;
            arrivals.push(took);
            started += took.started;
        }
    }
    ensure!(!arrivals.is_empty(), "nothing arrived");
    let (draw, limit) = loaded.draw();
    let measured = ends.len() + arrivals.len();
    let mut figures = vec![
        Figure::new("jobs waiting", loaded.waiting() as f64, ""),
        Figure::new("jobs running", loaded.running() as f64, ""),
        Figure::new("rounds measured", measured as f64, ""),
        Figure::new("jobs started meanwhile", started as f64, ""),
        Figure::new("draw of what is allowed", draw.watts() * 100.0 / limit.watts(), "%"),
        Figure::new("plans refused by the checker", loaded.rejected() as f64, "").within(Limit::AtMost(0.0)),
    ];
    figures.extend(both("after an end", &ends, (limit_us, "a prototype of the structures alone: 4.7 us")));
    figures.extend(both("after an arrival", &arrivals, (limit_us, "a prototype of the structures alone: 1.3 us")));
    Ok(figures)
}

/// Number of changes of owners in a second.
const CHANGES: usize = 10_000;

/// Interval between two rounds: the master collects events for this time.
const BATCH: Span = Span::from_ms(5);

/// Measures `rounds` rounds while owners come and leave. `limit_us` limits the 99th percentile.
///
/// # Errors
/// If the core refuses an event.
pub fn owners(size: Size, limit_us: f64, rounds: usize) -> Result<Vec<Figure>> {
    let mut loaded = Loaded::new(size)?;
    let count = CHANGES * usize::try_from(BATCH.ms())? / 1_000;
    let (mut took, mut started) = (Vec::with_capacity(rounds), 0);
    for _ in 0..rounds {
        took.push(loaded.change_owners(count, BATCH)?);
        started += took.last().map_or(0, |took| took.started);
    }
    let mut figures = vec![
        Figure::new("jobs waiting", loaded.waiting() as f64, ""),
        Figure::new("jobs running or suspended", loaded.running() as f64, ""),
        Figure::new("changes of owners in a round", count as f64, ""),
        Figure::new("jobs started meanwhile", started as f64, ""),
        Figure::new("plans refused by the checker", loaded.rejected() as f64, "").within(Limit::AtMost(0.0)),
    ];
    figures.extend(both("changes of owners and their round", &took, (limit_us, "10,000 changes a second")));
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    /// Checks percentiles of the numbers 1 to 1000 us in any order.
    #[test]
    fn permilles() {
        let times = Times::new("x".to_owned(), (1..=1_000).rev().map(|us| us * 1_000).collect());
        assert_eq!([500, 990, 999, 1_000].map(|permille| times.at_permille(permille)), [500.0, 990.0, 999.0, 1_000.0]);
        assert_eq!(Times::new("one".to_owned(), vec![7_000]).at_permille(500), 7.0);
    }

    /// Checks that jobs are suspended and started while owners come and leave.
    #[test]
    fn owners_of_a_small_cluster() {
        let parts = limo_model::Overrides::default();
        let size = Size { nodes: 200, waiting: 50, width: NonZeroU32::MIN, parts, depth: 512, has_owners: true };
        let figures = owners(size, 5_000.0, 100).expect("measured");
        let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        assert_eq!(value("changes of owners in a round"), Some(50.0));
        assert_eq!(value("plans refused by the checker"), Some(0.0));
        assert!(value("jobs running or suspended") > Some(50.0), "{figures:?}");
    }

    /// Checks that a small cluster fills up to its limit, and that all figures are present.
    #[test]
    fn a_small_cluster() {
        let parts = limo_model::Overrides::default();
        let size = Size { nodes: 20, waiting: 50, width: NonZeroU32::MIN, parts, depth: 512, has_owners: false };
        let figures = measure(size, 50.0, 100).expect("measured");
        let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        assert_eq!(value("jobs waiting"), Some(50.0));
        assert_eq!(value("plans refused by the checker"), Some(0.0));
        assert!(value("draw of what is allowed").is_some_and(|share| share > 80.0 && share <= 100.0), "{figures:?}");
        assert!(value("rounds measured").is_some_and(|rounds| rounds >= 200.0));
    }
}
