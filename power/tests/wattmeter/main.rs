//! The wattmeter with the MCP39F511, over a real serial line with an emulated chip, and batches of its readings.

mod chip;
mod energy;
mod faults;

use std::time::Duration;

use limo_power::{Mcp39f511, Wattmeter};

/// Makes a meter for this chip.
fn meter_of(chip: &chip::Emulated, channel: Option<u8>, interval: Duration) -> Mcp39f511 {
    Mcp39f511::new(Wattmeter { chip: chip.chip, path: chip.path.clone(), channel }, interval)
}
