//! End to end: the real programs on loopback, real jobs, real signals.

mod listing;
mod run;
mod signals;
mod surroundings;
mod users;
