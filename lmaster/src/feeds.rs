//! Queries feeds of prices and limits, and passes their reports to the controller. Decides nothing about jobs.

pub mod grid;
mod kept;
mod look;
mod prices;

pub use prices::run;
