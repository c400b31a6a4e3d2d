//! An `lrun cat` with a continuous stream of bytes during a test.

use std::io::{Read, Write};
use std::process::{Child, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::dice::Dice;
use crate::digest::Digest;
use crate::submitter::{Submitter, finish};
use crate::until::until;

/// Pause between writes: bytes are always in transit, at little cost for the machine.
const PAUSE: Duration = Duration::from_millis(5);

pub struct Torrent {
    lrun: Child,
    enough: Arc<AtomicBool>,
    writer: JoinHandle<Digest>,
    reader: JoinHandle<Digest>,
}

impl Torrent {
    /// Starts the stream, whose `lrun` gets these options, and returns when the first byte is back.
    ///
    /// # Panics
    /// If that takes longer than [`crate::LIMIT`].
    pub fn start(submitter: &Submitter, options: &[&str]) -> Self {
        let mut lrun = submitter.spawn_lrun(&[options, &["-Q", "cat"]].concat());
        let (mut stdin, mut stdout) = (lrun.stdin.take().expect("piped"), lrun.stdout.take().expect("piped"));
        let enough = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&enough);
        let writer = thread::spawn(move || {
            let (mut digest, mut dice) = (Digest::default(), Dice::new(1));
            let mut block = [0; 8 * 1024];
            while !stop.load(Ordering::Relaxed) {
                block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&dice.next_u64().to_le_bytes()));
                digest.take(&block);
                stdin.write_all(&block).expect("lrun reads");
                thread::sleep(PAUSE);
            }
            digest
        });
        let first = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&first);
        let reader = thread::spawn(move || read(&mut stdout, &seen));
        until("the first byte is back", || first.load(Ordering::Relaxed).then_some(()));
        Self { lrun, enough, writer, reader }
    }

    /// Ends the stream, and checks that every byte came back once and in order.
    pub fn check(self) {
        self.enough.store(true, Ordering::Relaxed);
        let sent = self.writer.join().expect("it writes");
        let ran = finish(self.lrun);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(self.reader.join().expect("it reads"), sent);
    }
}

fn read(stdout: &mut ChildStdout, seen: &AtomicBool) -> Digest {
    let (mut digest, mut buffer) = (Digest::default(), vec![0; 64 * 1024]);
    loop {
        let count = stdout.read(&mut buffer).expect("lrun writes");
        if count == 0 {
            return digest;
        }
        digest.take(&buffer[..count]);
        seen.store(true, Ordering::Relaxed);
    }
}
