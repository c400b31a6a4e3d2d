//! Workloads of limo-2018, section 3.2.3: their file format, and the recipe of the twenty that section 4.3 runs.

pub mod format;
pub mod matrix;
pub mod recipe;
pub mod summary;
