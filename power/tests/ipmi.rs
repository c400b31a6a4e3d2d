//! IPMI DCMI: scripts that print what `ipmitool` prints.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use limo_model::Power;
use limo_power::{Ipmi, Meter, Reading};
use tempfile::TempDir;

/// Returns a directory with an `ipmitool` of this script, and the meter that runs it.
fn tool(script: &str, arguments: &[&str]) -> (TempDir, Ipmi) {
    let dir = tempfile::tempdir().expect("a directory");
    let program: PathBuf = dir.path().join("ipmitool");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
    let meter = Ipmi::new(arguments.iter().map(|word| (*word).to_owned()).collect()).with_program(&program);
    (dir, meter)
}

/// Checks a reading. `TOOL` stands for the program in the error.
fn check(script: &str, expected: Result<i64, &str>) {
    let (dir, mut meter) = tool(script, &[]);
    let program = dir.path().join("ipmitool").display().to_string();
    let found = meter.read(Duration::ZERO).map_err(|error| error.to_string().replace(&program, "TOOL"));
    match (found, expected) {
        (Ok(reading), Ok(watts)) => assert_eq!(reading, Reading::Draw(Power::from_watts(watts)), "{script}"),
        (Err(error), Err(text)) => assert!(error.starts_with(text), "`{text}` begins\n`{error}`"),
        (found, expected) => panic!("{script}: {found:?} instead of {expected:?}"),
    }
}

/// A reply in the format of `ipmitool`: a space before each byte, sixteen in a line.
const GOOD: &str = "echo ' dc 39 00 04 00 2c 01 3c 00 00 00 00 00 e8 03 00'; echo ' 00 40'";

#[test]
fn a_reply_has_the_draw_in_two_bytes() {
    check(GOOD, Ok(57));
    // The draw is 0x0139 W.
    check(&GOOD.replace("39 00", "39 01"), Ok(313));
    // Other bits of the state, and output on stderr, are ignored.
    check(&format!("echo warning >&2; {}", GOOD.replace("00 40", "00 c1")), Ok(57));
}

#[test]
fn the_command_is_get_power_reading() {
    let (dir, mut meter) = tool(&format!("echo \"$@\" > $0.asked; {GOOD}"), &["-I", "lanplus", "-f", "/etc/a b"]);
    meter.read(Duration::ZERO).expect("a reading");
    let asked = fs::read_to_string(dir.path().join("ipmitool.asked")).expect("it was run");
    assert_eq!(asked, "-I lanplus -f /etc/a b raw 0x2c 0x02 0xdc 0x01 0x00 0x00\n");
}

#[test]
fn failures_of_a_controller_are_reported() {
    let command = "TOOL raw 0x2c 0x02 0xdc 0x01 0x00 0x00";
    let check =
        |script: &str, expected: &str| check(script, Err(&expected.replace("COMMAND", &format!("`{command}`"))));
    let inactive = "the controller does not measure power: activate power measurement";
    check(&GOOD.replace("00 40", "00 00"), inactive);
    // An inactive measurement is reported before a zero.
    check(&GOOD.replace("39 00", "00 00").replace("00 40", "00 bf"), inactive);
    check(
        &GOOD.replace("39 00", "00 00"),
        "the controller, asked with COMMAND, shows 0.0 W: the draw of a running machine",
    );
    check("echo ' dc 39 00 04'", "the controller answers COMMAND with 4 bytes instead of 18: `dc 39 00 04`");
    check("echo ' dc'", "the controller answers COMMAND with 1 bytes");
    check(&GOOD.replace("00 40", "00 40 00"), "the controller answers COMMAND with 19 bytes");
    check(&GOOD.replace("dc", "dd"), "the controller answers COMMAND for the group 0xdd instead of 0xdc");
    check("echo 57 Watts", "COMMAND printed `57 Watts` instead of bytes such as `dc 39 00`");
    check("echo ' dc 039 00'", "COMMAND printed `dc 039 00` instead of bytes");
    check(":", "COMMAND printed nothing instead of bytes");
    let code = |code: &str, words: &str| {
        let place = "channel=0x0 netfn=0x2c lun=0x0 cmd=0x2";
        format!("echo 'Unable to send RAW command ({place} rsp=0x{code}): {words}' >&2; exit 1")
    };
    let refused = "the controller refuses COMMAND with the completion code";
    check(&code("c1", "Invalid command"), &format!("{refused} 0xc1: it does not know the command, so it has no DCMI"));
    check(&code("d4", "Insufficient privilege level"), &format!("{refused} 0xd4: the user may not ask that"));
    check(&code("c0", "Node busy"), &format!("{refused} 0xc0: it is busy"));
    check(&code("80", "Unknown"), &format!("{refused} 0x80: see table 5-2 of IPMI 2.0"));
    check(
        "echo 'Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory' >&2; exit 1",
        "COMMAND finds no controller: load its modules with `modprobe ipmi_si ipmi_devintf`, or name one on the",
    );
    check(
        "echo 'Error: Unable to establish IPMI v2 / RMCP+ session' >&2; exit 1",
        "the meter command COMMAND failed with exit status: 1; it printed `Error: Unable to establish IPMI v2 / RMCP+ session`",
    );
}

#[test]
fn a_tool_that_is_missing_or_hangs() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("ipmitool");
    let error = Ipmi::new(Vec::new()).with_program(&program).read(Duration::ZERO).expect_err("no reading").to_string();
    assert_eq!(error, format!("cannot find `{}`: install ipmitool", program.display()));

    let (dir, meter) = tool("echo $$ > $0.pid; exec sleep 1000", &[]);
    let begin = Instant::now();
    // Long enough for a script to start on a busy machine.
    let limit = Duration::from_secs(1);
    let error = meter.with_limit(limit).read(Duration::ZERO).expect_err("no reading").to_string();
    assert!(error.ends_with("did not end within 1000 ms and was killed; it printed nothing"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
    let pid = fs::read_to_string(dir.path().join("ipmitool.pid")).expect("it began");
    let running = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    while fs::read_to_string(&running).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it still runs");
        std::thread::yield_now();
    }
}
