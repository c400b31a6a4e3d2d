//! Variants of a command for several units of an emulated machine.

use std::fs;

use crate::program::{run, text};

/// The GPU takes 100 ms and 30 W at its only cap of 20 W or above, the CPU 200 ms and 45 W.
const MACHINE: &str = r#"
    [[machine]]
    name = "xeon2"
    cores = 8
    memory = "16 GiB"
    idle = "14 W"
    [[machine.unit]]
    name = "cpu"
    hardware = "xeon"
    kind = "cpu"
    nameplate = "60 W"
    caps = ["8 W", "60 W"]
    cap_factor = 0.75
    [machine.unit.application.ft]
    power = "45 W"
    duration = "200ms"
    [[machine.unit]]
    name = "gpu0"
    hardware = "quadro"
    kind = "accelerator"
    nameplate = "70 W"
    caps = ["20 W", "70 W"]
    cap_factor = 0.75
    [machine.unit.application.ft]
    power = "30 W"
    duration = "100ms"
"#;

const WORK: &str = "cat /proc/self/fd/$LIMO_EMULATED_WORK_FD";

#[test]
fn each_variant_is_measured_at_its_caps_and_exported_for_its_hardware() {
    let dir = tempfile::tempdir().expect("a directory");
    let (hardware, out) = (dir.path().join("machine.toml"), dir.path().join("results"));
    fs::write(&hardware, MACHINE).expect("written");
    let options = ["--hardware", text(&hardware), "--idle", "100ms", "--interval", "20ms", "--at-least", "0s"];
    let sweep = |more: &[&str]| {
        let own = ["--app", "ft", "--size", "A", "--seed", "1", "--out", text(&out), "--json"];
        run(&[&["sweep"], &options[..], &own, more, &["--", "sh", "-c", WORK]].concat())
    };
    let variant = format!("quadro=sh -c '{WORK}'");
    // The GPU cannot be capped at 12 W, so it is measured at 25 W only.
    let printed = sweep(&["--grid", "12W,25W", "--variant", &variant]);
    let answer = printed.json(0);
    let measurements = answer["measurements"].as_array().expect("a list");
    let found: Vec<(&str, Option<f64>)> =
        measurements.iter().map(|one| (one["hardware"].as_str().expect("a name"), one["cap_w"].as_f64())).collect();
    let expected =
        [("xeon", Some(12.0)), ("xeon", Some(25.0)), ("xeon", None), ("quadro", Some(25.0)), ("quadro", None)];
    assert_eq!(found, expected, "{printed:#?}");
    // (14 W + 25 W) * 100 ms: its factor of 0.75 of 30 W is below the cap. Without a cap it is 4.4 J.
    let best = &answer["best"];
    assert_eq!((best["hardware"].as_str(), best["cap_w"].as_f64()), (Some("quadro"), Some(25.0)), "{printed:#?}");
    let exported = run(&["export", text(&out)]);
    let profiles = limo_profiles::text::read(exported.stdout.as_bytes()).expect("profiles");
    let mut keys: Vec<(String, String, Option<i64>)> = profiles
        .iter()
        .map(|(key, _)| (key.hardware.clone(), key.size.clone(), key.cap.map(|cap| cap.mw() / 1000)))
        .collect();
    keys.sort();
    let key = |hardware: &str, cap| (hardware.to_owned(), "A".to_owned(), cap);
    let expected =
        [key("quadro", None), key("quadro", Some(25)), key("xeon", None), key("xeon", Some(12)), key("xeon", Some(25))];
    assert_eq!(keys, expected, "{exported:#?}");

    let refused = |more: &[&str], expected: &str| {
        let printed = sweep(more);
        assert_ne!(printed.code, Some(0), "{printed:#?}");
        assert!(printed.stderr.contains(expected), "{printed:#?}");
    };
    refused(&["--grid", "12W", "--variant", "hd=true"], "no unit is `hd`: known are xeon (cpu), quadro (gpu0)");
    refused(
        &["--grid", "12W", "--variant", &variant],
        "the cap 12.0 W is not possible: the unit can be capped at 20.0 W",
    );
    refused(&["--grid", "25W", "--variant", "cpu=true"], "two commands are for xeon");
    refused(&["--grid", "25W", "--variant", "cpu"], "the variant `cpu` has no command");
    refused(&["--clocks", "810"], "emulated hardware has no clocks: sweep its caps by --grid or --search");
}
