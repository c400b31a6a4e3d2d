//! Exploring caps: which ones to measure, and which one is best. Pure.

pub mod golden;
pub mod grid;
pub mod objective;
