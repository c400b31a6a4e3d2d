//! Ways to give bytes to a reader.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Gives at most seven bytes at a time.
#[derive(Debug)]
pub struct Pieces {
    bytes: Vec<u8>,
    at: usize,
}

impl Pieces {
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0 }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (1 + self.at % 7).min(buffer.len()).min(self.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Checks that a reader of `bytes`, plain or gzipped, has the same result in pieces.
pub fn check_same<T: Debug, E: Debug>(bytes: &[u8], read: &Result<T, E>, pieces: &Result<T, E>) {
    // The error of a damaged gzip depends on the sizes of the pieces.
    if read.is_ok() || !bytes.starts_with(b"\x1f\x8b") {
        assert_eq!(format!("{read:?}"), format!("{pieces:?}"), "another result in pieces");
    }
}

/// Calls a reader of files with a file in memory.
pub fn in_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    // Memory for a file of 64 KiB is there, or the test ends.
    let file = memfd_create(c"input", MFdFlags::MFD_CLOEXEC).map(File::from).expect("a file in memory");
    // As above.
    (&file).write_all(bytes).expect("a file in memory");
    read(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// Returns text with everything that is not UTF-8 replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the first byte, which chooses one of `count` readers, and the others.
pub fn choice(bytes: &[u8], count: usize) -> (usize, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first) % count, rest))
}

/// Returns seeds of the reader with this number.
pub fn chosen(number: u8, seed: impl AsRef<[u8]>) -> Vec<u8> {
    [&[number], seed.as_ref()].concat()
}

/// Checks that an error names the file and a line of it, or says that the whole file has not what it needs. Returns
/// false.
pub fn check_place(error: &dyn std::error::Error, file: &str) -> bool {
    let text = error.to_string();
    let rest = text.strip_prefix(file).and_then(|rest| rest.strip_prefix(':'));
    let is_line = |rest: &str| rest.split(':').next().unwrap_or("").parse::<u64>().is_ok_and(|line| line > 0);
    assert!(
        rest.is_some_and(|rest| is_line(rest)
            || rest.starts_with(" the file has no ")
            || rest.starts_with(" describes no ")),
        "no place in: {text}"
    );
    false
}
