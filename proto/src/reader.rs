//! The receiving half of a connection: turns bytes into frames. It uses little memory until the length of a frame is
//! known, so its owner can first wait for memory.

use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::connection::ConnectionError;
use crate::frame::{BEAT, BODY_LIMIT, Frame, GREETING, GREETING_LIMIT, HEAD, Sign};
use crate::heartbeat::{Beat, HEARTBEAT, Heartbeat};
use crate::hello::Reject;
use crate::socket::ReadHalf;
use crate::stream::CHUNK;
use crate::writer::SignWriter;

/// Bytes of the buffer before a frame is announced.
const BUFFER: usize = 8 * 1024;

/// Delay of a heartbeat above which this process was stopped, and not its peer.
const STOPPED: Duration = HEARTBEAT;

/// Space below which the buffer is replaced, so that frames are not read in small pieces.
const LEAST: usize = 1024;

/// The receiving end of a connection: frames with messages of type `In`.
pub struct Reader<In> {
    stream: ReadHalf,
    /// Bytes that have arrived and are not yet handled.
    buffer: BytesMut,
    /// Longest body that is read.
    limit: usize,
    /// True if space for a large frame is kept before it is announced.
    eager: bool,
    message: PhantomData<fn() -> In>,
}

/// Returns the error of a connection that ended inside a frame.
fn cut_off() -> ConnectionError {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended inside a frame").into()
}

impl<In> Reader<In> {
    /// Makes a reader that reads greetings until [`Reader::greeted`].
    pub(crate) fn new(stream: ReadHalf) -> Self {
        Self { stream, buffer: BytesMut::new(), limit: GREETING_LIMIT, eager: true, message: PhantomData }
    }

    /// Accepts frames of every permitted length from now on.
    pub(crate) fn greeted(&mut self) {
        self.limit = BODY_LIMIT;
    }

    pub(crate) fn retyped<Other>(self) -> Reader<Other> {
        let Self { stream, buffer, limit, eager, .. } = self;
        Reader { stream, buffer, limit, eager, message: PhantomData }
    }

    /// Returns the length of the body of the next frame; `None` if the peer closed the connection between frames.
    /// Until this returns, the reader holds no more than [`BUFFER`] bytes; [`Reader::receive`] reads the rest of the
    /// frame. Safe to cancel.
    ///
    /// # Errors
    /// If the connection broke, or the frame is longer than the limit.
    pub async fn announced(&mut self) -> Result<Option<usize>, ConnectionError> {
        while self.buffer.len() < HEAD {
            if self.buffer.capacity() - self.buffer.len() < LEAST {
                self.buffer.reserve(BUFFER - self.buffer.len());
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(cut_off()) };
            }
        }
        let length = self.buffer.first_chunk().map_or(0, |head| u32::from_be_bytes(*head) as usize);
        if length > self.limit {
            let reason = format!("a frame of {length} bytes: the limit is {}", self.limit);
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason).into());
        }
        Ok(Some(length))
    }

    /// Keeps no space for large frames before they are announced, which saves memory on many untrusted connections.
    pub fn be_frugal(&mut self) {
        self.eager = false;
    }

    async fn body(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        let Some(length) = self.announced().await? else { return Ok(None) };
        let end = HEAD + length;
        self.buffer.reserve(end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < end {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(cut_off());
            }
        }
        let mut body = self.buffer.split_to(end);
        body.advance(HEAD);
        if end > BUFFER {
            // The old buffer belongs to the body. The next frame is probably as large, so one read can take all of
            // it.
            let rest = std::mem::take(&mut self.buffer);
            if self.eager || !rest.is_empty() {
                self.buffer.reserve(if self.eager { CHUNK + BUFFER } else { rest.len() });
                self.buffer.put_slice(&rest);
            }
        }
        Ok(Some(body.freeze()))
    }

    pub(crate) async fn greeting(&mut self, limit: Duration) -> Result<Bytes, ConnectionError> {
        let body = tokio::time::timeout(limit, self.body()).await.map_err(|_| ConnectionError::Silent(limit))??;
        let mut body = body.ok_or(ConnectionError::Closed)?;
        match body.first() {
            Some(&GREETING) => Ok(body.split_off(1)),
            _ => Err(Reject::NotLimo.into()),
        }
    }
}

/// A received frame or sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received<In> {
    /// Frame for the owner of the connection.
    Frame(Frame<In>),
    /// Sign for the connection itself.
    Sign(Sign),
}

impl<In: DeserializeOwned> Reader<In> {
    /// Returns the next item; `None` if the peer closed the connection between frames. Safe to cancel.
    ///
    /// # Errors
    /// If the connection broke, even inside a frame, or the peer sent invalid bytes.
    pub async fn receive(&mut self) -> Result<Option<Received<In>>, ConnectionError> {
        // A sign mostly arrives alone, and is decoded in place.
        if let (Some(BEAT), Some(body)) = (self.announced().await?, self.buffer.get(HEAD..HEAD + BEAT))
            && let Some(sign) = Sign::of(body)?
        {
            self.buffer.advance(HEAD + BEAT);
            return Ok(Some(Received::Sign(sign)));
        }
        let Some(body) = self.body().await? else { return Ok(None) };
        Ok(Some(match Sign::of(&body)? {
            Some(sign) => Received::Sign(sign),
            None => Received::Frame(Frame::decode(body)?),
        }))
    }

    /// Returns the next frame, for an end without signs of life.
    ///
    /// # Errors
    /// Same as [`Reader::receive`].
    pub async fn next(&mut self) -> Result<Option<Frame<In>>, ConnectionError> {
        loop {
            match self.receive().await? {
                Some(Received::Frame(frame)) => return Ok(Some(frame)),
                Some(Received::Sign(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the next frame, for a caller that gets signs of life from its peer: pings are sent by `signs`. Safe to
    /// cancel.
    ///
    /// # Errors
    /// Same as [`Reader::receive`], and [`ConnectionError::Dead`] if the peer does not answer.
    pub async fn next_alive(
        &mut self,
        beats: &mut Heartbeat,
        signs: &SignWriter,
    ) -> Result<Option<Frame<In>>, ConnectionError> {
        loop {
            // Frames that have arrived are read before the peer counts as dead: this process may have been stopped.
            tokio::select! {
                biased;
                received = self.receive() => {
                    let now = Instant::now();
                    beats.heard(now);
                    match received? {
                        Some(Received::Frame(frame)) => return Ok(Some(frame)),
                        Some(Received::Sign(Sign::Pong(number))) => drop(beats.answered(number, now)),
                        Some(Received::Sign(Sign::Ping(_))) => {}
                        None => return Ok(None),
                    }
                }
                () = tokio::time::sleep_until(beats.due()) => {
                    let now = Instant::now();
                    if now > beats.due() + STOPPED {
                        // The peer cannot answer pings that were not sent.
                        beats.heard(now);
                    }
                    match beats.beat(now) {
                        // If the writer is busy, the next ping is in time.
                        Beat::Ping(number) => drop(signs.write(Sign::Ping(number))),
                        Beat::Nothing => {}
                        Beat::Dead => return Err(ConnectionError::Dead),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;
    use crate::message::ClientToMaster;
    use crate::socket::Socket;

    fn pair() -> (UnixStream, Reader<ClientToMaster>) {
        let (near, far) = UnixStream::pair().expect("a pair");
        let (read, write) = Socket::from(far).into_halves().expect("halves");
        // A drop would end the stream.
        std::mem::forget(write);
        let mut reader = Reader::new(read);
        reader.greeted();
        (near, reader)
    }

    fn frame(length: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(length).expect("small").to_be_bytes().to_vec();
        bytes.extend((0..length).map(|place| place.to_be_bytes()[7]));
        bytes
    }

    #[tokio::test]
    async fn frames_arrive_whole_however_they_are_cut() {
        for frugal in [false, true] {
            let (mut near, mut reader) = pair();
            reader.eager = !frugal;
            let lengths = [0, 1, 7, 9_000, 3, 200_000, 70_000, 70_000, 8_188, 8_189, 2, 0, BODY_LIMIT, 5];
            let writing = tokio::spawn(async move {
                let all: Vec<u8> = lengths.iter().flat_map(|length| frame(*length)).collect();
                for piece in all.chunks(1_237) {
                    near.write_all(piece).await.expect("written");
                }
            });
            for length in lengths {
                assert_eq!(reader.announced().await.expect("whole"), Some(length));
                let body = reader.body().await.expect("whole").expect("a frame");
                assert_eq!(body, frame(length)[HEAD..], "{length} bytes");
            }
            writing.await.expect("written");
            assert_eq!(reader.body().await.expect("the end between frames"), None);
        }
    }

    #[tokio::test]
    async fn no_memory_is_taken_for_a_frame_that_is_only_announced() {
        let (mut near, mut reader) = pair();
        reader.be_frugal();
        let writing = tokio::spawn(async move { near.write_all(&frame(BODY_LIMIT)).await.map(|()| near) });
        assert_eq!(reader.announced().await.expect("whole"), Some(BODY_LIMIT));
        assert!(reader.buffer.capacity() <= 2 * BUFFER, "{} bytes", reader.buffer.capacity());
        assert_eq!(reader.body().await.expect("whole").map(|body| body.len()), Some(BODY_LIMIT));
        assert!(reader.buffer.capacity() <= BUFFER, "{} bytes are kept afterwards", reader.buffer.capacity());
        drop(writing.await.expect("no panic").expect("written"));
        assert_eq!(reader.announced().await.expect("the end between frames"), None);
    }

    #[tokio::test]
    async fn a_frame_above_the_limit_and_one_that_is_cut_off_are_errors() {
        let (mut near, mut reader) = pair();
        near.write_all(&frame(BODY_LIMIT + 1)[..HEAD]).await.expect("written");
        let error = reader.announced().await.expect_err("too long").to_string();
        assert_eq!(error, "the connection broke: a frame of 1048577 bytes: the limit is 1048576");
        for length in [1, HEAD, HEAD + 3] {
            let (mut near, mut reader) = pair();
            near.write_all(&frame(4)[..length]).await.expect("written");
            drop(near);
            let error = reader.body().await.expect_err("cut off").to_string();
            assert_eq!(error, "the connection broke: the connection ended inside a frame");
        }
    }
}
