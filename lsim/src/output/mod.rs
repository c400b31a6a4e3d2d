//! Output of `lsim run`: one folder with `jobs.csv`, `draw.csv`, `schedule.json` and `report.html`.
//!
//! Equal records give equal bytes on every machine, except for the last two keys of `schedule.json`, which describe the
//! simulating machine.

mod beside;
mod draw;
mod folder;
mod jobs;
mod json;
mod line;
mod metrics;
pub mod pool;
mod report;
mod schedule;
mod sheet;

pub use beside::{Records, beside};
pub use folder::Output;
pub use metrics::Metrics;
