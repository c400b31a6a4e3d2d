//! GPUs of NVIDIA through the fake library: pairs of clocks, and the limits that hold a GPU down.

use lprof::results;

use crate::fake::FakeGpus;
use crate::program::{Printed, run, text};

/// Options for the GPU with this unit, and a directory for results.
fn options(fake: &FakeGpus, unit: &str, out: &str) -> Vec<String> {
    let (library, state) = (fake.library(), fake.library().with_file_name("state"));
    let cores = limo_power::cores().to_string();
    let named = [
        ("--meter", "nvml"),
        ("--nvml", text(&library)),
        ("--unit", unit),
        ("--state-dir", text(&state)),
        ("--interval", "20ms"),
        ("--window", "0s"),
        ("--idle", "80ms"),
        ("--at-least", "0s"),
        ("--other-load", &cores),
        ("--app", "lud"),
        ("--out", out),
    ];
    named.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
}

/// Runs `lprof` with a command that takes 50 ms and lets the GPU draw 60 W instead of 20 W.
fn measure(fake: &FakeGpus, command: &str, unit: &str, own: &[&str]) -> (Printed, String) {
    measure_draw(fake, (command, unit), own, "60000")
}

/// The same with another draw in mW, in arithmetic of the shell in which `mhz` is the graphics clock.
fn measure_draw(fake: &FakeGpus, (command, unit): (&str, &str), own: &[&str], draw: &str) -> (Printed, String) {
    let out = fake.library().with_file_name("results").display().to_string();
    let options = options(fake, unit, &out);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let gpu = fake.library().with_file_name(if unit.starts_with("gpu1") { "gpu1" } else { "gpu0" });
    let set = |mw: &str| format!("echo $(({mw})) > {0}/p; mv {0}/p {0}/power_mw", gpu.display());
    let mhz = format!("read mhz memory < {}/applications_mhz", gpu.display());
    let line = format!("{mhz}; {}; sleep 0.05; {}", set(draw), set("20000"));
    (run(&[&[command], &options[..], own, &["--json", "--", "sh", "-c", &line]].concat()), out)
}

#[test]
fn pairs_of_clocks_are_measured_and_the_original_one_is_restored() {
    let Some(fake) = FakeGpus::new() else { return };
    fake.set(1, "power_mw", "20000");
    let unit = "gpu1=nvml-clocks:1,20W..75W";
    let (printed, out) =
        measure(&fake, "sweep", unit, &["--clocks", "139,810", "--memory-clocks", "405,810", "--seed", "1"]);
    // The draws of the fake do not depend on the clocks: the code says that none has an effect.
    assert_eq!(printed.code, Some(3), "{printed:#?}");
    let all = results::read(out.as_ref()).expect("results");
    let pairs: Vec<_> = all.values().map(|of| of.clocks.map(|pair| (pair.graphics_mhz, pair.memory_mhz))).collect();
    // 810 MHz do not exist at the lowest memory clock.
    assert_eq!(pairs, [None, Some((139, 405)), Some((139, 810)), Some((810, 810))], "{printed:#?}");
    let set = fake.read(1, "set_mhz");
    let mut set: Vec<&str> = set.lines().collect();
    assert_eq!(set.pop(), Some("1075 3504"), "the original pair is the last: {set:?}");
    for pair in ["139 405", "139 810", "810 810"] {
        assert!(set.contains(&pair), "{pair} in {set:?}");
    }
    assert_eq!(fake.read(1, "applications_mhz"), "1075 3504");
    assert!(!fake.library().with_file_name("state").join("caps.json").exists());
    let exported = run(&["export", "--force", &out]);
    assert!(exported.stderr.contains("is left out: profiles have caps, and no clocks"), "{exported:#?}");
    let html = run(&["report", &out]).stdout;
    assert!(html.contains("Figure 4.2 of limo-2018") && html.contains("memory 405 MHz"), "{html}");
}

#[test]
fn a_search_narrows_the_clocks_at_each_memory_clock() {
    let Some(fake) = FakeGpus::new() else { return };
    fake.set(1, "power_mw", "20000");
    fake.set(1, "graphics_mhz", "1720 1580 1450 1330 1220 1120 1075 990 910 835 766 703 645 592 543 498 457 300 139");
    let draw = "40000 + 100 * (mhz > 766 ? mhz - 766 : 766 - mhz)";
    let own = ["--search", "energy", "--clocks", "all", "--memory-clocks", "405,3504"];
    let (printed, out) = measure_draw(&fake, ("sweep", "gpu1=nvml-clocks:1,20W..75W"), &own, draw);
    // Golden sections of 139 to 1720 MHz: 363 and 658 MHz first. The draw is least at 766 MHz, so the lower end goes.
    let all = results::read(out.as_ref()).expect("results");
    let tried = |memory: u32| {
        let clocks = all.values().filter_map(|of| of.clocks).filter(move |pair| pair.memory_mhz == memory);
        clocks.map(|pair| pair.graphics_mhz).collect::<Vec<u32>>()
    };
    assert_eq!(tried(405), [139], "{printed:#?}");
    let high = tried(3504);
    let near = high.iter().filter(|mhz| (645..=910).contains(*mhz)).count();
    assert!(high.len() <= 6 && near >= 2 && high.iter().filter(|mhz| **mhz < 457).count() <= 1, "{high:?}");
    assert_eq!(fake.read(1, "applications_mhz"), "1075 3504");
    let both = run(&["sweep", "--meter", "nvml", "--grid", "30W", "--clocks", "all", "--", "true"]);
    assert_eq!(both.code, Some(125), "{both:#?}");
}

#[test]
fn the_driver_says_that_a_cap_bites_and_that_a_gpu_is_hot() {
    let Some(fake) = FakeGpus::new() else { return };
    fake.set(0, "power_mw", "20000");
    fake.unset(0, "energy_mj");
    fake.set(0, "limits", "4");
    let (printed, _) = measure(&fake, "measure", "gpu0=nvml:0", &["--cap", "300W"]);
    let answer: serde_json::Value = serde_json::from_str(&printed.stdout).expect("JSON");
    let measurement = &answer["measurements"][0];
    assert_eq!(measurement["power_limited"].as_f64(), Some(1.0), "{printed:#?}");
    let reasons = measurement["reasons"].to_string();
    assert!(!reasons.contains("has no effect") && !reasons.contains("too hot"), "{reasons}");
    assert_eq!(fake.read(0, "limit_mw"), "700000");
    // Heat in hardware, and no power cap.
    fake.set(0, "limits", "64");
    let (printed, _) = measure(&fake, "measure", "gpu0=nvml:0", &["--cap", "300W"]);
    let answer: serde_json::Value = serde_json::from_str(&printed.stdout).expect("JSON");
    let reasons = answer["measurements"][0]["reasons"].to_string();
    assert!(reasons.contains("throttled: the GPU was too hot in 100.0 % of the samples of the runs"), "{reasons}");
    assert!(reasons.contains("the cap of 300.0 W has no effect"), "{reasons}");
}
