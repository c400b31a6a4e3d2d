//! Common parts of sources that reach outside: the sender of their messages, the pause after a failure, and secrets
//! from files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::Backoff;
use thiserror::Error;
use tokio::sync::mpsc::Sender;

use super::limit::Word;
use crate::fetch::{FetchError, Request, SKEW_LIMIT, now, pause_after};
use crate::file::{self, FileError};

/// Longest pause after failures. A limit must not arrive late only because the server was down before.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Most characters of a fault. It may repeat a server's text, is logged, and is part of the status of the cluster,
/// which must fit into a frame.
const FAULT_LIMIT: usize = 500;

/// Most bytes of a secret.
const SECRET_LIMIT: usize = 4096;

/// Sender of one source's messages.
#[derive(Debug, Clone)]
pub struct Teller {
    source: usize,
    words: Sender<(usize, Word)>,
}

/// The receiver is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the receiver is closed")]
pub struct Deaf;

impl Teller {
    /// Makes the sender for the source with this index, through `words`.
    pub fn new(source: usize, words: Sender<(usize, Word)>) -> Self {
        Self { source, words }
    }

    /// Sends a message; truncates a long fault.
    ///
    /// # Errors
    /// [`Deaf`]: the source may end.
    pub async fn tell(&self, word: Word) -> Result<(), Deaf> {
        let word = match word {
            Word::Fault(fault) => Word::Fault(fault.chars().take(FAULT_LIMIT).collect()),
            other => other,
        };
        self.words.send((self.source, word)).await.map_err(|_| Deaf)
    }
}

/// Returns the pause after `failures` in a row; `poll` is the pause without failures.
pub(super) fn pause(failures: u32, poll: Duration, error: Option<&FetchError>) -> Duration {
    let seed = u64::try_from(now().unix_ms()).unwrap_or_default();
    let backoff = Backoff { first: poll.saturating_mul(2), longest: LONGEST_PAUSE.max(poll) };
    let scattered = pause_after(failures, backoff, seed);
    scattered.max(error.and_then(FetchError::retry_after).unwrap_or_default())
}

/// Makes the message about a server whose clock differs too much.
pub(super) fn another_clock(url: &str) -> String {
    let (url, secs) = (Request::get(url).shown(), SKEW_LIMIT.ms() / 1_000);
    format!("{url}: its clock and this machine's differ by more than {secs} s")
}

/// Reason why there is no secret. No message shows any of it.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SecretError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} can be read by every user: type `chmod o= {}`", path.display(), path.display())]
    Open { path: PathBuf },
    #[error("{} does not have one line of text", path.display())]
    Form { path: PathBuf },
}

/// Returns the only line of a file that must not be readable by all users.
///
/// # Errors
/// [`SecretError`].
pub fn secret(path: &Path) -> Result<String, SecretError> {
    let text = private(path)?;
    let line = text.trim();
    let printable = !line.is_empty() && line.chars().all(|c| c.is_ascii_graphic());
    if printable { Ok(line.to_owned()) } else { Err(SecretError::Form { path: path.to_owned() }) }
}

/// Returns the text of a file that must not be readable by all users.
pub(super) fn private(path: &Path) -> Result<String, SecretError> {
    let (bytes, metadata) = file::read(path, SECRET_LIMIT)?;
    if metadata.mode() & 0o004 != 0 {
        return Err(SecretError::Open { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| SecretError::Form { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_are_for_few_eyes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let check = |text: &str, mode: u32, expected: Result<&str, &str>| {
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("allowed");
            match (secret(&path).map_err(|error| error.to_string()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        };
        check("s3cret\n", 0o600, Ok("s3cret"));
        check("s3cret\n", 0o640, Ok("s3cret"));
        check("s3cret\n", 0o644, Err("can be read by every user: type `chmod o= "));
        check("\n", 0o600, Err("does not have one line of text"));
        check("two\nlines\n", 0o600, Err("does not have one line of text"));
        check(&"x".repeat(5000), 0o600, Err("is longer than 4096 bytes"));
        std::fs::remove_file(&path).expect("removed");
        assert!(secret(&path).expect_err("refused").to_string().starts_with("cannot read "));
    }

    #[test]
    fn pauses_are_a_minute_at_most_unless_the_server_asks() {
        let poll = Duration::from_secs(5);
        for failures in [1, 2, 5, 40] {
            let found = pause(failures, poll, None);
            assert!(found >= poll && found <= LONGEST_PAUSE, "{failures}: {found:?}");
        }
        let asked = Some(Duration::from_secs(300));
        let busy = FetchError::Busy { url: String::new(), status: 429, retry_after: asked };
        assert_eq!(pause(1, poll, Some(&busy)), Duration::from_secs(300));
    }
}
