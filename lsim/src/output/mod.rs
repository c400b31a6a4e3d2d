//! What `lsim run` leaves behind: one folder with `jobs.csv`, `draw.csv`, `schedule.json` and `report.html`.
//!
//! Writes what [`crate::record`] hands over; simulates nothing and decides nothing. Equal records give equal bytes on
//! every machine, but for the last two keys of `schedule.json`, which say what the simulation cost its machine.

mod draw;
mod folder;
mod jobs;
mod json;
mod line;
mod metrics;
mod report;
mod schedule;
mod sheet;

pub use folder::Output;
pub use metrics::Metrics;
