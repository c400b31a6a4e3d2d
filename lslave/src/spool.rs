//! Records of attempts in the state directory: the intent to run, the start, the end. Decides nothing.
//!
//! A record has to survive the daemon, not the machine: a file is complete before it gets its name, and nothing is
//! flushed to the disk. After a power loss records may be missing or empty, but then the kernel's boot id has changed and
//! nothing runs; the node believes no record that another boot left unfinished.

mod first;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use limo_model::{Attempt, JobId};
use limo_node::{End, Found, Intent, Record};
use limo_proto::{EncodeError, decode_stored_as, encode_stored_as};
use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;

/// Of an [`Intent`] and an [`End`] on disk. Format 1 is read, too: see [`first`].
const FORMAT: u8 = 2;

#[derive(Debug, Error)]
pub enum SpoolError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("another lslave uses the state directory {}", path.display())]
    InUse { path: PathBuf },
    #[error("cannot record the job: {0}")]
    Encode(#[from] EncodeError),
    #[error("no randomness from the kernel: {0}")]
    Random(getrandom::Error),
}

/// The state directory, held against other daemons as long as this lives.
#[derive(Debug)]
pub struct Spool {
    attempts: PathBuf,
    /// Random, made once per state directory.
    pub instance: String,
    lock: Flock<File>,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.to_owned();
    move |source| SpoolError::Io { what, path, source }
}

/// `lshepherd` of a killed daemon has the daemon's lock until it has ended the jobs, which takes 3 s at most.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Locks the file; `None` where somebody else keeps it locked.
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

/// 128 random bits in hexadecimal.
fn random_name() -> Result<String, SpoolError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(SpoolError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Spool {
    /// # Errors
    /// Where the directory cannot be made or written, or another daemon has it.
    pub fn open(state_dir: &Path) -> Result<Self, SpoolError> {
        let attempts = state_dir.join("attempts");
        // Environments of jobs hold secrets.
        DirBuilder::new().recursive(true).mode(0o700).create(&attempts).map_err(failed("make", &attempts))?;
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
            Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
            _ => {
                let fresh = random_name()?;
                write_whole(&path, format!("{fresh}\n").as_bytes())?;
                fresh
            }
        };
        Ok(Self { attempts, instance, lock })
    }

    /// Tells whether jobs can be recorded, by writing and removing a file.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn probe(&self) -> Result<(), SpoolError> {
        let path = self.attempts.join("probe");
        write_whole(&path, b"probe")?;
        fs::remove_file(&path).map_err(failed("remove", &path))
    }

    /// The file whose lock keeps other daemons out. Whoever has its description open holds the lock, too.
    pub fn lock(&self) -> &File {
        &self.lock
    }

    fn path(&self, job: JobId, attempt: Attempt, kind: &str) -> PathBuf {
        self.attempts.join(format!("{job}.{attempt}.{kind}"))
    }

    /// Keeps a record.
    ///
    /// # Errors
    /// If it cannot be written, or those of a forgotten attempt cannot be removed.
    pub fn keep(&self, record: &Record) -> Result<(), SpoolError> {
        match record {
            Record::Intent(intent) => self.hold(intent),
            Record::Going { job, attempt } => self.going(*job, *attempt),
            Record::End { job, attempt, end } => self.end(*job, *attempt, end),
            Record::Forget { job, attempt } => self.forget(*job, *attempt),
        }
    }

    /// Records that an attempt will run here.
    ///
    /// # Errors
    /// Where it cannot be written; nothing is left of it then.
    fn hold(&self, intent: &Intent) -> Result<(), SpoolError> {
        let path = self.path(intent.exec.job, intent.exec.attempt, "intent");
        write_whole(&path, &encode_stored_as(FORMAT, intent)?)
    }

    /// Records that the command is about to be started: from here on the attempt never runs again.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn going(&self, job: JobId, attempt: Attempt) -> Result<(), SpoolError> {
        let path = self.path(job, attempt, "going");
        File::create(&path).map(drop).map_err(failed("write", &path))
    }

    /// Records how an attempt ended.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn end(&self, job: JobId, attempt: Attempt, end: &End) -> Result<(), SpoolError> {
        write_whole(&self.path(job, attempt, "end"), &encode_stored_as(FORMAT, end)?)
    }

    /// Removes all records of an attempt.
    ///
    /// # Errors
    /// Where the intent cannot be removed.
    fn forget(&self, job: JobId, attempt: Attempt) -> Result<(), SpoolError> {
        // The intent first: what is left without it counts for nothing.
        for kind in ["intent", "going", "end"] {
            let path = self.path(job, attempt, kind);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(SpoolError::Io { what: "remove", path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All attempts with an intent; removes what belongs to none.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn recover(&self) -> Result<BTreeMap<(JobId, Attempt), Found>, SpoolError> {
        let mut found: BTreeMap<(JobId, Attempt), Found> = BTreeMap::new();
        let mut intents = Vec::new();
        for entry in fs::read_dir(&self.attempts).map_err(failed("read", &self.attempts))? {
            let path = entry.map_err(failed("read", &self.attempts))?.path();
            let Some((job, attempt, kind)) = path.file_name().and_then(|name| parse_name(name.to_str()?)) else {
                // A record that was being written.
                let _ = fs::remove_file(&path);
                continue;
            };
            let one = found.entry((job, attempt)).or_default();
            let bytes = fs::read(&path).map_err(failed("read", &path))?;
            match kind {
                Kind::Intent => {
                    intents.push((job, attempt));
                    one.intent = decode_stored_as(FORMAT, &bytes).or_else(|_| first::decode(&bytes)).ok();
                }
                Kind::Going => one.going = true,
                Kind::End => one.end = decode_stored_as(FORMAT, &bytes).or_else(|_| first::decode_end(&bytes)).ok(),
            }
        }
        for &(job, attempt) in found.keys().filter(|key| !intents.contains(key)) {
            self.forget(job, attempt)?;
        }
        found.retain(|key, _| intents.contains(key));
        Ok(found)
    }
}

enum Kind {
    Intent,
    Going,
    End,
}

fn parse_name(name: &str) -> Option<(JobId, Attempt, Kind)> {
    let mut parts = name.split('.');
    let (job, attempt, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = match (kind, parts.next()) {
        ("intent", None) => Kind::Intent,
        ("going", None) => Kind::Going,
        ("end", None) => Kind::End,
        _ => return None,
    };
    Some((job.parse().ok()?, Attempt(attempt.parse().ok()?), kind))
}

/// Writes a file that is either whole or not there.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), SpoolError> {
    let unfinished = path.with_added_extension("tmp");
    let written = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&unfinished);
        SpoolError::Io { what: "write", path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use limo_model::{Outcome, Usage};

    use super::*;

    #[test]
    fn what_belongs_to_no_intent_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::open(dir.path()).expect("a spool");
        let end = End { outcome: Outcome::Exited(3), usage: Usage::default() };
        spool.going(JobId(1), Attempt(2)).expect("written");
        spool.end(JobId(1), Attempt(2), &end).expect("written");
        fs::write(dir.path().join("attempts/4.1.intent.tmp"), b"half").expect("written");
        fs::write(dir.path().join("attempts/5.1.intent"), b"").expect("written");
        let found = spool.recover().expect("readable");
        assert_eq!(found.keys().collect::<Vec<_>>(), [&(JobId(5), Attempt(1))]);
        assert!(found.values().all(|found| found.intent.is_none() && !found.going));
        let left: Vec<_> = fs::read_dir(dir.path().join("attempts")).expect("readable").collect();
        assert_eq!(left.len(), 1, "only the unreadable intent is left: {left:?}");
    }

    /// What `lslave` of the first format left when it was killed; see `tests/fixtures/make.sh`.
    #[test]
    fn records_of_the_first_format_are_read() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/schema-4/node");
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool::open(dir.path()).expect("a spool");
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
            // Written again it has the newer format, and says the same.
            let intent = Intent { exec, cookie, boot: String::new() };
            spool.hold(&intent).expect("written");
            assert_eq!(spool.recover().expect("readable")[&(job, attempt)].intent, Some(intent));
        }
    }

    #[test]
    fn a_lock_that_is_let_go_soon_is_waited_for() {
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
    }
}
