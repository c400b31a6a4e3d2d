//! The real program with real commands, on fake devices at their real interfaces.

mod caps;
#[path = "../../../power/tests/wattmeter/chip.rs"]
mod chip;
mod emulated;
mod meters;
mod plant;
mod program;
mod table;
#[allow(dead_code, reason = "each crate uses a part")]
#[path = "../../../power/tests/cap/tree.rs"]
mod tree;
