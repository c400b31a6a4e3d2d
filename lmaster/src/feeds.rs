//! What the world outside tells the master: feeds are asked here, and the controller is told. Decides nothing about jobs.

pub mod grid;
mod kept;
mod look;
mod prices;

pub use prices::run;
