//! Solvers of scheduling problems, apart from the state of a cluster.

pub mod assignment;
pub mod plan;
