//! Tests of the reader and the writer.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

type Package = (u64, Vec<u8>);

/// Reads all packages, at most 100 bytes each, as delays in microseconds and contents.
fn read(text: &[u8]) -> Result<Vec<Package>, FormatError> {
    let mut reader = Reader::new(text, 100);
    let (mut packages, mut content) = (Vec::new(), Vec::new());
    while let Some(header) = reader.next_package(&mut content)? {
        assert_eq!(header.size, content.len() as u64);
        packages.push((header.delay.as_micros() as u64, content.clone()));
    }
    assert_eq!(reader.position().byte, text.len() as u64);
    Ok(packages)
}

fn written(packages: &[Package]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text);
    packages.iter().for_each(|(delay, content)| writer.package(Duration::from_micros(*delay), content).unwrap());
    text
}

fn refusal(text: &[u8]) -> String {
    read(text).expect_err("a refusal").to_string()
}

#[test]
fn packages_and_comments_are_read() {
    assert_eq!(read(b"# only a comment\n").unwrap(), []);
    assert_eq!(
        read(b"#\n0:1\na#\n007:0\n3600000000:2\nbc").unwrap(),
        [(0, b"a".to_vec()), (7, vec![]), (3_600_000_000, b"bc".to_vec())]
    );
}

#[test]
fn contents_may_look_like_lines() {
    assert_eq!(
        read(b"1:9\n#\n5:3\n\n\xff\x002:1\nx").unwrap(),
        [(1, b"#\n5:3\n\n\xff\0".to_vec()), (2, b"x".to_vec())]
    );
}

#[test]
fn comments_of_any_length_take_no_memory() {
    let mut text = vec![b'#'; 1_000_000];
    text.extend(b"\n0:1\na");
    assert_eq!(read(&text).unwrap().len(), 1);
}

#[test]
fn errors_name_line_and_byte() {
    assert_eq!(refusal(b""), "line 1, byte 0: the workload is empty, but needs at least one package or comment");
    let malformed = "is neither a comment (#TEXT) nor a header of a package (DELAY:SIZE, in us and bytes)";
    assert_eq!(refusal(b"0:1\nax:3\n"), format!("line 2, byte 5: \"x:3\" {malformed}"));
    // Two newlines in the content of the first package.
    assert_eq!(refusal(b"0:4\na\n\nb\n"), format!("line 4, byte 8: \"\" {malformed}"));
    for wrong in ["-1:2", "1:-2", "1", ":", "1:", ":2", "1:2:3", " 1:2", "1:2\r", "1.0:2", "+1:2"] {
        assert_eq!(refusal(format!("{wrong}\nab").as_bytes()), format!("line 1, byte 0: {wrong:?} {malformed}"));
    }
    assert_eq!(refusal(&[b'0'; 100]), format!("line 1, byte 0: {:?} {malformed}", "0".repeat(64)));
}

#[test]
fn cut_files_are_refused() {
    assert_eq!(refusal(b"# a"), "line 1, byte 0: the file ends before the newline of this line");
    assert_eq!(refusal(b"0:1\na1:2"), "line 2, byte 5: the file ends before the newline of this line");
    assert_eq!(refusal(b"0:3\nab"), "line 2, byte 4: the file ends after 2 of the 3 bytes of this package");
}

#[test]
fn large_numbers_are_refused() {
    let large = "--max-package raises the limit";
    assert_eq!(
        refusal(b"0:101\n"),
        format!("line 1, byte 0: the package of 101 bytes is larger than 100 bytes; {large}")
    );
    // 2^64, which no size has.
    let beyond = "18446744073709551616";
    assert_eq!(
        refusal(format!("0:{beyond}\n").as_bytes()),
        format!("line 1, byte 0: the package of {beyond} bytes is larger than 100 bytes; {large}")
    );
    for delay in ["3600000001", beyond] {
        assert_eq!(
            refusal(format!("{delay}:1\na").as_bytes()),
            format!("line 1, byte 0: the delay of {delay} us is longer than 3600000000 us")
        );
    }
    let mut reader = Reader::new(&b"0:18446744073709551615\n"[..], u64::MAX);
    let error = reader.next_package(&mut Vec::new()).expect_err("a promise is no content");
    assert!(error.to_string().ends_with("the file ends after 0 of the 18446744073709551615 bytes of this package"));
}

#[test]
fn the_writer_writes_what_the_reader_reads() {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text);
    writer.comment("two\nlines").unwrap();
    writer.package(Duration::from_nanos(1_999), b"\n#").unwrap();
    writer.package(MAX_DELAY + Duration::from_nanos(1), b"").expect_err("a delay that no reader accepts");
    assert_eq!(text, b"# two lines\n1:2\n\n#");
}

/// Random texts of the characters that matter, and valid files with a few changed bytes.
#[test]
fn a_million_random_files_are_read_or_refused() {
    let mut random = SplitMix64::seed_from_u64(1);
    let mut below = move |limit: u64| random.next_u64() % limit;
    let (mut accepted, mut refused) = (0_u32, 0_u32);
    for round in 0..1_000_000_u32 {
        let mut text = Vec::new();
        if round % 2 == 0 {
            text.extend((0..below(12)).map(|_| b"0123::\n\n#a"[below(10) as usize]));
        } else {
            let packages = below(3) + 1;
            let packages: Vec<Package> = (0..packages).map(|_| (below(20), vec![b'\n'; below(12) as usize])).collect();
            text = written(&packages);
            for _ in 0..below(3) {
                let at = below(text.len() as u64) as usize;
                text[at] = below(256) as u8;
            }
        }
        match read(&text) {
            Ok(packages) => {
                accepted += 1;
                assert_eq!(read(&written(&packages)).ok(), Some(packages).filter(|packages| !packages.is_empty()));
            }
            Err(error) => {
                refused += 1;
                let before = &text[..usize::try_from(error.at.byte).unwrap()];
                let newlines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
                assert_eq!(error.at.line, newlines + 1, "{text:?}: {error}");
            }
        }
    }
    assert!(accepted > 100_000 && refused > 100_000, "{accepted} accepted, {refused} refused");
}
