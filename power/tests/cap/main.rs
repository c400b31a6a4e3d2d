//! Caps at their real interfaces: trees of files as the kernel shows them, a shared library, programs, servers.

mod choice;
#[path = "../fake/mod.rs"]
mod fake;
mod hwmon;
mod ipmi;
mod keeper;
mod meters;
mod nvidia_smi;
mod nvml;
mod rapl;
mod redfish;
mod script;
mod tree;
#[allow(dead_code, reason = "the tests of meters ask it more")]
#[path = "../network/web.rs"]
mod web;
