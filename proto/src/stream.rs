//! One direction of a job's stdio as a stream with credit, without any I/O.
//!
//! Every byte has an offset, and the end counts as one more. The receiver acknowledges what it has consumed; the
//! sender keeps unacknowledged bytes and sends at most [`WINDOW`] of them. After a broken connection it resumes at
//! the receiver's offset. So a slow reader blocks only its own writer, and a restart of the master loses no byte.

use std::collections::VecDeque;

use bytes::Bytes;
use limo_model::JobId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most unacknowledged bytes of one stream, which bounds its memory on each side. Four chunks keep a loopback relay
/// busy; a wide-area link of 10 ms still carries 25 MB/s.
pub const WINDOW: u64 = 256 * 1024;

/// Most bytes in one data frame: the capacity of a Linux pipe, so that one read fills one frame.
pub const CHUNK: usize = 64 * 1024;

/// A stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Channel {
    /// Input from the client to the job.
    Stdin,
    /// Output from the job to the client.
    Stdout,
    /// Errors from the job to the client.
    Stderr,
}

/// A direction of a job's stdio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId {
    /// The job of the stream.
    pub job: JobId,
    /// The kind of the stream.
    pub channel: Channel,
    /// Index of the node that writes the stream in a multi-node job, from 0. It is 0 between a node and the master,
    /// and for stdin, which all nodes get.
    pub part: u32,
}

impl StreamId {
    /// Makes the id for a job on one node, or for the node's own use.
    pub fn new(job: JobId, channel: Channel) -> Self {
        Self { job, channel, part: 0 }
    }
}

/// Offsets of a job's streams, for a client that attaches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Positions {
    /// Offset from which stdin continues; `None` if it has ended.
    pub stdin: Option<u64>,
    /// Offsets of stdout and stderr from each node.
    pub outputs: Vec<(u64, u64)>,
}

/// Violations of the protocol by a peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum StreamError {
    #[error("data at offset {offset} leaves a gap after {expected}")]
    Gap { offset: u64, expected: u64 },
    #[error("data after the end of the stream at {end}")]
    AfterEnd { end: u64 },
    #[error("acknowledgement of {offset}, of which only {sent} was sent")]
    AckBeyond { offset: u64, sent: u64 },
    #[error("the peer wants to go on from {offset}, but only {from} to {to} is kept")]
    Forgotten { offset: u64, from: u64, to: u64 },
}

/// The sending end.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Unacknowledged bytes, from offset `base` on.
    kept: VecDeque<Bytes>,
    base: u64,
    /// Offset of the next byte to send.
    next: u64,
    /// Offset after the last byte pushed.
    tail: u64,
    closed: bool,
}

impl Outbox {
    /// Starts an empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at `offset`; another sender has sent all earlier bytes.
    pub fn from(offset: u64) -> Self {
        Self { base: offset, next: offset, tail: offset, ..Self::default() }
    }

    /// Returns the number of bytes that may be pushed before the next acknowledgement.
    pub fn room(&self) -> usize {
        // An acknowledged end puts the base one beyond the tail. The difference is at most WINDOW, which fits.
        usize::try_from(WINDOW.saturating_sub(self.tail.saturating_sub(self.base))).unwrap_or(0)
    }

    /// Takes bytes to send. They are dropped after [`Outbox::close`].
    pub fn push(&mut self, bytes: Bytes) {
        if !self.closed && !bytes.is_empty() {
            self.tail += bytes.len() as u64;
            self.kept.push_back(bytes);
        }
    }

    /// Marks the end of the stream.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns true if the end is marked.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the next frame to send: offset and bytes; empty bytes are the end. `None` when everything has been sent.
    pub fn next_chunk(&mut self) -> Option<(u64, Bytes)> {
        let offset = self.next;
        let mut start = self.base;
        for piece in &self.kept {
            let end = start + piece.len() as u64;
            if offset < end {
                // Both differences are within one piece, and the length of a piece is a usize.
                let from = usize::try_from(offset - start).unwrap_or(0);
                let to = piece.len().min(from + CHUNK);
                self.next = start + to as u64;
                return Some((offset, piece.slice(from..to)));
            }
            start = end;
        }
        if self.closed && offset == self.tail {
            self.next = self.tail + 1;
            return Some((self.tail, Bytes::new()));
        }
        None
    }

    /// Records that the receiver has consumed everything below `offset`.
    ///
    /// # Errors
    /// If `offset` was never sent.
    pub fn acknowledge(&mut self, offset: u64) -> Result<(), StreamError> {
        if offset > self.next {
            return Err(StreamError::AckBeyond { offset, sent: self.next });
        }
        self.forget_below(offset);
        Ok(())
    }

    fn forget_below(&mut self, offset: u64) {
        while let Some(piece) = self.kept.front_mut() {
            let end = self.base + piece.len() as u64;
            if offset < end {
                let gone = offset.saturating_sub(self.base);
                // The difference is less than the length of the piece.
                let _ = piece.split_to(usize::try_from(gone).unwrap_or(0));
                self.base = self.base.max(offset);
                return;
            }
            self.base = end;
            self.kept.pop_front();
        }
        self.base = self.base.max(offset);
    }

    /// Resumes on a new connection from `offset`, the position of the receiver.
    ///
    /// # Errors
    /// If bytes from `offset` on were dropped after an acknowledgement, or `offset` was never sent.
    pub fn resume(&mut self, offset: u64) -> Result<(), StreamError> {
        let to = self.tail + u64::from(self.closed);
        if offset < self.base || offset > to {
            return Err(StreamError::Forgotten { offset, from: self.base, to });
        }
        self.forget_below(offset);
        self.next = offset;
        Ok(())
    }

    /// Returns true if the receiver has everything, including the end.
    pub fn is_done(&self) -> bool {
        self.closed && self.base > self.tail
    }
}

/// The receiving end.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Offset of the next byte expected; the end counts as one.
    received: u64,
    /// Offset up to which the owner has consumed bytes.
    consumed: u64,
    /// Last acknowledgement sent.
    acknowledged: u64,
    ended: bool,
}

impl Inbox {
    /// Starts an empty stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at `offset`; another receiver got all earlier bytes.
    pub fn from(offset: u64) -> Self {
        Self { received: offset, consumed: offset, acknowledged: offset, ended: false }
    }

    /// Continues a stream of an earlier receiver, which has taken all bytes below `received` and consumed those below
    /// `consumed`. Both count the end if it has `ended`.
    pub fn resumed(received: u64, consumed: u64, ended: bool) -> Self {
        let consumed = consumed.min(received);
        Self { received, consumed, acknowledged: consumed, ended }
    }

    /// Accepts a frame. Returns its new bytes, empty at the end of the stream; `None` if all its bytes are known.
    ///
    /// # Errors
    /// If bytes before it are missing, or it is data after the end.
    pub fn accept(&mut self, offset: u64, bytes: Bytes) -> Result<Option<Bytes>, StreamError> {
        if offset > self.received {
            return Err(StreamError::Gap { offset, expected: self.received });
        }
        let known = self.received - offset;
        if bytes.is_empty() {
            match (self.ended, known) {
                (false, 0) => {}
                // The end is repeated, or a node without the stream ends it at the position of its receiver.
                (true, 0 | 1) => return Ok(None),
                _ => return Err(StreamError::AfterEnd { end: offset }),
            }
            self.received += 1;
            self.ended = true;
            return Ok(Some(bytes));
        }
        if known >= bytes.len() as u64 {
            return Ok(None);
        }
        if self.ended {
            return Err(StreamError::AfterEnd { end: self.received });
        }
        self.received = offset + bytes.len() as u64;
        // `known` is less than the length.
        Ok(Some(bytes.slice(usize::try_from(known).unwrap_or(0)..)))
    }

    /// Records that the owner has consumed everything received so far.
    pub fn consume(&mut self) {
        self.consumed = self.received;
    }

    /// Records that the owner has consumed `count` more bytes.
    pub fn consume_bytes(&mut self, count: u64) {
        self.consumed = (self.consumed + count).min(self.received);
    }

    /// Returns a due acknowledgement. One for each quarter of the window keeps the sender going; the end is
    /// acknowledged at once.
    pub fn due_ack(&mut self) -> Option<u64> {
        let fresh = self.consumed - self.acknowledged;
        if fresh >= WINDOW / 4 || (fresh > 0 && self.ended && self.consumed == self.received) {
            self.acknowledged = self.consumed;
            return Some(self.consumed);
        }
        None
    }

    /// Returns the offset at which to resume after a broken connection.
    pub fn offset(&self) -> u64 {
        self.received
    }

    /// Returns true if the end was received.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Carries `data` over an unreliable link, which delivers each frame once, twice or not at all before a break.
    fn carry(data: &[u8], pieces: &[usize], faults: &[u8]) -> Vec<u8> {
        let (mut out, mut inbox, mut got) = (Outbox::new(), Inbox::new(), Vec::new());
        let (mut at, mut pieces, mut faults) = (0, pieces.iter().cycle(), faults.iter());
        while !inbox.has_ended() {
            while at < data.len() && out.room() > 0 {
                let take = pieces.next().copied().unwrap_or(1).clamp(1, data.len() - at).min(out.room());
                out.push(Bytes::copy_from_slice(&data[at..at + take]));
                at += take;
            }
            if at == data.len() {
                out.close();
            }
            let Some((offset, bytes)) = out.next_chunk() else {
                // The window is full, but no acknowledgement is due; a break resolves this.
                out.resume(inbox.offset()).expect("kept");
                continue;
            };
            match faults.next().copied().unwrap_or(1) % 8 {
                0 => out.resume(inbox.offset()).expect("kept"),
                2 => {
                    deliver(&mut inbox, offset, bytes.clone(), &mut got);
                    deliver(&mut inbox, offset, bytes, &mut got);
                }
                _ => deliver(&mut inbox, offset, bytes, &mut got),
            }
            inbox.consume();
            if let Some(ack) = inbox.due_ack() {
                out.acknowledge(ack).expect("sent");
            }
        }
        assert!(out.is_done(), "the end is acknowledged at once");
        assert_eq!(out.room() as u64, WINDOW, "nothing is kept any more");
        got
    }

    fn deliver(inbox: &mut Inbox, offset: u64, bytes: Bytes, got: &mut Vec<u8>) {
        if let Some(new) = inbox.accept(offset, bytes).expect("no gap") {
            got.extend_from_slice(&new);
        }
    }

    #[test]
    fn another_receiver_continues_a_stream() {
        let mut inbox = Inbox::resumed(30, 10, false);
        assert_eq!((inbox.offset(), inbox.has_ended(), inbox.due_ack()), (30, false, None));
        let again = Bytes::from(vec![1; 25]);
        assert_eq!(inbox.accept(10, again).expect("no gap"), Some(Bytes::from(vec![1; 5])), "20 bytes are known");
        assert!(inbox.accept(36, Bytes::from_static(b"x")).is_err(), "a gap");
        inbox.accept(35, Bytes::new()).expect("the end");
        inbox.consume_bytes(26);
        assert_eq!(inbox.due_ack(), Some(36), "the bytes before 10 were consumed by the other one");
        let mut ended = Inbox::resumed(5, 5, true);
        assert_eq!((ended.accept(4, Bytes::new()), ended.due_ack()), (Ok(None), None), "the end is known");
    }

    proptest! {
        #[test]
        fn every_byte_arrives_once(
            length in 0_usize..1_000_000,
            pieces in proptest::collection::vec(1_usize..200_000, 1..8),
            faults in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let data: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            prop_assert!(carry(&data, &pieces, &faults) == data);
        }
    }

    #[test]
    fn a_sender_stops_at_the_window() {
        let mut out = Outbox::new();
        out.push(Bytes::from(vec![0; usize::try_from(WINDOW).expect("small")]));
        assert_eq!(out.room(), 0);
        while out.next_chunk().is_some() {}
        out.acknowledge(1000).expect("sent");
        assert_eq!(out.room(), 1000);
    }

    #[test]
    fn lies_are_refused() {
        let (mut out, mut inbox) = (Outbox::new(), Inbox::new());
        assert_eq!(out.acknowledge(1), Err(StreamError::AckBeyond { offset: 1, sent: 0 }));
        assert_eq!(out.resume(1), Err(StreamError::Forgotten { offset: 1, from: 0, to: 0 }));
        assert_eq!(inbox.accept(5, Bytes::from_static(b"x")), Err(StreamError::Gap { offset: 5, expected: 0 }));
        inbox.accept(0, Bytes::new()).expect("the end");
        assert_eq!(inbox.accept(0, Bytes::new()), Ok(None), "the end again");
        assert_eq!(inbox.accept(1, Bytes::new()), Ok(None), "a node without the stream ends it there");
        assert_eq!(inbox.accept(1, Bytes::from_static(b"x")), Err(StreamError::AfterEnd { end: 1 }));
    }
}
