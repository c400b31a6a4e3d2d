//! Sensors of hwmon, in trees of files as the kernel shows them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::Power;
use limo_power::{Meter, MeterChoice, Reading, Site, sensors};
use tempfile::TempDir;

/// Directory, name, and files with their contents.
type Chip<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// A sysfs with chips.
fn tree(chips: &[Chip]) -> TempDir {
    let root = tempfile::tempdir().expect("a directory");
    for (dir, name, files) in chips {
        let dir = chip(root.path(), dir);
        fs::create_dir_all(&dir).expect("made");
        for (file, content) in [("name", *name)].iter().chain(*files) {
            fs::write(dir.join(file), format!("{content}\n")).expect("written");
        }
    }
    root
}

fn chip(root: &Path, dir: &str) -> PathBuf {
    root.join("class/hwmon").join(dir)
}

fn meter(root: &TempDir, choice: &str) -> Box<dyn Meter> {
    choice.parse::<MeterChoice>().expect("a choice").meter(&Site::new(root.path()))
}

/// The actual text may begin with the path of the tree.
fn check(meter: &mut Box<dyn Meter>, expected: Result<Power, &str>) {
    match (meter.read(Duration::ZERO), expected) {
        (Ok(reading), Ok(power)) => assert_eq!(reading, Reading::Draw(power)),
        (Err(error), Err(text)) => assert!(error.to_string().contains(text), "`{text}` in\n`{error}`"),
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

#[test]
fn a_chip_is_known_by_its_name() {
    let root = tree(&[
        ("hwmon0", "coretemp", &[("temp1_input", "45000")]),
        ("hwmon7", "power_meter", &[("power1_average", "123456500"), ("power1_input", "99000000")]),
        ("hwmon8", "amdgpu", &[("power1_input", "7000000"), ("power1_cap", "1"), ("power2_input", "8000000")]),
    ]);
    check(&mut meter(&root, "hwmon:power_meter"), Ok(Power::from_mw(123_457)));
    check(&mut meter(&root, "hwmon:power_meter/power1_input"), Ok(Power::from_watts(99)));
    check(&mut meter(&root, "hwmon:amdgpu"), Ok(Power::from_watts(7)));
    check(&mut meter(&root, "hwmon:amdgpu/power2"), Ok(Power::from_watts(8)));
    let found: Vec<String> = sensors(root.path()).expect("readable").iter().map(ToString::to_string).collect();
    assert_eq!(found, ["power_meter/power1", "amdgpu/power1", "amdgpu/power2"]);

    let mut gpu = meter(&root, "hwmon:amdgpu");
    check(&mut gpu, Ok(Power::from_watts(7)));
    fs::rename(chip(root.path(), "hwmon8"), chip(root.path(), "hwmon2")).expect("renamed");
    check(&mut gpu, Ok(Power::from_watts(7)));
}

#[test]
fn chips_of_one_name_are_added_and_must_all_stay() {
    let root = tree(&[
        ("hwmon1", "amd_hsmp_hwmon", &[("power1_input", "100000000")]),
        ("hwmon2", "amd_hsmp_hwmon", &[("power1_input", "90000000")]),
    ]);
    let mut sockets = meter(&root, "hwmon:amd_hsmp_hwmon");
    check(&mut sockets, Ok(Power::from_watts(190)));
    assert_eq!(sensors(root.path()).expect("readable").len(), 1);
    fs::remove_dir_all(chip(root.path(), "hwmon2")).expect("removed");
    check(&mut sockets, Err("class/hwmon has 1 chips named `amd_hsmp_hwmon`: it had 2"));
    check(&mut meter(&root, "hwmon:amd_hsmp_hwmon"), Ok(Power::from_watts(100)));
}

#[test]
fn missing_chips_are_named_with_the_known_ones() {
    let root =
        tree(&[("hwmon0", "coretemp", &[("temp1_input", "45000")]), ("hwmon1", "psu", &[("power2_input", "5")])]);
    check(&mut meter(&root, "hwmon:nct6775"), Err("class/hwmon has no chip named `nct6775`: it has coretemp, psu"));
    check(
        &mut meter(&root, "hwmon:psu"),
        Err("class/hwmon/hwmon1 of chip `psu` has no power1_average and no power1_input: it has power2_input"),
    );
    check(&mut meter(&root, "hwmon:coretemp"), Err("it has none"));
    let nothing = tempfile::tempdir().expect("a directory");
    check(&mut meter(&nothing, "hwmon:psu"), Err("class/hwmon has no chip named `psu`: it has none"));
    assert_eq!(sensors(nothing.path()).expect("readable"), []);
}

#[test]
fn invalid_draws_of_a_chip_are_refused() {
    let root = tree(&[("hwmon0", "psu", &[("power1_input", "0")])]);
    let file = chip(root.path(), "hwmon0").join("power1_input");
    let mut psu = meter(&root, "hwmon:psu");
    check(&mut psu, Err("class/hwmon shows 0.0 W: the draw of a running machine is above zero and at most 100.00 kW"));
    let mut with = |content: &str, expected: &str| {
        fs::write(&file, content).expect("written");
        check(&mut psu, Err(expected));
    };
    with("4294967295000000\n", "sensor psu/power1 in ");
    with("-5\n", "hwmon0/power1_input contains `-5` instead of a whole number");
    with("", "hwmon0/power1_input contains ``");
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("made");
    check(&mut psu, Err("class/hwmon/hwmon0/power1_input: Is a directory"));
    fs::remove_dir(&file).expect("removed");
    fs::write(&file, "45000000\n").expect("written");
    check(&mut psu, Ok(Power::from_watts(45)));
}
