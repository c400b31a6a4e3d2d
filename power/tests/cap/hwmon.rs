//! Limits of sockets and cards through hwmon.

use limo_power::{Cap, HwmonCap};

use crate::replace_with_forgetful;
use crate::tree::{Tree, watts};

fn chip(tree: &Tree, number: u32, name: &str, cap_uw: u64) {
    tree.write(&format!("class/hwmon/hwmon{number}/name"), name);
    tree.write(&format!("class/hwmon/hwmon{number}/power1_cap"), &cap_uw.to_string());
}

fn cap_of(tree: &Tree, number: u32) -> String {
    tree.read(&format!("class/hwmon/hwmon{number}/power1_cap"))
}

/// Makes two cards at different places of the bus. The number of the second card's files comes after that of the first.
fn cards() -> Tree {
    let tree = Tree::new();
    for (number, device, cap_uw) in [(2, "0000:83:00.0", 250_000_000), (5, "0000:03:00.0", 300_000_000)] {
        chip(&tree, number, "amdgpu", cap_uw);
        tree.write(&format!("class/hwmon/hwmon{number}/power1_cap_min"), "40000000");
        tree.write(&format!("class/hwmon/hwmon{number}/power1_cap_max"), "330000000");
        tree.write(&format!("devices/{device}/vendor"), "0x1002");
        let link = tree.path().join(format!("class/hwmon/hwmon{number}/device"));
        std::os::unix::fs::symlink(tree.path().join("devices").join(device), link).expect("linked");
    }
    tree.write("class/hwmon/hwmon0/name", "k10temp");
    tree
}

#[test]
fn a_card_is_known_by_its_place() {
    let tree = cards();
    let mut cap = HwmonCap::new(tree.path(), "amdgpu", Some("0000:03:00.0"), None);
    assert_eq!(cap.range().expect("it can be capped"), (watts(40), watts(330)));
    let originals = cap.capture().expect("readable");
    assert_eq!(
        originals.into_iter().collect::<Vec<_>>(),
        [("amdgpu@0000:03:00.0/power1_cap_uw".into(), "300000000".into())]
    );
    cap.set(watts(75)).expect("set");
    assert_eq!([cap_of(&tree, 2), cap_of(&tree, 5)], ["250000000", "75000000"]);
    // A boot changed the numbers.
    std::fs::rename(tree.path().join("class/hwmon/hwmon5"), tree.path().join("class/hwmon/hwmon1")).expect("renamed");
    cap.restore("amdgpu@0000:03:00.0/power1_cap_uw", "300000000").expect("put back");
    assert_eq!(cap_of(&tree, 1), "300000000");
    let mut other = HwmonCap::new(tree.path(), "amdgpu", Some("0000:99:00.0"), None);
    let error = other.range().expect_err("no such card").to_string();
    assert!(error.contains("has no chip named `amdgpu@0000:99:00.0` with a power1_cap: `lslave --probe`"), "{error}");
    let error = cap.restore("amdgpu@0000:83:00.0/power1_cap_uw", "1").expect_err("not its card").to_string();
    assert!(error.contains("has no control `amdgpu@0000:83:00.0/power1_cap_uw`, which held `1`"), "{error}");
}

#[test]
fn sockets_share_a_cap_evenly() {
    let tree = Tree::new();
    for number in [0, 1] {
        chip(&tree, number, "amd_hsmp_hwmon", 280_000_000);
        tree.write(&format!("class/hwmon/hwmon{number}/power1_cap_max"), "280000000");
    }
    let mut cap = HwmonCap::new(tree.path(), "amd_hsmp_hwmon", None, None);
    assert_eq!(cap.range().expect("it can be capped"), (watts(20), watts(560)));
    cap.set(watts(301)).expect("set");
    assert_eq!([cap_of(&tree, 0), cap_of(&tree, 1)], ["150500000", "150500000"]);
    for (control, value) in [("amd_hsmp_hwmon@hwmon0/power1_cap_uw", "280000000"), ("x", "1")] {
        assert_eq!(cap.restore(control, value).is_ok(), control != "x");
    }
    assert_eq!([cap_of(&tree, 0), cap_of(&tree, 1)], ["280000000", "150500000"]);
}

#[test]
fn a_chip_that_ignores_caps_is_reported() {
    let tree = Tree::new();
    let error = |tree: &Tree, chip: &str| {
        HwmonCap::new(tree.path(), chip, None, None).range().expect_err("no range").to_string()
    };
    assert!(error(&tree, "amd_hsmp_hwmon").ends_with(
        "with a power1_cap: load the kernel module with `modprobe amd_hsmp`, and enable HSMP in the firmware's setup"
    ));
    chip(&tree, 0, "amdgpu", 35_000_000);
    assert!(error(&tree, "amdgpu").contains("power1_cap_max: No such file"));
    // Some cards accept only their default.
    tree.write("class/hwmon/hwmon0/power1_cap_min", "35000000");
    tree.write("class/hwmon/hwmon0/power1_cap_max", "35000000");
    assert!(
        error(&tree, "amdgpu").contains("hwmon0 cannot be capped: its lowest cap is 35.0 W and its highest 35.0 W")
    );
    tree.write("class/hwmon/hwmon0/power1_cap_min", "0");
    let mut cap = HwmonCap::new(tree.path(), "amdgpu", None, None);
    assert_eq!(cap.range().expect("a range"), (watts(1), watts(35)));
    let mut configured = HwmonCap::new(tree.path(), "amdgpu", None, Some((watts(20), watts(30))));
    assert_eq!(configured.range().expect("as configured"), (watts(20), watts(30)));
    replace_with_forgetful(&tree, "class/hwmon/hwmon0/power1_cap");
    let error = cap.set(watts(30)).expect_err("it does not stay").to_string();
    assert!(error.contains("power1_cap holds 0.0 W after 30.0 W was written"), "{error}");
}

#[test]
fn a_cap_that_cannot_be_written_is_reported() {
    let mut tree = Tree::new();
    chip(&tree, 0, "amdgpu", 100_000_000);
    tree.write("class/hwmon/hwmon0/power1_cap_max", "200000000");
    if tree.fix("class/hwmon/hwmon0/power1_cap") {
        let mut cap = HwmonCap::new(tree.path(), "amdgpu", None, None);
        for error in [cap.range().expect_err("no range"), cap.set(watts(50)).expect_err("not set")] {
            assert!(error.to_string().contains("power1_cap: Operation not permitted"), "{error}");
        }
    }
}
