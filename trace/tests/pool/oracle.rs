//! Values of mutated records, compared with HTCondor's own reader: the package `htcondor` of PyPI. `LIMO_HTCONDOR_PYTHON`
//! names a Python that has it; by default `python3`.

use std::io::{Cursor, Write as _};
use std::process::{Command, Stdio};
use std::{env, thread};

use limo_requirements::{Requirement, skip};
use limo_trace::generate::Dice;
use limo_trace::pool::{Attribute, PoolClock, PoolRecord, RecordReader};

/// The nine attributes that are needed.
const NEEDED: [Attribute; 9] = [
    Attribute::ClusterId,
    Attribute::ProcId,
    Attribute::QDate,
    Attribute::EnteredCurrentStatus,
    Attribute::JobCurrentStartDate,
    Attribute::Owner,
    Attribute::JobStatus,
    Attribute::BytesSent,
    Attribute::BytesRecvd,
];

const RECORDS: usize = 10_000;

/// Reads records from stdin, line by line, and prints the values of the needed attributes: a number rounded half away
/// from zero, a text in hexadecimal, or `-`. A value counts only if it is a plain literal. Lines that HTCondor refuses
/// are skipped.
const SCRIPT: &str = r#"
import re, sys
from decimal import ROUND_HALF_UP, Decimal
import classad2
needed = sys.argv[1].split(",")
whole = ["ClusterId", "ProcId", "QDate", "EnteredCurrentStatus", "JobCurrentStartDate", "JobStatus"]
integer = re.compile(r"-?(0|[1-9][0-9]*)$")
quoted = re.compile(r'"(\\"|[^"])*"$')
number = re.compile(r"-?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?$")
for record in sys.stdin.read().split("\n\n"):
    values = {}
    for line in record.split("\n"):
        name, divider, text = line.partition("=")
        name = name.strip().lower()
        text = text.strip()
        if not divider:
            continue
        for known in needed:
            if known.lower() != name:
                continue
            try:
                ad = next(iter(classad2.parseAds(line)))
                value = ad.eval(known)
            except Exception:
                values[known] = "-"
                continue
            if isinstance(value, str) and known == "Owner" and quoted.match(text):
                values[known] = value.encode().hex()
            elif isinstance(value, bool) or known == "Owner" or not isinstance(value, (int, float)):
                values[known] = "-"
            elif integer.match(text) and -2**63 <= int(text) < 2**63:
                values[known] = str(value)
            elif number.match(text) and not integer.match(text) and known not in whole and abs(value) < 2**63:
                # Beyond 2^53 a float is not exact.
                exact = Decimal(text)
                assert float(exact) == value, text
                values[known] = str(int(exact.to_integral_value(ROUND_HALF_UP)))
            else:
                values[known] = "-"
    print(",".join(values.get(known, "-") for known in needed))
"#;

fn below(dice: &mut Dice, limit: usize) -> usize {
    (dice.unit() * limit as f64) as usize
}

/// Changes up to two characters of a value, so that many values stay what they were.
fn mutated(value: &str, dice: &mut Dice) -> String {
    const CHARACTERS: &[u8] = b"0123456789-.eE\"\\ axK()+";
    let mut bytes = value.as_bytes().to_vec();
    for _ in 0..below(dice, 3) {
        let at = below(dice, bytes.len());
        match below(dice, 3) {
            0 => bytes[at] = CHARACTERS[below(dice, CHARACTERS.len())],
            1 => bytes.insert(at, CHARACTERS[below(dice, CHARACTERS.len())]),
            _ if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => {}
        }
    }
    String::from_utf8(bytes).expect("ASCII")
}

fn records() -> String {
    let mut dice = Dice::of_purpose(1, 0);
    let mut text = String::new();
    for _ in 0..RECORDS {
        for attribute in NEEDED {
            let value = match attribute {
                Attribute::Owner => "\"an\\\"n\"".to_owned(),
                Attribute::BytesSent | Attribute::BytesRecvd => format!("{:.6}", dice.between(0.0, 1e9)),
                _ => below(&mut dice, 2_000_000_000).to_string(),
            };
            let name =
                if below(&mut dice, 9) == 0 { attribute.name().to_uppercase() } else { attribute.name().to_owned() };
            text += &format!("{name} = {}\n", mutated(&value, &mut dice));
        }
        text.push('\n');
    }
    text
}

/// Returns the values as the script prints them.
fn own_values(text: &str) -> Vec<String> {
    let mut reader = RecordReader::new("f", Cursor::new(text.to_owned())).expect("records");
    let (mut record, mut clock) = (PoolRecord::default(), PoolClock::default());
    let mut all = Vec::new();
    while reader.advance(&mut record, &mut clock).expect("records") {
        let value = |attribute: &Attribute| {
            let hex = |text: &[u8]| text.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let number = record.number(*attribute).map(|number| number.to_string());
            number.or_else(|| record.text(*attribute).map(hex)).unwrap_or_else(|| "-".to_owned())
        };
        all.push(NEEDED.iter().map(value).collect::<Vec<_>>().join(","));
    }
    all
}

#[test]
fn mutated_records_have_the_values_that_htcondor_reads() {
    let python = env::var("LIMO_HTCONDOR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    match Command::new(&python).args(["-c", "import classad2"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(_) => return skip(Requirement::Program, &format!("{python} has no htcondor")),
        Err(error) => return skip(Requirement::Program, &format!("no {python}: {error}")),
    }
    let text = records();
    let names = NEEDED.map(Attribute::name).join(",");
    let mut script = Command::new(&python);
    script.args(["-c", SCRIPT, &names]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("Python runs");
    let mut stdin = script.stdin.take().expect("piped");
    let input = text.trim_end().to_owned();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = script.wait_with_output().expect("an end");
    writer.join().expect("no panic").expect("all is read");
    assert!(output.status.success());
    let expected = String::from_utf8(output.stdout).expect("ASCII");
    let own = own_values(&text);
    assert_eq!((own.len(), expected.lines().count()), (RECORDS, RECORDS));
    let lines = text.split("\n\n").zip(own.iter().zip(expected.lines()));
    let different: Vec<_> = lines.filter(|(_, (own, expected))| own != expected).collect();
    assert!(different.is_empty(), "{} differ; such as {:#?}", different.len(), &different[..different.len().min(8)]);
    // Most values are usable, and some are not.
    let unusable = own.iter().flat_map(|line| line.split(',')).filter(|value| *value == "-").count();
    assert!((RECORDS..RECORDS * 6).contains(&unusable), "{unusable}");
}
