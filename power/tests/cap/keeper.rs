//! The keeper saves the original values first and restores them after any event.

use std::fs;
use std::path::{Path, PathBuf};

use limo_power::{CapFailure, Keeper, KeeperError, Site};

use crate::fake::FakeGpus;
use crate::tree::{Tree, watts};

fn site(tree: &Tree, fake: Option<&FakeGpus>) -> Site {
    let mut site = Site::new(tree.path());
    site.nvml = fake.map_or_else(|| PathBuf::from("/no/such/library"), FakeGpus::library);
    site
}

fn open(file: &Path, site: &Site, units: &[(&str, &str)]) -> (Keeper, Vec<String>) {
    let units = units.iter().map(|(unit, cap)| ((*unit).to_owned(), cap.parse().expect("a cap"))).collect();
    let (keeper, failures) = Keeper::open(file, site, units).expect("a keeper");
    (keeper, texts(failures))
}

fn texts(failures: Vec<CapFailure>) -> Vec<String> {
    failures.iter().map(ToString::to_string).collect()
}

fn one_package() -> Tree {
    let tree = Tree::new();
    tree.zone("intel-rapl:0", "package-0", 95_000_000);
    tree.write("class/powercap/intel-rapl:0/enabled", "0");
    tree
}

fn state(tree: &Tree) -> (String, String) {
    (tree.limit_of("intel-rapl:0"), tree.enabled("intel-rapl:0"))
}

fn before() -> (String, String) {
    ("95000000".into(), "0".into())
}

#[test]
fn original_values_are_saved_and_restored() {
    let (tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("caps.json");
    let (mut keeper, failures) = open(&file, &site(&tree, None), &[("cpu", "rapl")]);
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!((keeper.range("cpu"), keeper.range("gpu0")), (Some((watts(10), watts(95))), None));
    keeper.set("cpu", None).expect("nothing to lift");
    assert!(!file.exists(), "nothing was set");
    for _ in 0..2 {
        keeper.set("cpu", Some(watts(40))).expect("set");
        assert_eq!(state(&tree), ("40000000".into(), "1".into()));
    }
    let saved = fs::read_to_string(&file).expect("saved");
    assert!(saved.contains("\"intel-rapl/package-0/long_term_uw\": \"95000000\""), "{saved}");
    keeper.set("cpu", Some(watts(200))).expect("above the highest, which holds as well");
    assert_eq!(tree.limit_of("intel-rapl:0"), "95000000");
    let low = keeper.set("cpu", Some(watts(4))).expect_err("too low").to_string();
    assert_eq!(low, "4.0 W is below the lowest cap of unit `cpu`: it holds 10.0 W");
    assert_eq!(tree.limit_of("intel-rapl:0"), "10000000", "as low as it may be");
    keeper.set("cpu", None).expect("lifted");
    assert_eq!((state(&tree), file.exists()), (before(), false));
    // An operator's new limit is the original of the next cap.
    tree.write(&Tree::limit("intel-rapl:0"), "70000000");
    keeper.set("cpu", Some(watts(30))).expect("set");
    assert!(texts(keeper.restore()).is_empty());
    assert_eq!(tree.limit_of("intel-rapl:0"), "70000000");
    assert_eq!(keeper.set("gpu0", None).map_err(|error| error.to_string()), Ok(()));
    let none = keeper.set("gpu0", Some(watts(9))).expect_err("not configured").to_string();
    assert!(none.starts_with("unit `gpu0` has no cap: start lslave with `--cap gpu0=CHOICE`"), "{none}");
    keeper.set("cpu", Some(watts(30))).expect("set");
    assert!(texts(keeper.close()).is_empty() && !file.exists());
    let closed = keeper.set("cpu", Some(watts(30))).expect_err("closed").to_string();
    assert_eq!(
        (closed.as_str(), tree.limit_of("intel-rapl:0")),
        ("the node is ending: caps are no longer set", "70000000".into())
    );
}

/// Simulates a kill by dropping a keeper: no value is restored.
#[test]
fn the_next_keeper_restores_the_values_after_a_kill() {
    let (tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("caps.json");
    let places = site(&tree, None);
    let (mut keeper, _) = open(&file, &places, &[("cpu", "rapl")]);
    keeper.set("cpu", Some(watts(40))).expect("set");
    drop(keeper);
    assert_eq!(state(&tree), ("40000000".into(), "1".into()));
    // The keeper that restores has other caps, or none.
    let (_, failures) = open(&file, &places, &[]);
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!((state(&tree), file.exists()), (before(), false));
}

#[test]
fn the_same_caps_go_on_after_a_kill_and_others_are_restored() {
    let (tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let (file, places) = (dir.path().join("caps.json"), site(&tree, None));
    let resume = |cap: &str| {
        let units = vec![("cpu".to_owned(), cap.parse().expect("a cap"))];
        let (keeper, failures) = Keeper::resume(&file, &places, units).expect("a keeper");
        assert!(failures.is_empty(), "{failures:?}");
        keeper
    };
    let mut keeper = resume("rapl");
    let range = keeper.range("cpu");
    assert!(!keeper.is_capping());
    keeper.set("cpu", Some(watts(40))).expect("set");
    drop(keeper);
    let mut keeper = resume("rapl");
    assert_eq!((tree.limit_of("intel-rapl:0"), keeper.range("cpu")), ("40000000".into(), range));
    assert!(keeper.is_capping());
    keeper.set("cpu", Some(watts(50))).expect("set");
    assert!(texts(keeper.restore()).is_empty());
    assert_eq!((state(&tree), file.exists(), keeper.is_capping()), (before(), false, false));
    keeper.set("cpu", Some(watts(30))).expect("set");
    drop(keeper);
    // A file of an earlier version has no ranges.
    let mut saved: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("saved")).expect("JSON");
    saved["schema"] = 1.into();
    saved["units"][0].as_object_mut().expect("a unit").remove("range").expect("a range");
    fs::write(&file, saved.to_string()).expect("written");
    assert_eq!(resume("rapl").range("cpu"), range);
    assert_eq!((state(&tree), file.exists()), (before(), false));
}

#[test]
fn unrestored_values_are_kept_and_never_replaced() {
    let (mut tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("caps.json");
    let places = site(&tree, None);
    let (mut keeper, _) = open(&file, &places, &[("cpu", "rapl")]);
    keeper.set("cpu", Some(watts(40))).expect("set");
    if !tree.fix(&Tree::limit("intel-rapl:0")) {
        return;
    }
    let failed = texts(keeper.restore());
    assert!(failed.len() == 1 && failed[0].starts_with("unit `cpu`: cannot write `95000000` to "), "{failed:?}");
    assert_eq!(state(&tree), ("40000000".into(), "0".into()), "the other control is put back");
    let saved = fs::read_to_string(&file).expect("kept");
    assert!(saved.contains("long_term_uw") && !saved.contains("enabled"), "{saved}");
    drop(keeper);
    // The control is still locked for the next daemon, which cannot cap.
    let (mut keeper, failures) = open(&file, &places, &[("cpu", "rapl")]);
    assert_eq!((failures.len(), keeper.range("cpu")), (2, None), "{failures:?}");
    tree.unfix();
    keeper.set("cpu", Some(watts(20))).expect("it works again");
    let saved = fs::read_to_string(&file).expect("saved");
    assert!(saved.contains("95000000") && !saved.contains("40000000"), "{saved}");
    for limit in [60, 30] {
        keeper.set("cpu", Some(watts(limit))).expect("no cap is its highest limit");
        assert_eq!(tree.limit_of("intel-rapl:0"), format!("{limit}000000"));
    }
    keeper.set("cpu", None).expect("lifted");
    assert_eq!((state(&tree), file.exists()), (before(), false));
}

#[test]
fn one_unit_that_fails_keeps_no_other_back() {
    let Some(fake) = FakeGpus::new() else { return };
    let (tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("caps.json");
    let places = site(&tree, Some(&fake));
    let units = [("gpu0", "nvml:0"), ("cpu", "rapl"), ("gpu1", "nvml:1"), ("twin", "rapl")];
    let (mut keeper, failures) = open(&file, &places, &units);
    assert_eq!((keeper.range("gpu0"), keeper.range("gpu1")), (Some((watts(200), watts(700))), None));
    assert!(failures[0].starts_with("unit `gpu1`: cannot read the power limit"), "{failures:?}");
    assert_eq!(
        failures[1],
        "unit `twin`: unit `twin` and unit `cpu` have the same control `intel-rapl/package-0/enabled`: a cap needs its own unit"
    );
    keeper.set("gpu0", Some(watts(300))).expect("set");
    keeper.set("cpu", Some(watts(30))).expect("set");
    let taken = keeper.set("twin", Some(watts(60))).expect_err("it is the control of another").to_string();
    assert!(failures[1].ends_with(&taken), "{taken}");
    assert_eq!(tree.limit_of("intel-rapl:0"), "30000000");
    fake.set(0, "error", "15");
    let failed = texts(keeper.restore());
    assert!(failed.len() == 1 && failed[0].starts_with("unit `gpu0`: cannot limit the power of GPU"), "{failed:?}");
    assert_eq!(state(&tree), before());
    fake.unset(0, "error");
    assert!(texts(keeper.restore()).is_empty(), "tried again");
    assert_eq!((fake.read(0, "limit_mw"), file.exists()), ("700000".into(), false));
}

#[test]
fn nothing_is_capped_that_could_not_be_saved() {
    let (tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("caps.json");
    let (mut keeper, _) = open(&file, &site(&tree, None), &[("cpu", "rapl")]);
    // Blocks the temporary file of the atomic write.
    fs::create_dir(dir.path().join("caps.json.tmp")).expect("made");
    let error = keeper.set("cpu", Some(watts(40))).expect_err("not saved").to_string();
    assert!(error.starts_with("cannot save the value before the cap in ") && error.ends_with("; nothing is capped"));
    assert_eq!((state(&tree), file.exists()), (before(), false));
    fs::remove_dir(dir.path().join("caps.json.tmp")).expect("removed");
    keeper.set("cpu", Some(watts(40))).expect("set");
    assert!(file.exists());
}

#[test]
fn an_unreadable_file_of_originals_stops_all_caps() {
    let (tree, dir) = (one_package(), tempfile::tempdir().expect("a directory"));
    let file = dir.path().join("caps.json");
    let check = |content: &str, expected: &str| {
        fs::write(&file, content).expect("written");
        let error = match Keeper::open(&file, &site(&tree, None), Vec::new()) {
            Err(error @ KeeperError::Form { .. }) => error.to_string(),
            other => panic!("{:?}", other.map(|_| "a keeper")),
        };
        assert!(error.contains(expected) && error.ends_with("set the limits by hand and remove the file"), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("readable"), content, "it stays as it was");
    };
    check("", "EOF while parsing");
    check("{\"schema\": 3, \"units\": []}", "it has the schema 3, but this version knows only 1 to 2");
    check("{\"schema\": 1}", "missing field `units`");
    let unit = "{\"unit\": \"cpu\", \"cap\": \"magic\", \"originals\": {\"a\": \"1\"}}";
    check(&format!("{{\"schema\": 1, \"units\": [{unit}]}}"), "there is no cap `magic`");
}
