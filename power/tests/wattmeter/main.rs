//! The wattmeter with the MCP39F511, over a real serial line whose other end plays the chip; and what batches of its
//! readings come to.

mod chip;
mod energy;
mod faults;
