//! End to end: the real programs on loopback, real jobs, real signals.

mod digest;
mod ledger;
mod listing;
mod master_crash;
mod run;
mod signals;
mod surroundings;
mod torrent;
mod users;
