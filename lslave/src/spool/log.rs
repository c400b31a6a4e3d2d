//! Append-only file of entries, rewritten when more than half of it is obsolete.
//!
//! An entry is its length, the checksum of the length, the checksum of its bytes, and its bytes; numbers are
//! little-endian. Entries survive the process, not the machine: nothing is flushed to the disk. An unfinished entry
//! at the end is cut off. If another one is damaged, as after a failure of the disk, the file is copied and continues
//! before it. The contents of entries are opaque.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use limo_files::Outlasts;
use thiserror::Error;
use tracing::{error, warn};

/// Bytes before an entry's own bytes.
const HEAD: usize = 12;

/// Size in bytes below which a file is not rewritten.
const SMALL: u64 = 256 * 1024;

/// Reason why entries cannot be written or read.
#[derive(Debug, Error)]
pub enum LogError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("an entry of {length} bytes is too long for {}", path.display())]
    Long { path: PathBuf, length: usize },
    #[error(
        "{} has an unknown entry at byte {offset}: {what}; if you move the file away, its jobs are reported lost",
        path.display()
    )]
    Unknown { path: PathBuf, offset: u64, what: String },
}

/// Open file of entries, each with a key `K`.
#[derive(Debug)]
pub struct Log<K> {
    path: PathBuf,
    file: File,
    /// Length of the valid part.
    length: u64,
    /// True if an unfinished entry may follow the valid part.
    is_torn: bool,
    /// True if entries were lost when it was opened.
    pub is_damaged: bool,
    /// Offset and length of the current entries, including their heads.
    live: BTreeMap<K, Vec<(u64, u64)>>,
    /// Total length of the current entries.
    live_length: u64,
    /// Size below which the file is not rewritten; raised after a failure.
    rewrite_above: u64,
}

/// Entry that was found in the file.
#[derive(Debug)]
pub struct Entry {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Entries from the beginning of a file, the end of the last one, and the damage that follows.
struct Scan {
    entries: Vec<Entry>,
    length: u64,
    damage: Option<&'static str>,
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Returns the entries of `bytes` up to a damaged one. An unfinished entry at the end is not damage.
fn scan(bytes: &[u8]) -> Scan {
    let (mut entries, mut at, mut damage) = (Vec::new(), 0, None);
    while let Some((head, rest)) = bytes[at..].split_at_checked(HEAD) {
        let offset = at as u64;
        if crc32fast::hash(&head[..4]) != number(&head[4..8]) {
            // A power loss may leave zeros at the end.
            if bytes[at..].iter().all(|byte| *byte == 0) {
                break;
            }
            damage = Some("the length of an entry does not match its checksum");
            break;
        }
        let length = number(&head[..4]) as usize;
        let Some((body, behind)) = rest.split_at_checked(length) else { break };
        if crc32fast::hash(body) != number(&head[8..]) {
            if behind.is_empty() {
                break;
            }
            damage = Some("an entry does not match its checksum");
            break;
        }
        entries.push(Entry { offset, bytes: body.to_vec() });
        at += HEAD + length;
    }
    Scan { entries, length: at as u64, damage }
}

/// Returns the bytes of an entry with its head; `None` if it is too long.
fn framed(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok()?.to_le_bytes();
    let (of_length, of_bytes) = (crc32fast::hash(&length).to_le_bytes(), crc32fast::hash(bytes).to_le_bytes());
    Some([&length[..], &of_length, &of_bytes, bytes].concat())
}

impl<K: Ord + Copy> Log<K> {
    /// Opens or creates the file and returns its entries. Entries count as obsolete until [`Log::keep`] is called.
    ///
    /// If an entry is damaged, the file is copied to `PATH.damaged`, and this entry and all after it are cut off.
    ///
    /// # Errors
    /// [`LogError`]: the file cannot be read, or a damaged one cannot be copied.
    pub fn open(path: &Path) -> Result<(Self, Vec<Entry>), LogError> {
        let failed = |what| move |source| LogError::Io { what, path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        // The file is private, because environments of jobs contain secrets.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed("open"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let Scan { entries, length, damage } = scan(&bytes);
        let is_torn = length < bytes.len() as u64;
        let cut = bytes.len() as u64 - length;
        if let Some(reason) = damage {
            let copy = path.with_added_extension("damaged");
            let copied = limo_files::replace(&copy, 0o600, Outlasts::Process, |file| file.write_all(&bytes));
            copied.map_err(|source| LogError::Io { what: "write", path: copy.clone(), source })?;
            let (file, copy) = (path.display(), copy.display());
            error!(%file, offset = length, bytes = cut, reason, %copy, "the records of jobs are damaged: the rest is cut off");
        } else if is_torn {
            warn!(file = %path.display(), offset = length, bytes = cut, "an unfinished record at the end is cut off");
        }
        Ok((
            Self {
                path: path.to_owned(),
                file,
                length,
                is_torn,
                is_damaged: damage.is_some(),
                live: BTreeMap::new(),
                live_length: 0,
                rewrite_above: SMALL,
            },
            entries,
        ))
    }

    /// Marks an entry as current, with the key `key`.
    pub fn keep(&mut self, key: K, entry: &Entry) {
        self.counts(key, entry.offset, (HEAD + entry.bytes.len()) as u64);
    }

    fn counts(&mut self, key: K, offset: u64, length: u64) {
        self.live.entry(key).or_default().push((offset, length));
        self.live_length += length;
    }

    /// Marks the entries of `key` as obsolete. Returns true if there were any.
    pub fn forget(&mut self, key: K) -> bool {
        let gone = self.live.remove(&key);
        self.live_length -= gone.iter().flatten().map(|(_, length)| length).sum::<u64>();
        gone.is_some()
    }

    /// Checks that entries can be written, by writing zeros, which count as an unfinished entry.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn probe(&mut self) -> Result<(), LogError> {
        self.is_torn = true;
        let written = self.file.write_all_at(&[0; HEAD], self.length).and_then(|()| self.cut());
        written.map_err(|source| LogError::Io { what: "write", path: self.path.clone(), source })
    }

    /// Returns the error for an entry that cannot be understood.
    pub fn unknown(&self, offset: u64, what: String) -> LogError {
        LogError::Unknown { path: self.path.clone(), offset, what }
    }

    /// Appends an entry; with a key it is current.
    ///
    /// # Errors
    /// [`LogError`]; the file is then unchanged.
    pub fn append(&mut self, key: Option<K>, bytes: &[u8]) -> Result<(), LogError> {
        let entry = framed(bytes).ok_or_else(|| LogError::Long { path: self.path.clone(), length: bytes.len() })?;
        let written = self.cut().and_then(|()| self.file.write_all_at(&entry, self.length));
        if let Err(source) = written {
            self.is_torn = true;
            // If this fails, the next append tries again.
            let _ = self.cut();
            return Err(LogError::Io { what: "write", path: self.path.clone(), source });
        }
        let (offset, length) = (self.length, entry.len() as u64);
        self.length += length;
        if let Some(key) = key {
            self.counts(key, offset, length);
        }
        if self.length > self.rewrite_above && self.live_length < self.length / 2 {
            self.rewrite_above = SMALL;
            if let Err(error) = self.rewrite() {
                warn!(%error, "cannot rewrite the records of jobs; the file keeps its size");
                self.rewrite_above = 2 * self.length;
            }
        }
        Ok(())
    }

    /// Removes everything after the last entry.
    fn cut(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Writes the current entries into a new file, in their order, which replaces this one.
    fn rewrite(&mut self) -> Result<(), LogError> {
        let path = self.path.with_added_extension("tmp");
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| LogError::Io { what, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path).map_err(failed("open", &path))?;
        let mut entries: Vec<(u64, u64, K)> = Vec::new();
        for (key, places) in &self.live {
            entries.extend(places.iter().map(|(offset, length)| (*offset, *length, *key)));
        }
        entries.sort_unstable_by_key(|(offset, ..)| *offset);
        let (mut live, mut at): (BTreeMap<K, Vec<(u64, u64)>>, u64) = (BTreeMap::new(), 0);
        for (offset, length, key) in entries {
            let mut entry = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            self.file.read_exact_at(&mut entry, offset).map_err(failed("read", &self.path))?;
            file.write_all_at(&entry, at).map_err(failed("write", &path))?;
            live.entry(key).or_default().push((at, length));
            at += length;
        }
        fs::rename(&path, &self.path).map_err(failed("replace", &self.path))?;
        (self.file, self.length, self.is_torn, self.live, self.live_length) = (file, at, false, live, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<(Log<u32>, Vec<Vec<u8>>), LogError> {
        let (log, entries) = Log::open(path)?;
        Ok((log, entries.into_iter().map(|entry| entry.bytes).collect()))
    }

    fn filled(path: &Path) -> Vec<u8> {
        let (mut log, _) = open(path).expect("a log");
        for (key, text) in [(1, "one"), (2, ""), (3, "three")] {
            log.append(Some(key), text.as_bytes()).expect("written");
        }
        fs::read(path).expect("readable")
    }

    #[test]
    fn an_unfinished_entry_is_cut_off_and_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let whole = filled(&path);
        let last = whole.len() - HEAD - 5;
        for length in last..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            let (mut log, found) = open(&path).expect("readable");
            assert_eq!(found, [&b"one"[..], b""], "{length}");
            log.append(Some(4), b"4").expect("written");
            assert_eq!(open(&path).expect("readable").1, [&b"one"[..], b"", b"4"], "{length}");
        }
        fs::write(&path, [&whole[..], &[0; 100]].concat()).expect("written");
        assert_eq!(open(&path).expect("readable").1.len(), 3);
    }

    /// Flips one bit of each byte. What is before the damaged entry remains, and the file is copied unless that is the
    /// last one.
    #[test]
    fn a_damaged_entry_and_those_after_it_are_cut_off() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, copy) = (dir.path().join("log"), dir.path().join("log.damaged"));
        let whole = filled(&path);
        let starts = [0, HEAD + 3, 2 * HEAD + 3];
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).expect("written");
            let (mut log, found) = open(&path).expect("readable");
            let intact = starts.iter().filter(|start| **start <= at).count() - 1;
            assert_eq!(found, [&b"one"[..], b""][..intact], "{at}");
            assert!(log.is_damaged || at >= starts[2] + 8, "{at}");
            assert_eq!(fs::read(&copy).ok(), log.is_damaged.then_some(bytes), "{at}");
            log.append(Some(4), b"4").expect("written");
            let (log, found) = open(&path).expect("readable");
            assert_eq!((log.is_damaged, found.len(), &found[intact][..]), (false, intact + 1, &b"4"[..]), "{at}");
            let _ = fs::remove_file(&copy);
        }
    }

    #[test]
    fn at_most_half_of_a_file_is_obsolete() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let (mut log, _) = open(&path).expect("a log");
        let text = |key: u32| vec![u8::try_from(key % 251).expect("small"); 1_000];
        for key in 0..2_000 {
            log.append(Some(key), &text(key)).expect("written");
            // Every hundredth entry stays current.
            if key % 100 != 0 {
                log.forget(key);
            }
        }
        let length = fs::metadata(&path).expect("there").len();
        assert!(length <= SMALL + 2 * (1_000 + HEAD as u64), "{length} bytes");
        let (_, found) = open(&path).expect("readable");
        for key in (0..2_000).step_by(100) {
            assert!(found.contains(&text(key)), "{key}");
        }
        log.append(Some(9), b"appended to the new file").expect("written");
        assert_eq!(open(&path).expect("readable").1.last().expect("many"), b"appended to the new file");
    }

    #[test]
    fn an_entry_that_cannot_be_written_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let whole = filled(&path);
        let (mut log, _) = open(&path).expect("a log");
        // This file cannot be written.
        let good = std::mem::replace(&mut log.file, File::open(&path).expect("readable"));
        let error = log.append(Some(5), b"five").expect_err("read only").to_string();
        assert!(error.starts_with("cannot write "), "{error}");
        assert!(log.is_torn, "what lies behind is not known");
        log.file = good;
        log.append(Some(6), b"six").expect("written");
        assert!(fs::read(&path).expect("readable").starts_with(&whole));
        assert_eq!(open(&path).expect("readable").1.last().expect("many"), b"six");
    }
}
