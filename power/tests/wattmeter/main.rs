//! The wattmeter with the MCP39F511, over a real serial line whose other end plays the chip; and what batches of its
//! readings come to.

mod chip;
mod energy;
mod faults;

use std::time::Duration;

use limo_power::{Mcp39f511, Wattmeter};

/// A meter of this chip.
fn meter_of(chip: &chip::Emulated, channel: Option<u8>, interval: Duration) -> Mcp39f511 {
    Mcp39f511::new(Wattmeter { chip: chip.chip, path: chip.path.clone(), channel }, interval)
}
