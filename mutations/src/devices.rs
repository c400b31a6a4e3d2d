//! Answers of meters, and counters in files.

pub mod answers {
    //! Answers of devices and of the programs that ask them. The first byte chooses the kind.

    use limo_power::answers::{of_challenge, of_command, of_ipmi, of_json, of_tasmota, of_wattmeter, refusal_of_ipmi};
    use serde_json::Value;

    use crate::input::{choice, chosen, text};

    pub const WORDS: &[&str] = &[
        "Digest ",
        "qop=\"auth\"",
        "algorithm=SHA-256",
        "nonce=\"",
        "rsp=0xc1)",
        "\u{6}\u{5}",
        " Watts",
        "\"apower\":",
    ];

    /// An answer of each kind.
    const SEEDS: [&[u8]; 7] = [
        b"Power: 41.5 W\n",
        b" dc 39 00 01 00 02 00 03 00 01 02 03 04 e8 03 00 00 40\n",
        b"Unable to send RAW command (channel=0x0 netfn=0x2c lun=0x0 cmd=0x2 rsp=0xc1): Invalid command",
        br#"{"id":0,"PowerWatts":{"Reading":344},"PowerControl":[{"PowerConsumedWatts":12.5}],"apower":8.9}"#,
        br#"{"StatusSNS":{"Time":"2025-01-01T00:00:00","ENERGY":{"Total":3.185,"Power":[182,10]}}}"#,
        b"\x00\x15\x06\x05\x39\x30\x74",
        b"Digest qop=\"auth\", realm=\"shelly\", nonce=\"60dc2c69\", algorithm=SHA-256",
    ];

    /// Pointers to the power in answers of Redfish and of Shelly.
    const PLACES: [&str; 3] = ["/PowerWatts/Reading", "/PowerControl/0/PowerConsumedWatts", "/apower"];

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, bytes) = choice(bytes, SEEDS.len());
        match kind {
            0 => of_command(&text(bytes)).is_some(),
            1 => of_ipmi(&text(bytes)).is_some_and(|read| read.is_ok()),
            2 => refusal_of_ipmi(&text(bytes)).is_some(),
            3 => serde_json::from_slice::<Value>(bytes)
                .is_ok_and(|answer| PLACES.map(|place| of_json(&answer, place).is_ok()).contains(&true)),
            4 => serde_json::from_slice::<Value>(bytes)
                .is_ok_and(|answer| [None, Some(0), Some(2)].map(|of| of_tasmota(&answer, of).is_ok()).contains(&true)),
            5 => of_wattmeter(bytes, 2).inspect(|data| assert_eq!(data.len(), 2)).is_some(),
            _ => of_challenge(&text(bytes)).is_some(),
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        (0..).zip(SEEDS).map(|(kind, seed)| chosen(kind, seed)).collect()
    }
}

pub mod counters {
    //! Energy counters of processors: two readings, one second apart. A line of the input has the names and the numbers of
    //! a zone.

    use std::fs;
    use std::time::Duration;

    use limo_power::{Meter, Powercap, Reading};

    pub const WORDS: &[&str] = &["intel-rapl:0", ":1", "psys", "dram", "package-1", " ", "262143328850"];

    /// Most zones; the others are not written.
    const ZONES: usize = 4;

    pub fn read(bytes: &[u8]) -> bool {
        // A directory is there, or the test ends.
        let sysfs = tempfile::tempdir().expect("a directory");
        let mut meter = Powercap::new(sysfs.path());
        let zones: Vec<Vec<&[u8]>> = bytes
            .split(|byte| *byte == b'\n')
            .take(ZONES)
            .map(|line| line.split(|byte| *byte == b' ').collect())
            .collect();
        for (second, column) in [(0, 3), (1, 4)] {
            for zone in &zones {
                let part = |index: usize| zone.get(index).copied().unwrap_or_default();
                let name: String = part(0)
                    .iter()
                    .filter(|byte| byte.is_ascii_graphic() && **byte != b'/')
                    .map(|byte| char::from(*byte))
                    .collect();
                let dir = sysfs.path().join("class/powercap").join(format!("intel-rapl:{name}"));
                // A zone that cannot be written is missing.
                if fs::create_dir_all(&dir).is_ok() {
                    let _ = fs::write(dir.join("name"), part(1));
                    let _ = fs::write(dir.join("max_energy_range_uj"), part(2));
                    let _ = fs::write(dir.join("energy_uj"), part(column));
                }
            }
            match meter.read(Duration::from_secs(second)) {
                Ok(Reading::NotYet) => {}
                Ok(reading) => {
                    assert!(reading.draw().is_some_and(|draw| draw.mw() > 0), "{reading:?}");
                    return true;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return false;
                }
            }
        }
        false
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![
            b"0 package-0 262143328850 1000000 51000000\n0:0 dram 65712999613 500 1000500".to_vec(),
            b"1 psys 262143328850 262143328000 5000000".to_vec(),
        ]
    }
}
