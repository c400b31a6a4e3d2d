//! Prices, bands and budgets as CSV files: a header with the columns and their units, then rows in order of time.
//!
//! A time is a date (`2017-10-28T00:00:00Z`), seconds from the start of the workload (`3600`), or a span from it (`1d
//! 2h`). Cells are separated by commas, and blanks around them are ignored; lines that start with `#` are comments.
//! Gaps and overlaps are errors.

mod band;
mod budget;
mod error;
mod hourly;
mod price;
mod table;

pub use band::band;
pub use budget::{Period, budget};
pub use error::CurveFileError;
pub use hourly::hourly_price;
pub use price::price;
pub use table::{Clock, Table};
