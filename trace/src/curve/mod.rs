//! Prices, bands and budgets as CSV files: a header that names the columns and their units, then rows in order of time.
//!
//! A time is a date (`2017-10-28T00:00:00Z`), seconds from the start of the workload (`3600`), or a span from it
//! (`1d 2h`). Cells are separated by commas, blanks around them do not count; lines that start with `#` are comments.
//! Nothing here knows what a limit is for, and nothing is guessed: what has gaps or overlaps is refused.

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
