//! Real meters: their values reach the master, and their failures have no other effect.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use limo_model::{Meter, Outcome, Power};
use limo_power::Chip;
use limo_proto::{Channel, NodeToMaster, Sample};

use crate::chip::{Emulated, cycles_at};
use crate::master::{Daemon, Master, Session, exec, shell, within};

/// Starts a daemon with a meter that is read every 20 ms, and with its log in `log`.
fn daemon(master: &Master, log: &Path, more: &[&str]) -> Daemon {
    let file = File::create(log).expect("a log");
    let often: &[&str] = if more.contains(&"--reading-interval") { &[] } else { &["--reading-interval", "20ms"] };
    let options = [&["--idle", "9 W", "--log", "debug"], often, more].concat();
    Daemon::start_changed(master, &options, |command| {
        command.stderr(file);
    })
}

async fn reading(node: &mut Session) -> Power {
    node.message(|message| match message {
        NodeToMaster::Reading(sample) => Some(sample.draw),
        _ => None,
    })
    .await
}

/// Waits until the log contains `text` this many times.
async fn logged(log: &Path, text: &str, times: usize) -> String {
    let look = async {
        let mut between = tokio::time::interval(Duration::from_millis(10));
        loop {
            let found = fs::read_to_string(log).expect("readable");
            if found.matches(text).count() >= times {
                return found;
            }
            between.tick().await;
        }
    };
    within(look).await
}

#[tokio::test]
async fn a_sensor_is_read_and_may_fail() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let chip = dir.path().join("class/hwmon/hwmon4");
    fs::create_dir_all(&chip).expect("made");
    fs::write(chip.join("name"), "power_meter\n").expect("written");
    let (sensor, aside) = (chip.join("power1_average"), chip.join("aside"));
    fs::write(&sensor, "41500000\n").expect("written");
    let log = dir.path().join("log");
    let sysfs = dir.path().to_str().expect("UTF-8");
    let _daemon = daemon(&master, &log, &["--meter", "hwmon:power_meter", "--sysfs", sysfs]);
    let (mut node, new) = master.welcome().await;
    assert_eq!((new.spec.meter, new.spec.idle), (Meter::Hwmon, Power::from_watts(9)));
    for _ in 0..5 {
        assert_eq!(reading(&mut node).await, Power::from_mw(41_500));
    }
    fs::rename(&sensor, &aside).expect("renamed");
    logged(&log, "the meter still fails", 5).await;
    fs::write(&aside, "77000000\n").expect("written");
    fs::rename(&aside, &sensor).expect("renamed");
    while reading(&mut node).await != Power::from_watts(77) {}
    let log = logged(&log, "the meter works again", 1).await;
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN") && line.contains("meter")).collect();
    assert_eq!(warnings.len(), 2, "one at its begin, one at its end:\n{log}");
    assert!(warnings[0].contains("has no power1_average and no power1_input"), "{}", warnings[0]);
}

/// Checks that the daemon collects all children, and still knows the status of a command.
#[tokio::test]
async fn a_command_is_read_beside_jobs() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let (log, watts) = (dir.path().join("log"), dir.path().join("watts"));
    fs::write(&watts, "41.5 W").expect("written");
    // The output of the command stays open for a moment after its end, so that the daemon has time to collect it.
    let command = format!("command:sleep 0.03 & cat {0} && ! grep -q broken {0}", watts.display());
    let _daemon = daemon(&master, &log, &["--meter", &command]);
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.spec.meter, Meter::Command);
    for id in 1..=20 {
        assert_eq!(reading(&mut node).await, Power::from_mw(41_500));
        // The command leaves a process behind.
        node.run(shell(id, "(setsid true &) ; exit 7")).await;
        assert_eq!(node.ended(id).await.0, Outcome::Exited(7));
    }
    let said = fs::read_to_string(&log).expect("readable");
    assert!(!said.contains("the meter"), "{said}");
    fs::write(&watts, "41.5 W broken").expect("written");
    logged(&log, "failed with exit status: 1; it printed `41.5 W broken`", 2).await;
}

async fn sample(node: &mut Session) -> Sample {
    node.message(|message| match message {
        NodeToMaster::Reading(sample) => Some(*sample),
        _ => None,
    })
    .await
}

/// A reading is the mean of several samples, and contains their number.
#[tokio::test]
async fn several_samples_are_one_reading() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let (log, toggle) = (dir.path().join("log"), dir.path().join("toggle"));
    // The meter shows 10 W and 30 W in turn.
    let script = "if [ -e TOGGLE ]; then rm TOGGLE; echo 10; else : > TOGGLE; echo 30; fi";
    let command = format!("command:{}", script.replace("TOGGLE", &toggle.display().to_string()));
    let options = ["--meter", &command, "--reading-interval", "400ms", "--meter-interval", "20ms"];
    let _daemon = daemon(&master, &log, &options);
    let (mut node, _) = master.welcome().await;
    // The first reading may have a single sample.
    sample(&mut node).await;
    let mut looks = 0;
    for _ in 0..3 {
        let Sample { draw, low, high, last, looks: more } = sample(&mut node).await;
        looks += more;
        assert!(low <= draw && draw <= high && low <= last && last <= high, "{low} {draw} {high} {last}");
        if more > 1 {
            assert_eq!((low, high), (Power::from_watts(10), Power::from_watts(30)));
            assert!(low < draw && draw < high, "{draw}");
        }
    }
    // Some of twenty samples succeed even on a slow machine.
    assert!(looks > 3, "{looks}");
}

#[tokio::test]
async fn a_wattmeter_on_a_serial_line_is_read_often() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let chip = Emulated::new(Chip::Two);
    let choice = format!("mcp39f511n:{}/1", chip.path.display());
    let _daemon = daemon(&master, &log, &["--meter", &choice]);
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.spec.meter, Meter::Mcp39f511);
    for _ in 0..50 {
        assert_eq!(reading(&mut node).await, Power::from_mw(41_500));
    }
    // A cycle of the mains takes 20 ms. Two cycles are the shortest time that the chip measures well.
    assert_eq!(chip.with(|state| state.registers[usize::from(cycles_at(Chip::Two))]), 1);
    chip.set_power(0, 700);
    while reading(&mut node).await != Power::from_watts(7) {}
    assert!(!fs::read_to_string(&log).expect("readable").contains("the meter fails"));
}

#[tokio::test]
async fn a_command_that_hangs_stops_nothing() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let begun = dir.path().join("begun");
    let command = format!("command:echo $$ >> {}; sleep 1000", begun.display());
    let mut daemon = daemon(&master, &log, &["--meter", &command]);
    let (mut node, _) = master.welcome().await;
    within(async {
        let mut between = tokio::time::interval(Duration::from_millis(10));
        while !begun.exists() {
            between.tick().await;
        }
    })
    .await;
    node.run(exec(1, &["echo", "beside it"])).await;
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "beside it\n");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
    let said = fs::read_to_string(&log).expect("readable");
    assert!(!said.contains("was killed"), "the job came first:\n{said}");
    logged(&log, "did not end within 5000 ms and was killed; it printed nothing", 1).await;
    // The command starts again, and ends with the daemon.
    logged(&begun, "\n", 2).await;
    drop(node);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    daemon.wait();
    for pid in fs::read_to_string(&begun).expect("readable").lines() {
        assert!(!crate::master::is_running(pid.parse().expect("a number")), "{pid}");
    }
}
