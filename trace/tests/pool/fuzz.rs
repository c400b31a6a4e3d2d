//! Mutated files: reading them ends without a panic, and an error names the file and a line.
//!
//! `LIMO_POOL_INPUTS=10000000 cargo test -p limo-trace --test pool mutated` reads as many.

use std::env;
use std::io::Cursor;

use jiff::tz::TimeZone;
use limo_trace::generate::Dice;
use limo_trace::pool::{PoolClock, PoolRecord, RecordReader};

use crate::writer::{FORMS, write};
use crate::{events, file, imported, job};

/// One of this many inputs is also imported, which takes longer. Not a divisor of the number of forms.
const IMPORTED: u32 = 101;

/// Number of inputs, unless the variable has another one.
const INPUTS: u32 = 20_000;

/// Pieces of the forms.
const PIECES: [&[u8]; 22] = [
    b"\n",
    b" = ",
    b"\"",
    b"\\",
    b"***\n",
    b"...\n",
    b"<c>",
    b"</c>",
    b"<a n=\"QDate\">",
    b"<!--",
    b"]]>",
    b"&#0;",
    b"{",
    b"}",
    b"[",
    b"\xff",
    b"-",
    b"1e9999",
    b"99999999999999999999",
    b"9223372036854775807\n",
    b"-9223372036854775808\n",
    b"000 (1.1.1) 12/31 ",
];

fn below(dice: &mut Dice, limit: usize) -> usize {
    (dice.unit() * limit as f64) as usize
}

/// Replaces a few short parts of the text by pieces, by parts of itself, or by nothing.
fn mutated(text: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=below(dice, 4) {
        let from = below(dice, bytes.len() + 1);
        let until = (from + below(dice, 12)).min(bytes.len());
        let other = below(dice, text.len());
        let part = match below(dice, 4) {
            0 => b"".as_slice(),
            1 => &text[other..(other + below(dice, 60)).min(text.len())],
            _ => PIECES[below(dice, PIECES.len())],
        };
        bytes.splice(from..until, part.iter().copied());
    }
    if below(dice, 8) == 0 {
        bytes.truncate(below(dice, bytes.len() + 1));
    }
    bytes
}

/// Reads all records; returns their number, or the error.
fn read(bytes: Vec<u8>) -> Result<u32, String> {
    let mut clock = PoolClock::new(TimeZone::UTC, Some(2010));
    let mut record = PoolRecord::default();
    let mut reader = RecordReader::new("f", Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut records = 0;
    while reader.advance(&mut record, &mut clock).map_err(|error| error.to_string())? {
        records += 1;
    }
    Ok(records)
}

#[test]
fn mutated_files_end_with_records_or_an_error_with_its_line() {
    let inputs = env::var("LIMO_POOL_INPUTS").map_or(INPUTS, |text| text.parse().expect("a number of inputs"));
    let (ads, log) = events();
    let mut texts: Vec<String> = FORMS.iter().map(|form| write(&[job(1, 0, 1), job(2, 0, 2)], *form)).collect();
    texts.extend([log, write(&ads, crate::writer::Form::Xml)]);
    let whole: Vec<_> = texts.iter().map(|text| read(text.clone().into_bytes())).collect();
    assert_eq!(whole, [Ok(2), Ok(2), Ok(2), Ok(2), Ok(2), Ok(2), Ok(9), Ok(9)]);
    let mut dice = Dice::of_purpose(u64::from(inputs), 0);
    let folder = tempfile::tempdir().expect("a folder");
    let mut refused = 0;
    for number in 0..inputs {
        let text = &texts[number as usize % texts.len()];
        let bytes = mutated(text.as_bytes(), &mut dice);
        if number % IMPORTED == 0 {
            let imported = imported(&[file(&folder, "f", &bytes)]);
            assert!(imported.is_ok() || read(bytes.clone()).is_err(), "input {number}: {imported:?}");
        }
        if let Err(error) = read(bytes) {
            let line = error.strip_prefix("f:").and_then(|rest| rest.split(':').next()?.parse::<u64>().ok());
            assert!(line.is_some_and(|line| line > 0), "input {number}: {error}");
            refused += 1;
        }
    }
    // Both are tested: inputs that are refused and others that are not.
    assert!((inputs / 20..inputs / 20 * 19).contains(&refused), "{refused} of {inputs} are refused");
}
