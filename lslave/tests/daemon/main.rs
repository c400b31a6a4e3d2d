//! The real daemon with real processes, over real TCP, against a master played by the test.

mod asked;
mod caps;
#[path = "../../../power/tests/wattmeter/chip.rs"]
mod chip;
mod config;
mod deploy;
mod deposed;
mod emulated;
#[path = "../../../power/tests/fake/mod.rs"]
mod fake;
mod foreign;
mod hostile;
mod kill;
mod launch;
mod master;
mod meter;
mod probe;
mod protocol;
mod recovery;
mod streams;
mod suspend;
#[path = "../../../power/tests/cap/tree.rs"]
mod tree;
