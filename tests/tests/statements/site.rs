//! The cluster of the run: three emulated nodes of four cores with a known draw, and files of prices and limits. Watts
//! are those of large machines, so that the cost of a short job exceeds its rounding.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use limo_tests::{Cluster, Dice, Setup};
use tempfile::TempDir;

pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// A machine with four cores that draw 500 W each under load; it draws 1 kW idle.
const MACHINE: &str = r#"
[[machine]]
name = "MACHINE"
cores = 4
memory = "1 GiB"
idle = "1 kW"
reading_noise = "0%"

[[machine.unit]]
name = "cpu"
hardware = "plain"
kind = "cpu"
nameplate = "2400 W"
caps = ["800 W", "2400 W"]
power_noise = "0%"
duration_noise = "0%"

[machine.unit.application.steady]
power = "2 kW"
duration = "1h"
"#;

/// Draw of such a machine with jobs on a number of its cores, in watts.
pub fn draw(cores: u32) -> f64 {
    1_000.0 + 500.0 * f64::from(cores)
}

/// Settings that record each reading in the journal.
const MASTER: &str = "readings_every = \"1ms\"\n";

/// Starts the cluster. Returns it with the directory of its files, which restarted daemons read again.
pub fn start() -> (Cluster, TempDir) {
    let files = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let mut setup = Setup::default().master(&["--node-lease", "8s", "--config", &file("lmaster.toml", MASTER)]);
    for name in NODES {
        setup = setup.node(name, &["--hardware", &file(name, &MACHINE.replace("MACHINE", name))]);
    }
    (setup.start(), files)
}

/// Writes prices from now on, which mostly end within a minute.
pub fn prices(dice: &mut Dice, file: &Path) {
    write(dice, file, "time,price_eur_per_mwh", |dice| format!("{}", dice.below(350) as i64 - 50), "");
}

/// Writes limits from now on: the idle draw is 3 kW, and all cores together draw 6 kW more.
pub fn limits(dice: &mut Dice, file: &Path) {
    let band = |dice: &mut Dice| {
        let low = 100 * dice.below(60);
        format!("{low} W,{} W", low + 2_000 + 100 * dice.below(40))
    };
    write(dice, file, "time,low,high", band, ",");
}

fn write(dice: &mut Dice, file: &Path, header: &str, value: impl Fn(&mut Dice) -> String, end: &str) {
    let mut text = format!("{header}\n");
    let mut at = Timestamp::now() - SignedDuration::from_secs(1);
    for _ in 0..=dice.below(6) {
        text += &format!("{at},{}\n", value(dice));
        at += SignedDuration::from_secs(1) + SignedDuration::from_millis(dice.below(10_000) as i64);
    }
    if dice.below(3) > 0 {
        text += &format!("{at},{end}\n");
    }
    fs::write(file, text).expect("written");
}
