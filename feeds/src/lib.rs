//! The world outside: what electricity costs, how clean it is, and what the grid allows.

pub mod fetch;
pub mod grid;
