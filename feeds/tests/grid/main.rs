//! Sources of limits at their real interfaces: HTTP servers and clients over real sockets, files of other programs.

mod file;
mod openadr;
mod pull;
mod push;
mod server;
mod tls;

use std::time::Duration;

use limo_feeds::grid::{Teller, Word};
use tokio::sync::mpsc::{Receiver, channel};

/// Longest wait of a test: longer than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Short for a test, but long for a request.
const POLL: Duration = Duration::from_millis(100);

/// Receiver of one source's messages.
struct Ear {
    words: Receiver<(usize, Word)>,
}

impl Ear {
    fn new() -> (Teller, Self) {
        let (telling, words) = channel(64);
        (Teller::new(7, telling), Self { words })
    }

    async fn next(&mut self) -> Word {
        let word = tokio::time::timeout(PATIENCE, self.words.recv()).await.expect("a word in time");
        let (source, word) = word.expect("the source goes on");
        assert_eq!(source, 7);
        word
    }

    /// Returns the first value that `wanted` gives for a message; skips other messages.
    async fn next_of<T>(&mut self, wanted: impl Fn(&Word) -> Option<T>) -> T {
        loop {
            let word = self.next().await;
            match wanted(&word) {
                Some(found) => return found,
                None => eprintln!("passed over: {word:?}"),
            }
        }
    }

    /// Returns the upper limits of the next message with exactly `count` limits, in watts.
    async fn watts(&mut self, count: usize) -> Vec<f64> {
        self.next_of(|word| match word {
            Word::Limits(limits) if limits.len() == count => {
                Some(limits.iter().map(|limit| limit.high.watts()).collect())
            }
            _ => None,
        })
        .await
    }

    /// Returns the next fault that contains `part`.
    async fn fault(&mut self, part: &str) -> String {
        self.next_of(|word| match word {
            Word::Fault(fault) if fault.contains(part) => Some(fault.clone()),
            _ => None,
        })
        .await
    }
}
