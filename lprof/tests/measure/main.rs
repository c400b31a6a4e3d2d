//! The real program with real commands, on fake devices at their real interfaces.

mod caps;
#[path = "../../../power/tests/wattmeter/chip.rs"]
mod chip;
mod emulated;
#[allow(dead_code, reason = "each crate uses a part")]
#[path = "../../../power/tests/fake/mod.rs"]
mod fake;
mod gpus;
mod meters;
mod plant;
mod probe;
mod program;
#[path = "../../examples/limo-2018/machine/mod.rs"]
mod replay;
mod report;
mod table;
#[allow(dead_code, reason = "each crate uses a part")]
#[path = "../../../power/tests/cap/tree.rs"]
mod tree;
mod variants;
