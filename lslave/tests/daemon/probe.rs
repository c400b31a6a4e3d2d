//! `--probe`: what an operator is told about a machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::fake::FakeGpus;

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
    let lines = probe(
        sysfs.path(),
        &["--config", "/no/such/file", "--meter", "command:echo no sensor; exit 1", "--nvml", "/no/such/library"],
    );
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
    // On an AMD processor there is one more, about its own way.
    let lines: Vec<String> = lines.into_iter().skip(5).filter(|line| !line.starts_with("cap         hsmp:")).collect();
    assert_eq!(
        lines[0],
        "cap         rapl: no cap: SYSFS/class/powercap has no zone `package-N` with a long_term limit: load the kernel \
         module with `modprobe intel_rapl_msr`; AMD processors are capped by `hsmp`; virtual machines and containers \
         often have neither"
    );
    assert!(
        lines[1].starts_with("gpus        none of NVIDIA: cannot use the NVIDIA library /no/such/library: ")
            && lines[1].ends_with("say where its library is with `--nvml FILE`"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);
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

#[test]
fn caps_are_shown_with_their_range_what_they_hold_and_how_to_use_them() {
    let Some(fake) = FakeGpus::new() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let sysfs = dir.path();
    write(
        sysfs,
        &[
            ("class/powercap/intel-rapl:0/name", "package-0\n"),
            ("class/powercap/intel-rapl:0/energy_uj", "1\n"),
            ("class/powercap/intel-rapl:0/enabled", "0\n"),
            ("class/powercap/intel-rapl:0/constraint_0_name", "long_term\n"),
            ("class/powercap/intel-rapl:0/constraint_0_power_limit_uw", "95000000\n"),
            ("class/hwmon/hwmon1/name", "amd_hsmp_hwmon\n"),
            ("class/hwmon/hwmon1/power1_cap", "280000000\n"),
            ("class/hwmon/hwmon1/power1_cap_max", "320000000\n"),
            ("class/hwmon/hwmon3/name", "amdgpu\n"),
            ("class/hwmon/hwmon3/power1_cap", "35000000\n"),
            ("class/hwmon/hwmon3/power1_cap_min", "35000000\n"),
            ("class/hwmon/hwmon3/power1_cap_max", "35000000\n"),
        ],
    );
    let library = fake.library();
    let lines = probe(sysfs, &["--nvml", library.to_str().expect("UTF-8")]);
    let at = lines.iter().position(|line| line.starts_with("cap ")).expect("caps");
    assert_eq!(
        lines[at..],
        [
            "cap         rapl: 10.0 W to 95.0 W; now intel-rapl/package-0/enabled = 0, \
             intel-rapl/package-0/long_term_uw = 95000000 (use it: --cap cpu=rapl)",
            "cap         hsmp: 10.0 W to 320.0 W; now amd_hsmp_hwmon@hwmon1/power1_cap_uw = 280000000 (use it: --cap \
             cpu=hsmp)",
            "cap         hwmon:amdgpu@hwmon3: no cap: SYSFS/class/hwmon/hwmon3 obeys no cap: the lowest is 35.0 W and \
             the highest 35.0 W; a range can be set, for example `,20W..90W`",
            "gpu0        nvidia-h200, GPU-11111111-2222-3333-4444-555555555555: draw 120.5 W, limit 700.0 W",
            "cap         nvml:0: 200.0 W to 700.0 W; now GPU-11111111-2222-3333-4444-555555555555/power_limit_mw = \
             700000 (use it: --cap gpu0=nvml:0)",
            "gpu0        persistence mode is off: a cap ends with the last program that uses the GPU, lslave included; \
             turn it on with `nvidia-smi -i 0 -pm 1`",
            "gpu1        quadro-p2000, GPU-66666666-7777-8888-9999-000000000000: draw 17.3 W, does not tell its limit",
            "cap         nvml:1: no power limit; its clocks may be locked instead: --cap gpu1=nvml-clocks:1,LOW..HIGH",
        ]
    );
    let none = probe(sysfs, &["--gpus", "none"]);
    assert!(none.last().expect("lines").starts_with("cap         hwmon:amdgpu"), "{none:?}");
}
