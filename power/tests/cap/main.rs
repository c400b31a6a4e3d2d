//! Caps at their real interfaces: trees of files as the kernel shows them, a shared library, programs. Those on
//! the network are in `network`.

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
mod script;
mod tree;

/// In place of a file of the tree, one of the kernel's own, which keeps nine bits of what is written to it.
fn replace_with_forgetful(tree: &tree::Tree, path: &str) {
    let path = tree.path().join(path);
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("/proc/self/coredump_filter", path).expect("linked");
}
