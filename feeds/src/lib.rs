//! The world outside: what electricity costs, how clean it is, and what the grid allows.
//!
//! A source says what to ask for and reads the answer (`source`, `price`, `carbon`), `fetch` speaks HTTP, `series` keeps
//! what came, `outlook` makes the curve of it, `poll` says when to ask again. Decides nothing, and keeps nothing over a restart.

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
