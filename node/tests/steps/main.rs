//! Steps of a node: inputs, and the effects that follow.

mod bench;
mod durable;
mod nested;
mod owners;
mod reboots;
