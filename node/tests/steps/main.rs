//! Steps of a node: inputs, and the effects that follow.

mod bench;
mod durable;
mod owners;
mod reboots;
