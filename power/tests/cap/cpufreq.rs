//! Limits of a processor's frequencies.

use limo_power::{Cap, CpufreqCap};

use crate::replace_with_forgetful;
use crate::tree::{Tree, watts};

/// Adds a policy with frequencies in kHz.
fn policy(tree: &Tree, number: u32, (low, high): (u32, u32)) {
    let file = |name: &str, khz: u32| {
        tree.write(&format!("devices/system/cpu/cpufreq/policy{number}/{name}"), &khz.to_string());
    };
    file("cpuinfo_min_freq", low);
    file("cpuinfo_max_freq", high);
    file("scaling_min_freq", low);
    file("scaling_max_freq", high);
}

fn limit_of(tree: &Tree, number: u32) -> String {
    tree.read(&format!("devices/system/cpu/cpufreq/policy{number}/scaling_max_freq"))
}

fn cap(tree: &Tree) -> CpufreqCap {
    CpufreqCap::new(tree.path(), (watts(20), watts(100)))
}

/// The processor has cores of two kinds: 45 W are 25/80 of the way from 20 W to 100 W.
#[test]
fn all_cores_get_the_same_fraction_of_their_range() {
    let tree = Tree::new();
    policy(&tree, 0, (800_000, 4_000_000));
    policy(&tree, 8, (600_000, 2_200_000));
    let mut cap = cap(&tree);
    assert_eq!(cap.range().expect("it can be capped"), (watts(20), watts(100)));
    let originals = cap.capture().expect("readable");
    let names: Vec<&str> = originals.keys().map(String::as_str).collect();
    assert_eq!(names, ["policy0/scaling_max_freq", "policy8/scaling_max_freq"]);
    for (limit, first, second) in [(45, "1800000", "1100000"), (20, "800000", "600000"), (100, "4000000", "2200000")] {
        cap.set(watts(limit)).expect("set");
        assert_eq!([limit_of(&tree, 0), limit_of(&tree, 8)], [first, second], "{limit} W");
    }
    cap.set(watts(30)).expect("set");
    originals.iter().for_each(|(control, value)| cap.restore(control, value).expect("put back"));
    assert_eq!([limit_of(&tree, 0), limit_of(&tree, 8)], ["4000000", "2200000"]);
    let gone = cap.restore("policy4/scaling_max_freq", "1").expect_err("no such policy").to_string();
    assert!(gone.contains("has no control `policy4/scaling_max_freq`, which held `1`"), "{gone}");
    let wrong = cap.restore("policy0/scaling_max_freq", "fast").expect_err("no number").to_string();
    assert!(wrong.contains("held `fast`"), "{wrong}");
}

#[test]
fn a_list_of_frequencies_is_rounded_down() {
    let tree = Tree::new();
    policy(&tree, 0, (1_400_000, 2_200_000));
    tree.write("devices/system/cpu/cpufreq/policy0/scaling_available_frequencies", "2200000 1700000 1400000 ");
    let mut cap = cap(&tree);
    // A line of 10 MHz for each watt: 50 W are 1,700 MHz.
    for (limit_w, expected) in [(20, "1400000"), (49, "1400000"), (50, "1700000"), (99, "1700000"), (100, "2200000")] {
        cap.set(watts(limit_w)).expect("set");
        assert_eq!(limit_of(&tree, 0), expected, "{limit_w} W");
    }
}

#[test]
fn frequencies_that_cannot_be_limited_are_reported() {
    let mut tree = Tree::new();
    let error = cap(&tree).range().expect_err("no policy").to_string();
    assert!(error.contains("devices/system/cpu/cpufreq has no policy: the kernel sets no frequencies"), "{error}");
    policy(&tree, 0, (800_000, 4_000_000));
    tree.write("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "fast");
    let error = cap(&tree).range().expect_err("no number").to_string();
    assert!(error.contains("policy0/cpuinfo_max_freq"), "{error}");
    tree.write("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "99999999999");
    let error = cap(&tree).range().expect_err("too high").to_string();
    assert!(error.ends_with("holds 99999999999 kHz, which is not the frequency of a processor"), "{error}");
    policy(&tree, 0, (800_000, 4_000_000));
    if tree.fix("devices/system/cpu/cpufreq/policy0/scaling_max_freq") {
        for error in [cap(&tree).range().expect_err("fixed"), cap(&tree).set(watts(50)).expect_err("fixed")] {
            assert!(error.to_string().contains("scaling_max_freq: Operation not permitted"), "{error}");
        }
        tree.unfix();
    }
    // The kernel's file keeps nine bits: no lowest frequency of the cores is as low.
    tree.write("devices/system/cpu/cpufreq/policy0/cpuinfo_min_freq", "1");
    tree.write("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "1025");
    replace_with_forgetful(&tree, "devices/system/cpu/cpufreq/policy0/scaling_max_freq");
    assert!(cap(&tree).set(watts(100)).is_ok(), "1025 was cut to a lower limit");
    let error = cap(&tree).restore("policy0/scaling_max_freq", "1025").expect_err("it does not stay").to_string();
    assert!(error.contains("kHz after 1025 was written: another program sets it, or scaling_min_freq"), "{error}");
}
