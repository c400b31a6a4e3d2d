//! Data from outside: prices and carbon intensities of electricity, and limits of the grid.
//!
//! A source makes requests and parses answers (`source`, `price`, `carbon`), `fetch` makes HTTP exchanges, `series`
//! keeps the values, `outlook` makes a curve of them, `poll` plans the next request. Nothing is stored here.

#![warn(missing_docs)]

pub mod carbon;
pub mod config;
pub mod csv;
pub mod error;
pub mod fetch;
pub mod file;
pub mod grid;
pub mod json;
pub mod moment;
pub mod outlook;
mod piece;
pub mod poll;
pub mod price;
pub mod series;
pub mod slot;
pub mod source;
pub mod template;
pub mod unit;
