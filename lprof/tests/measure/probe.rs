//! What a meter and a cap are like.

use std::fs;

use crate::caps::CappedMachine;
use crate::plant::{Display, Plant};
use crate::program::{Printed, replace, run, text};

/// A meter that shows the mean over 300 ms, 200 ms ago, and changes all the time.
#[test]
fn window_and_lag_of_a_meter() {
    let dir = tempfile::tempdir().expect("a directory");
    let (watts, busy) = (dir.path().join("watts"), dir.path().join("busy"));
    let shown = watts.clone();
    let display: Display = Box::new(move |drawn| replace(&shown, &format!("{:.3}", drawn.mean_w(0.3, 0.2))));
    let law = Box::new(|_, is_busy: bool| (14.0, if is_busy { 60.0 } else { 14.0 }));
    let _plant = Plant::start(busy.clone(), law, display);
    let (meter, state) = (format!("command:cat {}", watts.display()), dir.path().join("state"));
    let line = format!(": > {0}; sleep 1.5; rm {0}", busy.display());
    let options = ["probe", "--json", "--meter", &meter, "--state-dir", text(&state), "--idle", "1s", "--interval"];
    let answer =
        run(&[&options[..], &["100ms", "--window", "300ms", "--lag", "200ms", "--", "sh", "-c", &line]].concat())
            .json(0);
    let near = |name: &str, expected: f64, within: f64| {
        let found = answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"));
        assert!((found - expected).abs() <= within, "{name} is {found}: {answer}");
    };
    near("window_s", 0.3, 0.06);
    near("lag_s", 0.2, 0.06);
    near("idle_w", 14.0, 0.1);
    near("load_w", 60.0, 0.1);
    assert_eq!(answer["counter"], false, "{answer}");
}

/// Probes a machine with a cap.
fn capped(machine: &CappedMachine) -> Printed {
    let options = machine.options("500ms");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let line = format!(": > {0}; sleep 0.5; rm {0}", machine.tree.path().join("busy").display());
    let printed = run(&[&["probe", "--json"], &options[..], &["--", "sh", "-c", &line]].concat());
    // The limits are as before.
    assert_eq!(machine.tree.limit_of("intel-rapl:0"), "95000000", "{printed:#?}");
    printed
}

#[test]
fn a_cap_bites_or_not() {
    let printed = capped(&CappedMachine::new(14.0, Box::new(|limit_uw| (15.0 + limit_uw as f64 / 1e6).min(60.0))));
    let answer = printed.json(0);
    // 15 W and the lowest cap of 8 W.
    let capped_w = answer["cap"]["capped_w"].as_f64().expect("a figure");
    assert!((capped_w - 23.0).abs() < 2.0, "{printed:#?}");
    assert_eq!((&answer["cap"]["bites"], &answer["counter"]), (&true.into(), &true.into()), "{printed:#?}");
    let printed = capped(&CappedMachine::new(14.0, Box::new(|_| 60.0)));
    assert_eq!(printed.json(3)["cap"]["bites"], false, "{printed:#?}");
}

#[test]
fn a_load_that_the_meter_does_not_show_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, watts) = (dir.path().join("state"), dir.path().join("watts"));
    fs::write(&watts, "14").expect("written");
    let meter = format!("command:cat {}", watts.display());
    let times = ["--interval", "50ms", "--window", "50ms", "--lag", "0s", "--idle", "400ms", "--load", "300ms"];
    let printed = run(&[&["probe", "--meter", &meter, "--state-dir", text(&state)], &times[..]].concat());
    assert_eq!(printed.code, Some(3), "{printed:#?}");
    assert!(printed.stderr.contains("the meter does not show the load"), "{printed:#?}");
}
