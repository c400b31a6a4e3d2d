//! `--probe`: the report for an operator about a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use limo_power::Chip;

use crate::chip::{Emulated, cycles_at};
use crate::fake::FakeGpus;

/// Returns the lines about meters.
fn probe(sysfs: &Path, more: &[&str]) -> Vec<String> {
    probe_with(sysfs, more, "/usr/bin:/bin")
}

/// Probes with another `PATH`.
fn probe_with(sysfs: &Path, more: &[&str], path: &str) -> Vec<String> {
    probed(sysfs, more, path).0
}

/// Returns the lines but those about owners: first those without caps and GPUs, then those about them.
fn probed(sysfs: &Path, more: &[&str], path: &str) -> (Vec<String>, Vec<String>) {
    let lines = all_lines(sysfs, more, path).into_iter().filter(|line| !line.starts_with("owner "));
    lines.partition(|line| !line.starts_with("cap ") && !line.starts_with("gpu"))
}

/// Expects exit code 0 and nothing on stderr. Returns the lines on stdout, with `SYSFS` for the directory.
fn all_lines(sysfs: &Path, more: &[&str], path: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lslave"));
    command.arg("--probe").arg("--sysfs").arg(sysfs).args(more).env_clear().env("PATH", path);
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
fn each_source_of_owners_is_asked() {
    let sysfs = tempfile::tempdir().expect("a directory");
    let dev = sysfs.path().join("dev");
    let owners = |dev: &Path| {
        let lines = all_lines(sysfs.path(), &["--dev", dev.to_str().expect("UTF-8")], "/usr/bin:/bin");
        lines.into_iter().filter(|line| line.starts_with("owner       ")).collect::<Vec<_>>()
    };
    let missing = owners(&dev);
    // This machine may have a login manager.
    assert!(missing[0].starts_with("owner       logind: "), "{missing:?}");
    assert!(missing[1].starts_with("owner       input: no answer: cannot read SYSFS/dev/input: "), "{missing:?}");
    assert!(missing[2].starts_with("owner       tty: "), "{missing:?}");
    assert_eq!(missing.len(), 3);
    fs::create_dir_all(dev.join("input")).expect("made");
    assert_eq!(owners(&dev)[1], "owner       input: the owner is away (use it: --owner input)");
}

#[test]
fn a_machine_without_meters() {
    let sysfs = tempfile::tempdir().expect("a directory");
    let dev = sysfs.path().join("dev");
    let dev = dev.to_str().expect("UTF-8");
    let lines =
        probe(sysfs.path(), &["--dev", dev, "--config", "/no/such/file", "--meter", "command:echo no sensor; exit 1"]);
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
        "ipmi        no SYSFS/dev/ipmi0: load its modules with `modprobe ipmi_si ipmi_devintf`; desktops and virtual \
         machines have no controller"
    );
    assert_eq!(lines[5], "mcp39f511   no wattmeter on USB (04d8:00dd)");
    assert_eq!(
        lines[6],
        "command     `echo no sensor; exit 1`: no reading: the meter command `echo no sensor; exit 1` failed with exit \
         status: 1; it printed `no sensor`"
    );
    assert_eq!(lines.len(), 7);
    let (_, lines) = probed(sysfs.path(), &["--nvml", "/no/such/library"], "/usr/bin:/bin");
    // On an AMD processor there is one more line, about its own interface.
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.starts_with("cap         hsmp:")).collect();
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
    write(sysfs.path(), &[("devices/system/cpu/cpufreq/policy0/scaling_max_freq", "4000000\n")]);
    let (_, lines) = probed(sysfs.path(), &["--nvml", "/no/such/library"], "/usr/bin:/bin");
    assert_eq!(
        lines[1],
        "cap         cpufreq: the processor's frequencies can be limited, if it has no other cap: --cap \
         cpu=cpufreq,LOW..HIGH"
    );
}

#[test]
fn existing_meters_are_shown_with_their_draw_and_option() {
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
            && still[2].contains("does not count"),
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
    assert_eq!(counted.last().map(String::as_str), Some("command     `echo 7`: 7.0 W"));
}

#[test]
fn a_controller_and_a_wattmeter() {
    let dir = tempfile::tempdir().expect("a directory");
    let sysfs = dir.path();
    let chip = Emulated::new(Chip::Two);
    // This is the interval register of the other chip.
    chip.set(0x9e, &[0xff, 0xff]);
    write(
        sysfs,
        &[
            ("dev/ipmi0", ""),
            ("bin/ipmitool", "#!/bin/sh\necho dc 39 00 04 00 2c 01 3c 00 00 00 00 00 e8 03 00 00 40\n"),
            ("bus/usb/devices/1-2/idVendor", "04d8\n"),
            ("bus/usb/devices/1-2/idProduct", "00dd\n"),
            ("bus/usb/devices/1-2/1-2:1.0/tty/ttyACM3/dev", "166:3\n"),
            ("bus/usb/devices/1-4/idVendor", "04d8\n"),
            ("bus/usb/devices/1-4/idProduct", "00dd\n"),
        ],
    );
    let tool = sysfs.join("bin/ipmitool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("own file");
    std::os::unix::fs::symlink(&chip.path, sysfs.join("dev/ttyACM3")).expect("linked");
    let dev = sysfs.join("dev");
    let path = format!("{}:/usr/bin:/bin", sysfs.join("bin").display());
    let more = ["--dev", dev.to_str().expect("UTF-8"), "--meter", "redfish:http://127.0.0.1:1/redfish/v1/Chassis/1"];
    let lines = probe_with(sysfs, &more, &path);
    assert_eq!(lines[4], "ipmi        57.0 W (use it: --meter ipmi)");
    assert!(
        lines[5]
            .starts_with("mcp39f511   as MCP39F511: no reading: the wattmeter at SYSFS/dev/ttyACM3 shows 65535 as "),
        "{lines:?}"
    );
    assert_eq!(lines[6], "mcp39f511   as MCP39F511N: 41.5 W (use it: --meter mcp39f511n:SYSFS/dev/ttyACM3)");
    assert_eq!(
        lines[7],
        "mcp39f511   a wattmeter on USB without a serial line: load its module with `modprobe cdc_acm`"
    );
    assert!(
        lines[8].starts_with("meter       as `--meter` says: no reading: http://127.0.0.1:1/redfish/"),
        "{lines:?}"
    );
    assert_eq!(chip.with(|state| state.registers[usize::from(cycles_at(Chip::Two))]), 4);
}

#[test]
fn caps_are_shown_with_their_range_value_and_option() {
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
    let (_, lines) = probed(sysfs, &["--nvml", library.to_str().expect("UTF-8")], "/usr/bin:/bin");
    assert_eq!(
        lines,
        [
            "cap         rapl: 10.0 W to 95.0 W; now intel-rapl/package-0/enabled = 0, \
             intel-rapl/package-0/long_term_uw = 95000000 (use it: --cap cpu=rapl)",
            "cap         hsmp: 10.0 W to 320.0 W; now amd_hsmp_hwmon@hwmon1/power1_cap_uw = 280000000 (use it: --cap \
             cpu=hsmp)",
            "cap         hwmon:amdgpu@hwmon3: no cap: SYSFS/class/hwmon/hwmon3 cannot be capped: its lowest cap is \
             35.0 W and its highest 35.0 W; set a range, for example `,20W..90W`",
            "gpu0        nvidia-h200, GPU-11111111-2222-3333-4444-555555555555: draw 120.5 W, limit 700.0 W",
            "cap         nvml:0: 200.0 W to 700.0 W; now GPU-11111111-2222-3333-4444-555555555555/power_limit_mw = \
             700000 (use it: --cap gpu0=nvml:0)",
            "gpu0        persistence mode is off: a cap ends with the last program that uses the GPU, lslave included; \
             turn it on with `nvidia-smi -i 0 -pm 1`",
            "gpu1        quadro-p2000, GPU-66666666-7777-8888-9999-000000000000: draw 17.3 W, does not report its limit",
            "cap         nvml:1: no power limit; its clocks may be locked instead: --cap gpu1=nvml-clocks:1,LOW..HIGH",
        ]
    );
    let (_, none) = probed(sysfs, &["--gpus", "none"], "/usr/bin:/bin");
    assert!(none.last().expect("lines").starts_with("cap         hwmon:amdgpu"), "{none:?}");
}
