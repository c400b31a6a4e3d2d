//! Records of attempts in the state directory: the intent to run, the start, the end.
//!
//! Records must survive the daemon, but not the machine, so nothing is flushed to the disk. After a power loss the
//! last records may be missing. Then the kernel's boot id has changed, and nothing runs. The node ignores unfinished
//! records of another boot.

mod files;
mod first;
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use limo_files::Outlasts;
use limo_model::{Attempt, JobId};
use limo_node::{Found, OwnerRecord, Record};
use limo_proto::{EncodeError, decode_stored_as, encode_stored_as};
use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;
use tracing::warn;

use log::{Entry, Log, LogError};

/// Format of a record in the log.
const ENTRY_FORMAT: u8 = 3;

/// Log file in the state directory.
const LOG: &str = "records";

/// File with the state of the owner, in the state directory.
const OWNER: &str = "owner";

/// Format of that file.
const OWNER_FORMAT: u8 = 1;

/// Key of an attempt.
type Key = (JobId, Attempt);

#[derive(Debug, Error)]
pub enum SpoolError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("another lslave uses the state directory {}", path.display())]
    InUse { path: PathBuf },
    #[error("cannot record the job: {0}")]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot get random numbers from the kernel: {0}")]
    Random(getrandom::Error),
}

/// State directory, locked against other daemons.
#[derive(Debug)]
pub struct Spool {
    log: Log<Key>,
    /// Entries that the log had when it was opened.
    entries: Vec<Entry>,
    /// File with the state of the owner.
    owner: PathBuf,
    /// Directory of earlier daemons, with a file for each record.
    attempts: PathBuf,
    /// Attempts with files of earlier daemons.
    files: BTreeSet<Key>,
    /// Random name, made once per state directory.
    pub instance: String,
    /// Excludes other daemons.
    _lock: Flock<File>,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.to_owned();
    move |source| SpoolError::Io { what, path, source }
}

/// Longest wait for the lock, which an ending daemon may still hold. `lshepherd` of an earlier release holds it until it
/// has ended the jobs, which takes 3 s at most.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Locks the file; `None` if another process has the lock.
fn lock(mut file: File) -> Option<Flock<File>> {
    let end = Instant::now() + LOCK_PATIENCE;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Some(lock),
            Err(_) if Instant::now() > end => return None,
            Err((unlocked, _)) => file = unlocked,
        }
        thread::sleep(LOCK_PAUSE);
    }
}

/// Returns 128 random bits in hexadecimal.
fn random_name() -> Result<String, SpoolError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(SpoolError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns false for no content or zeros, as a power loss leaves them in a file of an earlier release.
fn is_random_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Spool {
    /// Opens and locks the directory.
    ///
    /// # Errors
    /// If it cannot be created or written, or another daemon uses it.
    pub fn open(state_dir: &Path) -> Result<Self, SpoolError> {
        let path = state_dir.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed("open", &path))?;
        let lock = lock(file).ok_or_else(|| SpoolError::InUse { path: state_dir.to_owned() })?;
        let path = state_dir.join("instance");
        let instance = match fs::read_to_string(&path) {
            Ok(text) if is_random_name(text.trim()) => text.trim().to_owned(),
            _ => {
                let fresh = random_name()?;
                write_whole(&path, Outlasts::Crash, format!("{fresh}\n").as_bytes())?;
                fresh
            }
        };
        let (log, entries) = Log::open(&state_dir.join(LOG))?;
        let (owner, attempts) = (state_dir.join(OWNER), state_dir.join("attempts"));
        Ok(Self { log, entries, owner, attempts, files: BTreeSet::new(), instance, _lock: lock })
    }

    /// Checks that records can be written.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn probe(&mut self) -> Result<(), SpoolError> {
        // Recovery writes to a damaged log, and the damage must be seen until then.
        if self.log.is_damaged { Ok(()) } else { Ok(self.log.probe()?) }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// If it cannot be written; no part of it remains then.
    pub fn keep(&mut self, record: &Record) -> Result<(), SpoolError> {
        let key = record.key();
        let entry = encode_stored_as(ENTRY_FORMAT, record)?;
        if let Record::Forget { .. } = record {
            if self.files.remove(&key) {
                files::remove(&self.attempts, key)?;
            }
            if self.log.forget(key) {
                self.log.append(None, &entry)?;
            }
            return Ok(());
        }
        Ok(self.log.append(Some(key), &entry)?)
    }

    /// Writes the state of the owner.
    ///
    /// # Errors
    /// If it cannot be written; the earlier state remains then.
    pub fn keep_owner(&self, record: &OwnerRecord) -> Result<(), SpoolError> {
        write_whole(&self.owner, Outlasts::Process, &encode_stored_as(OWNER_FORMAT, record)?)
    }

    /// Returns the state of the owner; without a readable file, that of a machine without an owner.
    pub fn owner(&self) -> OwnerRecord {
        let bytes = match fs::read(&self.owner) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return OwnerRecord::default(),
            read => read.map_err(|error| error.to_string()),
        };
        let record = bytes.and_then(|bytes| decode_stored_as(OWNER_FORMAT, &bytes).map_err(|error| error.to_string()));
        record.unwrap_or_else(|error| {
            warn!(path = %self.owner.display(), error, "the state of the owner cannot be read, and is forgotten");
            OwnerRecord::default()
        })
    }

    /// Returns all attempts with an intent; forgets other records.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn recover(&mut self) -> Result<BTreeMap<Key, Found>, SpoolError> {
        let mut found = files::read(&self.attempts)?;
        let mut known: BTreeSet<Key> = found.keys().copied().collect();
        self.files.clone_from(&known);
        for entry in std::mem::take(&mut self.entries) {
            let record: Record = match decode_stored_as(ENTRY_FORMAT, &entry.bytes) {
                Ok(record) => record,
                Err(error) => return Err(self.log.unknown(entry.offset, error.to_string()).into()),
            };
            let key = record.key();
            let one = found.entry(key).or_default();
            match record {
                Record::Intent(intent) => {
                    known.insert(key);
                    one.intent = Some(*intent);
                }
                Record::Going { .. } => one.going = true,
                Record::Released { expected, .. } => one.released = Some(expected),
                Record::End { end, .. } => one.end = Some(*end),
                Record::Unfit { reason, .. } => one.unfit = Some(reason),
                Record::Evicted { .. } => one.is_evicted = true,
                Record::Forget { .. } => {
                    known.remove(&key);
                    found.remove(&key);
                    self.log.forget(key);
                    continue;
                }
            }
            self.log.keep(key, &entry);
        }
        found.retain(|key, _| {
            let is_known = known.contains(key);
            if !is_known {
                self.log.forget(*key);
            }
            is_known
        });
        if self.log.is_damaged {
            // The records of their starts may be among the lost ones.
            for (&(job, attempt), one) in found.iter_mut().filter(|(_, one)| one.end.is_none()) {
                one.going = true;
                self.keep(&Record::Going { job, attempt })?;
            }
        }
        Ok(found)
    }
}

/// Writes a file atomically.
fn write_whole(path: &Path, outlasts: Outlasts, bytes: &[u8]) -> Result<(), SpoolError> {
    limo_files::replace(path, 0o600, outlasts, |file| file.write_all(bytes)).map_err(failed("write", path))
}

#[cfg(test)]
mod tests {
    use limo_model::{Outcome, Span, Usage};
    use limo_node::{End, Intent};
    use limo_proto::{DoExec, Launch};

    use super::*;

    fn intent(job: u64) -> Record {
        let exec = DoExec {
            journal: limo_model::JournalId::default(),
            job: JobId(job),
            attempt: Attempt(1),
            name: "true".into(),
            application: "true".into(),
            size: String::new(),
            user: "root".into(),
            placement: Vec::new(),
            launch: Launch { argv: vec![b"true".to_vec()], ..Launch::default() },
            time_limit: None,
            warning: None,
            kill_grace: Span::ZERO,
            restarts: 0,
            task: None,
            share: None,
            lease: None,
            checkpoint: None,
            step: None,
        };
        Record::Intent(Box::new(Intent { exec, cookie: "cookie".into(), boot: "boot".into() }))
    }

    fn end(job: u64) -> Record {
        let end = Box::new(End { outcome: Outcome::Exited(3), usage: Usage::default() });
        Record::End { job: JobId(job), attempt: Attempt(1), end }
    }

    #[test]
    fn records_outlive_the_daemon_until_they_are_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        spool.recover().expect("readable");
        let (job, attempt) = (JobId(2), Attempt(1));
        // The last record has no intent and is ignored.
        for record in [intent(1), intent(2), Record::Going { job, attempt }, end(2), intent(3), end(3), end(4)] {
            spool.keep(&record).expect("written");
        }
        spool.keep(&Record::Forget { job: JobId(3), attempt }).expect("written");
        drop(spool);
        let mut spool = Spool::open(dir.path()).expect("a spool");
        let found = spool.recover().expect("readable");
        let kinds: Vec<_> = found.iter().map(|((job, _), found)| (job.0, found.going, found.end.is_some())).collect();
        assert_eq!(kinds, [(1, false, false), (2, true, true)]);
        assert!(found.values().all(|found| found.intent.is_some()));
    }

    #[test]
    fn attempts_may_have_run_once_records_are_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        (1..=3).for_each(|job| spool.keep(&intent(job)).expect("written"));
        let path = dir.path().join(LOG);
        let mut bytes = fs::read(&path).expect("three records");
        let third = bytes.len() / 3;
        bytes[third + 20] ^= 1;
        fs::write(&path, bytes).expect("written");
        drop(spool);
        for _ in 0..2 {
            let found = Spool::open(dir.path()).expect("a spool").recover().expect("readable");
            assert_eq!(found.iter().map(|(key, one)| (key.0.0, one.going)).collect::<Vec<_>>(), [(1, true)]);
        }
    }

    #[test]
    fn an_unreadable_entry_is_an_error_with_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        spool.log.append(None, b"\xffsomething else").expect("written");
        drop(spool);
        let error = Spool::open(dir.path()).expect("a spool").recover().expect_err("nothing").to_string();
        assert!(error.contains("records has an unknown entry at byte 0: "), "{error}");
    }

    #[test]
    fn earlier_files_without_an_intent_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let attempts = dir.path().join("attempts");
        fs::create_dir(&attempts).expect("made");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        for name in ["1.2.going", "1.2.end", "4.1.intent.tmp", "5.1.intent"] {
            fs::write(attempts.join(name), b"").expect("written");
        }
        let found = spool.recover().expect("readable");
        assert_eq!(found.keys().collect::<Vec<_>>(), [&(JobId(5), Attempt(1))]);
        assert!(found.values().all(|found| found.intent.is_none() && !found.going));
        let left: Vec<_> = fs::read_dir(&attempts).expect("readable").collect();
        assert_eq!(left.len(), 1, "only the unreadable intent is left: {left:?}");
        spool.keep(&end(5)).expect("written");
        spool.keep(&Record::Forget { job: JobId(5), attempt: Attempt(1) }).expect("forgotten");
        assert_eq!(fs::read_dir(&attempts).expect("readable").count(), 0);
        drop(spool);
        assert!(Spool::open(dir.path()).expect("a spool").recover().expect("readable").is_empty());
    }

    /// Uses records that a killed `lslave` of the first format left; see `tests/fixtures/make.sh`.
    #[test]
    fn records_of_the_first_format_are_read() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/schema-4/node");
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path()).expect("a spool");
        fs::create_dir(&spool.attempts).expect("made");
        for entry in fs::read_dir(from.join("attempts")).expect("readable") {
            let path = entry.expect("readable").path();
            fs::copy(&path, spool.attempts.join(path.file_name().expect("a name"))).expect("copied");
        }
        let found = spool.recover().expect("readable");
        let kinds = found.iter().map(|((job, _), found)| (job.0, found.going, found.end.is_some())).collect::<Vec<_>>();
        assert_eq!(kinds, [(3, true, false), (4, true, true), (5, false, false)]);
        for ((job, attempt), found) in found {
            assert!(found.end.iter().all(|end| end.outcome == Outcome::Signaled(15)), "{:?}", found.end);
            let Intent { exec, cookie, .. } = found.intent.expect("readable");
            assert_eq!((exec.job, exec.attempt, exec.journal), (job, attempt, limo_model::JournalId::default()));
            assert_eq!((exec.user.as_str(), exec.launch.argv[0].as_slice(), cookie.len()), ("root", &b"sh"[..], 32));
        }
    }

    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = Spool::open(dir.path()).expect("a spool");
        let (path, instance) = (dir.path().to_owned(), first.instance.clone());
        let second = thread::spawn(move || Spool::open(&path).map(|spool| spool.instance));
        drop(first);
        assert_eq!(second.join().expect("no panic").expect("free"), instance);
    }

    #[test]
    fn one_daemon_per_directory_and_one_instance_for_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = Spool::open(dir.path()).expect("a spool");
        let second = Spool::open(dir.path()).map(|spool| spool.instance).map_err(|error| error.to_string());
        assert_eq!(second, Err(format!("another lslave uses the state directory {}", dir.path().display())));
        let instance = first.instance.clone();
        drop(first);
        assert_eq!(Spool::open(dir.path()).expect("free again").instance, instance);
        fs::write(dir.path().join("instance"), [0; 33]).expect("written");
        let fresh = Spool::open(dir.path()).expect("a spool").instance;
        assert!(is_random_name(&fresh) && fresh != instance, "{fresh}");
    }
}
