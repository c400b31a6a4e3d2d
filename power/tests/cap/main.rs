//! Caps at their real interfaces: trees of files as the kernel shows them, a shared library, programs, servers.

mod choice;
#[path = "../fake/mod.rs"]
mod fake;
mod hwmon;
mod keeper;
mod nvml;
mod rapl;
mod tree;
