//! `--probe`: what an operator is told about a machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Ends with 0 and nothing on stderr; the lines on stdout, with `SYSFS` for the directory.
fn probe(sysfs: &Path, more: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lslave"));
    command.arg("--probe").arg("--sysfs").arg(sysfs).args(more).env_clear().env("PATH", "/usr/bin:/bin");
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let stdout = text(&output.stdout).replace(&sysfs.display().to_string(), "SYSFS");
    stdout.lines().map(str::to_owned).collect()
}

fn write(sysfs: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = sysfs.join(path);
        fs::create_dir_all(path.parent().expect("within sysfs")).expect("made");
        fs::write(path, content).expect("written");
    }
}

#[test]
fn a_machine_without_meters() {
    let sysfs = tempfile::tempdir().expect("a directory");
    let lines = probe(sysfs.path(), &["--config", "/no/such/file", "--meter", "command:echo no sensor; exit 1"]);
    assert!(lines[0].starts_with("processor   ") && lines[0].ends_with(" cores"), "{lines:?}");
    assert!(lines[1].starts_with("memory      ") && lines[1].ends_with("iB"), "{lines:?}");
    assert_eq!(
        lines[2],
        "powercap    no reading: SYSFS/class/powercap has no zone `intel-rapl:N` that counts energy: load the kernel \
         module with `modprobe intel_rapl_msr`; virtual machines and containers often have none"
    );
    assert_eq!(lines[3], "hwmon       no chip in SYSFS/class/hwmon shows watts");
    assert_eq!(
        lines[4],
        "command     `echo no sensor; exit 1`: no reading: the meter command `echo no sensor; exit 1` failed with exit \
         status: 1; it printed `no sensor`"
    );
    assert_eq!(lines.len(), 5);
}

#[test]
fn what_is_there_is_shown_with_its_draw_and_how_to_use_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let sysfs = dir.path();
    write(
        sysfs,
        &[
            ("class/powercap/intel-rapl:0/name", "package-0\n"),
            ("class/powercap/intel-rapl:0/energy_uj", "1\n"),
            ("class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("class/powercap/intel-rapl:0:0/energy_uj", "0\n"),
            ("class/hwmon/hwmon3/name", "power_meter\n"),
            ("class/hwmon/hwmon3/power1_average", "123400000\n"),
            ("class/hwmon/hwmon4/name", "psu\n"),
            ("class/hwmon/hwmon4/power2_input", "0\n"),
        ],
    );
    let still = probe(sysfs, &[]);
    assert!(
        still[2].starts_with("powercap    package-0 + package-0/dram: no reading: SYSFS/class/powercap/intel-rapl:0/")
            && still[2].contains("stands still"),
        "{still:?}"
    );
    assert_eq!(still[3], "hwmon       power_meter/power1: 123.4 W (use it: --meter hwmon:power_meter/power1)");
    assert!(still[4].starts_with("hwmon       psu/power2: no reading: "), "{still:?}");

    let (stop, stopped) = mpsc::channel::<()>();
    let (counter, aside) = (sysfs.join("class/powercap/intel-rapl:0/energy_uj"), sysfs.join("aside"));
    let counting = thread::spawn(move || {
        for energy_uj in (0_u64..).step_by(100_000) {
            fs::write(&aside, format!("{energy_uj}\n")).expect("written");
            fs::rename(&aside, &counter).expect("renamed");
            if stopped.recv_timeout(Duration::from_millis(5)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    let counted = probe(sysfs, &["--meter", "command:echo 7"]);
    drop(stop);
    counting.join().expect("no panic");
    assert!(
        counted[2].starts_with("powercap    package-0 + package-0/dram: ")
            && counted[2].ends_with(" W (use it: --meter powercap)"),
        "{counted:?}"
    );
    assert_eq!(counted[5], "command     `echo 7`: 7.0 W");
}
