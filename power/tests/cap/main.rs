//! Caps at their real interfaces: trees of files as the kernel shows them, a shared library, programs. Network devices
//! are in `network`.

mod choice;
mod cpufreq;
#[path = "../fake/mod.rs"]
mod fake;
mod hwmon;
mod ipmi;
mod keeper;
mod meters;
mod nvidia_smi;
mod nvml;
mod rapl;
mod script;
mod tree;

/// Replaces a file of the tree by a file of the kernel that keeps nine bits of the written value.
fn replace_with_forgetful(tree: &tree::Tree, path: &str) {
    let path = tree.path().join(path);
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("/proc/self/coredump_filter", path).expect("linked");
}
