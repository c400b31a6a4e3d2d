//! Readings and settings of the chip, and faults between the chip and its reader.

use std::path::Path;
use std::time::{Duration, Instant};

use limo_model::Power;
use limo_power::{Chip, Mcp39f511, Meter, MeterChoice, Reading, Site, Wattmeter, wattmeters};

use crate::chip::{Change, Emulated, cycles_at};
use crate::meter_of;

const SECOND: Duration = Duration::from_secs(1);

/// Limit of each attempt: long for a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Limit of each attempt in tests of silence.
const SHORT: Duration = Duration::from_millis(150);

/// Fault in the answer to a request.
#[derive(Debug, Clone)]
enum Fault {
    Nack,
    ChecksumFailed,
    /// No answer.
    Silence,
    /// The answer with its last byte changed.
    WrongSum,
    /// The answer without its last bytes.
    Cut(usize),
    /// These bytes before the answer.
    Before(Vec<u8>),
    /// The answer, byte by byte.
    Split,
}

impl Fault {
    fn change(self, mut reply: Vec<u8>) -> Vec<Vec<u8>> {
        match self {
            Self::Nack => reply = vec![0x15],
            Self::ChecksumFailed => reply = vec![0x51],
            Self::Silence => reply.clear(),
            Self::WrongSum => *reply.last_mut().expect("an answer") ^= 0xff,
            Self::Cut(bytes) => reply.truncate(reply.len() - bytes),
            Self::Before(garbage) => reply.splice(0..0, garbage).for_each(drop),
            Self::Split => return reply.into_iter().map(|byte| vec![byte]).collect(),
        }
        vec![reply]
    }
}

/// Sets the faults of the next requests, one each.
fn fail(chip: &Emulated, faults: impl IntoIterator<Item = Fault>) {
    let changes = faults.into_iter().map(|fault| -> Change { Box::new(move |reply| fault.change(reply)) });
    chip.with(|state| state.changes = changes.collect());
}

/// Returns N of the chip's 2^N line cycles.
fn cycles(chip: &Emulated) -> u16 {
    let at = usize::from(cycles_at(chip.chip));
    chip.with(|state| u16::from_le_bytes([state.registers[at], state.registers[at + 1]]))
}

fn meter(chip: &Emulated, channel: Option<u8>) -> Mcp39f511 {
    meter_of(chip, channel, SECOND).with_limit(LONG)
}

fn shows(meter: &mut Mcp39f511, mw: i64) {
    let reading = meter.read(Duration::ZERO).expect("a reading");
    assert_eq!(reading, Reading::Draw(Power::from_mw(mw)));
}

/// Expects an error that begins with this text, in which `LINE` stands for the device.
fn fails(meter: &mut Mcp39f511, path: &Path, expected: &str) {
    let error = meter.read(Duration::ZERO).expect_err("no reading").to_string();
    let error = error.replace(&path.display().to_string(), "LINE");
    assert!(error.starts_with(expected), "`{expected}` begins\n`{error}`");
}

#[test]
fn one_channel() {
    let chip = Emulated::new(Chip::One);
    let mut meter = meter(&chip, None);
    shows(&mut meter, 41_500);
    chip.set_power(0, 12_345);
    shows(&mut meter, 123_450);
    assert_eq!(cycles(&chip), 4, "nobody asked for more");
    let written = chip.with(|state| state.asked.iter().filter(|frame| frame[5] != 0x4e).count());
    assert_eq!(written, 0);
}

#[test]
fn two_channels_alone_and_together() {
    let chip = Emulated::new(Chip::Two);
    chip.set_power(1, 1_000);
    shows(&mut meter(&chip, Some(1)), 41_500);
    shows(&mut meter(&chip, Some(2)), 10_000);
    shows(&mut meter(&chip, None), 51_500);
    // The second channel has another range.
    chip.set_range(1, 21);
    shows(&mut meter(&chip, None), 81_500);
}

#[test]
fn a_sign_is_in_the_status() {
    let chip = Emulated::new(Chip::Two);
    chip.set_power(1, 1_000);
    // The second channel returns power.
    chip.set(0x02, &[0b001_0000, 0]);
    shows(&mut meter(&chip, None), 31_500);
    fails(&mut meter(&chip, Some(2)), &chip.path, "the wattmeter at LINE shows -10.0 W: the draw of a running machine");
    chip.set(0x02, &[0b100_0000, 0]);
    fails(&mut meter(&chip, Some(1)), &chip.path, "the wattmeter at LINE shows -41.5 W");
    shows(&mut meter(&chip, Some(2)), 10_000);
}

/// Other programs set the range when they start.
#[test]
fn the_range_is_looked_at_again() {
    let chip = Emulated::new(Chip::One);
    let mut meter = meter(&chip, None);
    shows(&mut meter, 41_500);
    chip.set_range(0, 6);
    chip.set_power(0, 41_500 * 8192 / 10);
    let reading = meter.read(SECOND).expect("a reading");
    assert_eq!(reading, Reading::Draw(Power::from_mw(41_500)));
}

#[test]
fn the_interval_is_set_where_readings_are_wanted_often() {
    let after = |found: u16, interval: Duration| {
        let chip = Emulated::new(Chip::Two);
        chip.set_cycles(found);
        let mut meter = meter_of(&chip, Some(1), interval).with_limit(LONG);
        meter.read(Duration::ZERO).expect("a reading");
        cycles(&chip)
    };
    let ms = Duration::from_millis;
    assert_eq!(after(4, SECOND), 4);
    assert_eq!(after(6, SECOND), 6);
    assert_eq!(after(4, ms(20)), 1);
    assert_eq!(after(4, ms(100)), 2);
    assert_eq!(after(1, ms(100)), 1);
    // N = 0 gives wrong power, whichever program set it.
    assert_eq!(after(0, SECOND), 4);
    assert_eq!(after(0, ms(20)), 1);
}

#[test]
fn transient_faults_are_retried() {
    for fault in [
        Fault::Nack,
        Fault::ChecksumFailed,
        Fault::Before(vec![0x00, 0x15, 0x51, 0x06, 0x06, 0xff]),
        // A part of an older answer comes first.
        Fault::Before(vec![0x00, 0x00, 0x7a]),
        Fault::Split,
    ] {
        let chip = Emulated::new(Chip::Two);
        let mut meter = meter(&chip, Some(1));
        shows(&mut meter, 41_500);
        fail(&chip, [fault.clone(), fault]);
        shows(&mut meter, 41_500);
    }
    // These faults show only as silence.
    for fault in [Fault::WrongSum, Fault::Cut(3), Fault::Silence] {
        let chip = Emulated::new(Chip::One);
        let mut meter = meter_of(&chip, None, SECOND).with_limit(SECOND);
        shows(&mut meter, 41_500);
        fail(&chip, [fault]);
        shows(&mut meter, 41_500);
    }
}

#[test]
fn permanent_faults_are_reported() {
    let check = |fault: Fault, expected: &str| {
        let chip = Emulated::new(Chip::Two);
        fail(&chip, [fault.clone(), fault.clone(), fault]);
        let mut meter = meter_of(&chip, None, SECOND).with_limit(SHORT);
        let begin = Instant::now();
        fails(&mut meter, &chip.path, expected);
        assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
        assert_eq!(chip.with(|state| state.asked.len()), 3);
        // The meter works after the fault.
        let mut meter = meter.with_limit(LONG);
        shows(&mut meter, 41_500);
    };
    check(Fault::Nack, "the wattmeter at LINE refuses to show 2 bytes from 0xa8 on: is it an MCP39F511 or MCP39F511N?");
    check(Fault::ChecksumFailed, "the wattmeter at LINE finds the checksum of a request wrong");
    check(Fault::Silence, "the wattmeter at LINE did not answer within 150 ms: is this the device of a wattmeter?");
    check(Fault::WrongSum, "the wattmeter at LINE answers with `06 05 04 00 f0`, which is not a complete reply");
    check(Fault::Cut(2), "the wattmeter at LINE answers with `06 05 04`, which is not a complete reply");
    check(Fault::Before(vec![0x33; 300]), "the wattmeter at LINE answers with `33 33 33 33 33 33");
}

/// Checks the retries if a chip takes the beginning of the next request for the rest of an incomplete one.
#[test]
fn a_chip_that_waits_for_the_rest_of_a_request() {
    let chip = Emulated::new(Chip::One);
    let other = std::fs::OpenOptions::new().write(true).open(&chip.path).expect("a line");
    std::io::Write::write_all(&mut &other, &[0xa5, 0x08, 0x41]).expect("written");
    let mut meter = meter_of(&chip, None, SECOND).with_limit(SECOND);
    shows(&mut meter, 41_500);
}

#[test]
fn the_wrong_chip_is_noticed() {
    let chip = Emulated::new(Chip::Two);
    // This is the interval register of the other chip.
    chip.set(0x9e, &[0x00, 0x40]);
    let mut wrong = Mcp39f511::new(Wattmeter { chip: Chip::One, path: chip.path.clone(), channel: None }, SECOND);
    fails(
        &mut wrong,
        &chip.path,
        "the wattmeter at LINE shows 16384 as the accumulation interval of an MCP39F511, where at most 15 can be: it may \
         be an MCP39F511N, so write `mcp39f511n:LINE`",
    );
}

#[test]
fn other_devices_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let read = |path: &Path| {
        let choice: MeterChoice = format!("mcp39f511:{}", path.display()).parse().expect("a choice");
        choice.meter(&Site::new("/sys".as_ref())).read(Duration::ZERO).expect_err("no reading").to_string()
    };
    let missing = dir.path().join("ttyACM0");
    assert!(
        read(&missing)
            .ends_with("No such file or directory (os error 2); is it plugged in, and is the module `cdc_acm` loaded?")
    );
    std::fs::write(&missing, "").expect("written");
    assert!(read(&missing).contains("is not a serial line: name the device of the wattmeter"));

    // The device is unplugged, and plugged in again elsewhere under the same name.
    let link = dir.path().join("wattmeter");
    let chip = Emulated::new(Chip::One);
    std::os::unix::fs::symlink(&chip.path, &link).expect("linked");
    let wattmeter = Wattmeter { chip: Chip::One, path: link.clone(), channel: None };
    let mut meter = Mcp39f511::new(wattmeter, SECOND).with_limit(SECOND);
    shows(&mut meter, 41_500);
    fail(&chip, [Fault::Silence, Fault::Silence, Fault::Silence]);
    fails(&mut meter, &link, "the wattmeter at LINE did not answer within 1000 ms");
    let other = Emulated::new(Chip::One);
    other.set_power(0, 700);
    std::fs::remove_file(&link).expect("removed");
    std::os::unix::fs::symlink(&other.path, &link).expect("linked");
    shows(&mut meter, 7_000);
}

#[test]
fn wattmeters_on_usb() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |path: &str, content: &str| {
        let path = dir.path().join("bus/usb/devices").join(path);
        std::fs::create_dir_all(path.parent().expect("below it")).expect("made");
        std::fs::write(path, content).expect("written");
    };
    let found = || wattmeters(dir.path(), "/dev".as_ref()).expect("readable");
    assert_eq!(found(), []);
    for (device, vendor, product) in [("1-1", "046d", "00dd"), ("1-2", "04d8", "00dd"), ("2-1.3", "04d8", "00dd")] {
        write(&format!("{device}/idVendor"), &format!("{vendor}\n"));
        write(&format!("{device}/idProduct"), &format!("{product}\n"));
    }
    write("1-1/1-1:1.0/tty/ttyACM0/dev", "166:0\n");
    write("2-1.3/2-1.3:1.0/tty/ttyACM7/dev", "166:7\n");
    assert_eq!(found(), [None, Some("/dev/ttyACM7".into())]);
}
