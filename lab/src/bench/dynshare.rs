//! The duration of a step of DynShare (`caps=ellsworth`) on a cluster whose nodes are all busy, above the upper limit.

use std::num::NonZeroU32;

use anyhow::{Result, ensure};
use limo_model::{AdmissionRule, CapRule, Overrides, Span};

use super::cluster::{Loaded, Size};
use super::figure::{Figure, Limit};
use super::rounds::Times;

/// Time between two steps.
const GAP: Span = Span::from_secs(5);
/// Jobs for each node, which fill most of their cores.
const JOBS_PER_NODE: usize = 6;
/// Steps until the caps are steady.
const SETTLING: usize = 20;

/// Measures `steps` steps on `nodes` nodes.
///
/// # Errors
/// If the core refuses an event, or no cap is set.
pub fn measure(nodes: u32, steps: usize) -> Result<Vec<Figure>> {
    let parts =
        Overrides { admission: Some(AdmissionRule::Resources), caps: Some(CapRule::Ellsworth), ..Overrides::default() };
    let size = Size { nodes, waiting: 0, width: NonZeroU32::MIN, parts, depth: 512, has_owners: false };
    let mut loaded = Loaded::new(size)?;
    loaded.fill(nodes as usize * JOBS_PER_NODE)?;
    for _ in 0..SETTLING {
        loaded.step(GAP)?;
    }
    ensure!(loaded.capped() > 0, "no node has a cap");
    let (mut read, mut took, mut told) = (Vec::with_capacity(steps), Vec::with_capacity(steps), 0);
    for _ in 0..steps {
        let ([reading, step], caps) = loaded.step(GAP)?;
        read.push(reading.wall_ns);
        took.push(step.wall_ns);
        told += caps;
    }
    let (draw, limit) = loaded.draw();
    let share = 100.0 * told as f64 / (steps * loaded.capped()).max(1) as f64;
    let mut figures = vec![
        Figure::new("jobs running", loaded.running() as f64, ""),
        Figure::new("nodes with caps", loaded.capped() as f64, ""),
        Figure::new("draw of what is allowed", draw.watts() * 100.0 / limit.watts(), "%"),
        Figure::new("caps told in a step of a steady cluster", share, "%").within(Limit::AtMost(1.0)),
        Figure::new("plans refused by the checker", loaded.rejected() as f64, "").within(Limit::AtMost(0.0)),
    ];
    read.sort_unstable();
    let median_us = read.get(read.len() / 2).map_or(0.0, |ns| *ns as f64 / 1e3);
    figures.push(Figure::new("readings of all nodes before a step, wall, p50", median_us, "us"));
    let peer = "no other program has a figure";
    figures.extend(Times::new("a step, wall".to_owned(), took).figures(5_000.0, peer));
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cluster_has_caps_that_keep_the_limit() {
        let figures = measure(20, 3).expect("measured");
        let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        assert!(value("nodes with caps").is_some_and(|nodes| nodes > 10.0), "{figures:?}");
        assert!(value("draw of what is allowed").is_some_and(|share| share > 90.0 && share <= 100.0), "{figures:?}");
        assert_eq!(value("plans refused by the checker"), Some(0.0));
    }
}
