//! RAPL limits through powercap.

use limo_power::{Cap, Rapl};

use crate::replace_with_forgetful;
use crate::tree::{Tree, watts};

fn two_packages() -> Tree {
    let tree = Tree::new();
    // This is the state after a reload of the module, with other entries besides packages.
    tree.write("class/powercap/intel-rapl/enabled", "1");
    tree.zone("intel-rapl:0", "package-1", 200_000_000);
    tree.zone("intel-rapl:0:0", "dram", 33_000_000);
    tree.zone("intel-rapl:1", "package-0", 180_000_000);
    tree.zone("intel-rapl:2", "psys", 400_000_000);
    tree
}

fn text<T: std::fmt::Debug>(result: Result<T, limo_power::CapError>) -> String {
    result.expect_err("a failure").to_string()
}

#[test]
fn packages_share_a_cap_evenly_and_other_zones_are_unchanged() {
    let tree = two_packages();
    tree.write("class/powercap/intel-rapl:1/enabled", "0");
    let mut cap = Rapl::new(tree.path(), None);
    assert_eq!(cap.range().expect("it can be capped"), (watts(20), watts(380)), "10 W each, up to what was there");
    assert_eq!(tree.enabled("intel-rapl:1"), "0", "nothing is changed by looking");
    let originals = cap.capture().expect("readable");
    assert_eq!(originals["intel-rapl/package-1/long_term_uw"], "200000000");
    assert_eq!(originals["intel-rapl/package-0/enabled"], "0");
    assert_eq!(originals.len(), 4);
    cap.set(watts(91)).expect("set");
    assert_eq!([tree.limit_of("intel-rapl:0"), tree.limit_of("intel-rapl:1")], ["45500000", "45500000"]);
    assert_eq!(tree.enabled("intel-rapl:1"), "1");
    assert_eq!([tree.limit_of("intel-rapl:0:0"), tree.limit_of("intel-rapl:2")], ["33000000", "400000000"]);
    assert_eq!(tree.read("class/powercap/intel-rapl:0/constraint_0_power_limit_uw"), "250000000", "short_term");
    // The numbers were swapped in the meantime.
    tree.write("class/powercap/intel-rapl:0/name", "package-0");
    tree.write("class/powercap/intel-rapl:1/name", "package-1");
    for (control, value) in &originals {
        cap.restore(control, value).expect("put back");
    }
    assert_eq!([tree.limit_of("intel-rapl:0"), tree.limit_of("intel-rapl:1")], ["180000000", "200000000"]);
    assert_eq!([tree.enabled("intel-rapl:0"), tree.enabled("intel-rapl:1")], ["0", "1"]);
}

#[test]
fn both_ways_to_a_package_are_written() {
    let tree = Tree::new();
    tree.zone("intel-rapl:0", "package-0", 200_000_000);
    tree.zone("intel-rapl-mmio:0", "package-0", 28_000_000);
    let mut cap = Rapl::new(tree.path(), None);
    assert_eq!(cap.range().expect("it can be capped"), (watts(10), watts(28)), "the lower of both holds");
    assert_eq!(cap.capture().expect("readable").len(), 4);
    cap.set(watts(15)).expect("set");
    assert_eq!([tree.limit_of("intel-rapl:0"), tree.limit_of("intel-rapl-mmio:0")], ["15000000", "15000000"]);
    // The new text is shorter than the original.
    cap.set(watts(9)).expect("set");
    assert_eq!([tree.limit_of("intel-rapl:0"), tree.limit_of("intel-rapl-mmio:0")], ["9000000", "9000000"]);
}

#[test]
fn ranges() {
    let tree = Tree::new();
    let mut cap = Rapl::new(tree.path(), None);
    let place = tree.path().join("class/powercap").display().to_string();
    assert!(text(cap.range()).starts_with(&format!("{place} has no zone `package-N` with a long_term limit: load")));
    // As on AMD, the zones have energy but no constraints.
    tree.write("class/powercap/intel-rapl:0/name", "package-0");
    assert!(text(cap.range()).starts_with(&format!("{place} has no zone")));
    tree.zone("intel-rapl:0", "package-0", 8_000_000);
    assert!(text(cap.range()).contains(" cannot be capped: its lowest cap is 10.0 W and its highest 8.0 W"));
    let mut configured = Rapl::new(tree.path(), Some((watts(8), watts(60))));
    assert_eq!(configured.range().expect("as configured"), (watts(8), watts(60)));
    tree.write(&Tree::limit("intel-rapl:0"), "lots");
    assert!(text(configured.range()).ends_with("contains `lots` instead of a whole number"));
}

#[test]
fn a_locked_limit_is_reported_and_the_others_are_set() {
    let mut tree = two_packages();
    if !tree.fix(&Tree::limit("intel-rapl:0")) {
        return;
    }
    let mut cap = Rapl::new(tree.path(), None);
    let locked = text(cap.range());
    assert!(
        locked.starts_with("cannot write `200000000` to ")
            && locked.ends_with(
                "run lslave as root; if it is, the firmware has locked the limit: look for the lock in its setup"
            ),
        "{locked}"
    );
    assert!(text(cap.set(watts(90))).starts_with("cannot write `45000000` to "));
    assert_eq!([tree.limit_of("intel-rapl:0"), tree.limit_of("intel-rapl:1")], ["200000000", "45000000"]);
    tree.unfix();
    cap.set(watts(80)).expect("it can be asked again");
    if !tree.fix("class/powercap/intel-rapl:1/enabled") {
        return;
    }
    assert!(text(cap.set(watts(90))).starts_with("cannot write `1` to "));
}

#[test]
fn a_read_only_tree_is_reported() {
    let mut tree = two_packages();
    if !tree.mount_read_only() {
        return;
    }
    let error = text(Rapl::new(tree.path(), None).range());
    assert!(
        error.contains("Read-only file system") && error.ends_with("run lslave where /sys can be written"),
        "{error}"
    );
}

#[test]
fn a_value_that_does_not_stay_is_a_failure() {
    let tree = two_packages();
    replace_with_forgetful(&tree, &Tree::limit("intel-rapl:0"));
    let error = text(Rapl::new(tree.path(), None).set(watts(90)));
    assert!(error.contains(" holds 0.0 W after 45.0 W was written: the firmware has locked it"), "{error}");
    assert_eq!(tree.limit_of("intel-rapl:1"), "45000000", "the other is set");
    let tree = two_packages();
    replace_with_forgetful(&tree, "class/powercap/intel-rapl:0/enabled");
    let error = text(Rapl::new(tree.path(), None).set(watts(90)));
    assert!(error.contains(" reads `00000001` after `1` was written: the firmware has locked this limit"), "{error}");
}

#[test]
fn a_missing_control_cannot_be_restored() {
    let tree = two_packages();
    let mut cap = Rapl::new(tree.path(), None);
    let gone = text(cap.restore("intel-rapl/package-7/long_term_uw", "5"));
    assert!(gone.contains("has no control `intel-rapl/package-7/long_term_uw`, which held `5`"), "{gone}");
    let wrong = text(cap.restore("intel-rapl/package-0/long_term_uw", "much"));
    assert_eq!(wrong, "intel-rapl/package-0/long_term_uw held `much`, which is not a valid value: set it by hand");
}
