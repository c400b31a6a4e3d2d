//! The real daemon against a master that is played by the test, over real TCP, with real processes.

#[path = "../../../power/tests/wattmeter/chip.rs"]
mod chip;
mod config;
mod emulated;
mod kill;
mod launch;
mod master;
mod meter;
mod probe;
mod protocol;
mod recovery;
mod streams;
mod suspend;
