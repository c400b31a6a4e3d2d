//! The audit log: each refused request, each request of an operator, and each certificate that the master issues, one JSON
//! object per line.
//!
//! The log is two files of at most 8 MiB: `audit.log`, and `audit.log.1` with earlier lines. Callers cannot fill it
//! quickly: above a number of refusals per minute, only their count is logged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Name of the log in the state directory.
const NAME: &str = "audit.log";

/// Size of the file above which a new one is begun.
const SIZE: u64 = 8 << 20;

/// Refusals that are logged in each window.
const REFUSALS: u32 = 1000;
const WINDOW: Duration = Duration::from_secs(60);

/// Longest text in a line, in characters.
const TEXT: usize = 1024;

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// `refused`, `asked` or `issued`.
    pub what: AuditKind,
    /// The user or the identity of the caller; empty if it has none.
    pub who: String,
    /// The address of a caller of another machine; empty for others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The serial of the caller's certificate; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// The request, or the reason of the refusal.
    pub text: String,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditKind {
    /// A caller or a request was refused.
    Refused,
    /// An operator asked for a change.
    Asked,
    /// A certificate was issued.
    Issued,
}

impl AuditEntry {
    /// Makes an entry about a user of this machine.
    pub fn of(what: AuditKind, who: &str, text: &str) -> Self {
        Self { what, who: who.to_owned(), from: String::new(), serial: String::new(), text: text.to_owned() }
    }
}

/// A line of the file.
#[derive(Serialize)]
struct Dated<'a> {
    at_unix_ms: i64,
    #[serde(flatten)]
    entry: &'a AuditEntry,
}

/// The open log. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Mutex<Files>>);

#[derive(Debug)]
struct Files {
    path: PathBuf,
    file: File,
    size: u64,
    /// Beginning of the window, its refusals.
    window: (Instant, u32),
    /// True if the last write failed, which is logged once.
    is_broken: bool,
}

impl Audit {
    /// Opens the log in the state directory.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(NAME);
        let file = open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(Files { path, file, size, window: (Instant::now(), 0), is_broken: false }))))
    }

    /// Adds an entry. A failure is only logged: the master continues without its audit log.
    pub fn add(&self, entry: &AuditEntry) {
        // Every change leaves the files consistent.
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = files.add(entry, Instant::now(), crate::clock::wall().unix_ms());
        if let (Err(error), false) = (&result, files.is_broken) {
            tracing::error!(path = %files.path.display(), %error, "cannot write the audit log");
        }
        files.is_broken = result.is_err();
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl Files {
    fn add(&mut self, entry: &AuditEntry, now: Instant, wall: i64) -> io::Result<()> {
        if now.duration_since(self.window.0) >= WINDOW {
            let omitted = self.window.1.saturating_sub(REFUSALS);
            self.window = (now, 0);
            if omitted > 0 {
                let text = format!("{omitted} more refusals within a minute");
                self.write(&AuditEntry::of(AuditKind::Refused, "", &text), wall)?;
            }
        }
        if entry.what == AuditKind::Refused {
            self.window.1 = self.window.1.saturating_add(1);
            if self.window.1 > REFUSALS {
                return Ok(());
            }
        }
        self.write(entry, wall)
    }

    fn write(&mut self, entry: &AuditEntry, at_unix_ms: i64) -> io::Result<()> {
        let text = entry.text.chars().take(TEXT).collect();
        let mut line = serde_json::to_vec(&Dated { at_unix_ms, entry: &AuditEntry { text, ..entry.clone() } })?;
        line.push(b'\n');
        let length = line.len() as u64;
        if self.size + length > SIZE {
            let former = self.path.with_added_extension("1");
            // The former file is the older half of the log.
            let _ = fs::remove_file(&former);
            fs::hard_link(&self.path, &former)?;
            fs::remove_file(&self.path)?;
            self.file = open(&self.path)?;
            self.size = 0;
        }
        self.file.write_all(&line)?;
        self.size += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Files {
        let path = dir.join(NAME);
        Files { file: open(&path).expect("opened"), path, size: 0, window: (Instant::now(), 0), is_broken: false }
    }

    fn lines(path: &Path) -> Vec<String> {
        fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn entries_are_lines_of_json() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut files = files(dir.path());
        let entry = AuditEntry::of(AuditKind::Asked, "root", "a \"b\"\nc");
        files.add(&entry, Instant::now(), 5).expect("written");
        let expected = r#"{"at_unix_ms":5,"what":"asked","who":"root","text":"a \"b\"\nc"}"#;
        assert_eq!(lines(&files.path), [expected]);
    }

    #[test]
    fn refusals_above_the_limit_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut files = files(dir.path());
        let (begin, refused) = (Instant::now(), AuditEntry::of(AuditKind::Refused, "", "no"));
        (0..1003).for_each(|_| files.add(&refused, begin, 0).expect("written"));
        files.add(&AuditEntry::of(AuditKind::Asked, "root", "yes"), begin, 0).expect("written");
        assert_eq!(lines(&files.path).len(), 1001, "what operators ask is always logged");
        files.add(&refused, begin + WINDOW, 0).expect("written");
        let all = lines(&files.path);
        assert_eq!(all.len(), 1003);
        assert!(all[1001].contains("3 more refusals within a minute"), "{}", all[1001]);
    }

    #[test]
    fn the_log_keeps_at_most_two_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut files = files(dir.path());
        let entry = AuditEntry::of(AuditKind::Asked, "root", &"a".repeat(5000));
        for _ in 0..20_000 {
            files.add(&entry, Instant::now(), 0).expect("written");
        }
        let sizes: Vec<u64> = fs::read_dir(dir.path())
            .expect("listed")
            .map(|file| file.expect("a file").metadata().expect("known").len())
            .collect();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| (1..=SIZE).contains(size)), "{sizes:?}");
    }
}
