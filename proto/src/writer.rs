//! The sending half of a connection: turns frames and signs of life into bytes.

use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::{BufMut, Bytes};
use serde::Serialize;

use crate::connection::ConnectionError;
use crate::frame::{BEAT, Frame, GREETING, HEAD, Sign};
use crate::replace::Replace;
use crate::socket::WriteHalf;

/// The sending end of a connection: frames with messages of type `Out`.
pub struct Writer<Out> {
    stream: Arc<Stream>,
    /// Bytes that were fed and are not yet written.
    buffer: Vec<u8>,
    message: PhantomData<fn(Out)>,
}

/// The socket of a [`Writer`] and its [`SignWriter`].
#[derive(Debug)]
struct Stream {
    half: WriteHalf,
    /// True while the writer or the sign writer writes, possibly inside a frame.
    is_taken: AtomicBool,
}

impl Stream {
    /// Takes the stream, unless it is taken.
    fn take(&self) -> Option<Taken<'_>> {
        let is_free = !self.is_taken.swap(true, Ordering::Acquire);
        is_free.then(|| Taken { stream: self, is_whole: false })
    }
}

/// The only writer to a stream, until it is dropped. If it is dropped before it has written all, the connection ends,
/// because a frame may be written in part.
struct Taken<'a> {
    stream: &'a Stream,
    is_whole: bool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.stream.half.hang_up();
        }
        self.stream.is_taken.store(false, Ordering::Release);
    }
}

/// Writes signs of life to a connection while its writer is idle. Does not keep the connection open.
#[derive(Debug)]
pub struct SignWriter(Weak<Stream>);

/// Most fed bytes that are kept; data of this size or more is not copied.
const BUFFER: usize = 8 * 1024;

impl<Out> Writer<Out> {
    pub(crate) fn new(half: WriteHalf) -> Self {
        let stream = Arc::new(Stream { half, is_taken: AtomicBool::new(false) });
        Self { stream, buffer: Vec::new(), message: PhantomData }
    }

    pub(crate) fn retyped<Other>(self) -> Writer<Other> {
        let Self { stream, buffer, .. } = self;
        Writer { stream, buffer, message: PhantomData }
    }

    pub(crate) async fn greet(&mut self, greeting: Bytes) -> Result<(), ConnectionError> {
        self.buffer.put_slice(&length(1 + greeting.len()));
        self.buffer.put_u8(GREETING);
        self.buffer.put_slice(&greeting);
        self.flush().await
    }

    /// Puts a sign of life into the buffer.
    pub fn feed_sign(&mut self, sign: Sign) {
        let body = sign.body();
        self.buffer.put_slice(&length(body.len()));
        self.buffer.put_slice(&body);
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn flush(&mut self) -> Result<(), ConnectionError> {
        self.write_with(&[]).await
    }

    /// Returns a writer for signs of life.
    pub fn sign_writer(&self) -> SignWriter {
        SignWriter(Arc::downgrade(&self.stream))
    }

    /// Writes out the buffer, followed by these bytes. Ends the connection if it is cancelled.
    async fn write_with(&mut self, behind: &[u8]) -> Result<(), ConnectionError> {
        let all = self.buffer.len() + behind.len();
        let mut written = 0;
        // The loop is short, because a sign is written quickly.
        let mut taken = loop {
            match self.stream.take() {
                Some(taken) => break taken,
                None => tokio::task::yield_now().await,
            }
        };
        while written < all {
            let first = IoSlice::new(self.buffer.get(written..).unwrap_or_default());
            let second = IoSlice::new(&behind[written.saturating_sub(self.buffer.len())..]);
            let slices = [first, second];
            match self.stream.half.try_write(if slices[1].is_empty() { &slices[..1] } else { &slices }) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.half.writable().await?,
                Err(error) => return Err(error.into()),
            }
        }
        self.stream.half.flush().await?;
        taken.is_whole = true;
        drop(taken);
        self.buffer.clear();
        // Large messages are rare, and most connections are idle.
        self.buffer.shrink_to(BUFFER);
        Ok(())
    }
}

impl SignWriter {
    /// Writes a sign at once. Returns false if that is impossible: the writer is writing, sent data is not read, or the
    /// connection is over.
    pub fn write(&self, sign: Sign) -> bool {
        let Some(stream) = self.0.upgrade() else { return false };
        let Some(mut taken) = stream.take() else { return false };
        let body = sign.body();
        let mut frame = [0; HEAD + BEAT];
        frame[..HEAD].copy_from_slice(&length(body.len()));
        frame[HEAD..].copy_from_slice(&body);
        let written = stream.half.try_write(&[IoSlice::new(&frame)]);
        // After an error nothing was written.
        taken.is_whole = written.as_ref().map_or(true, |count| *count == frame.len());
        written.is_ok()
    }
}

/// Returns the length field of a frame.
pub(crate) fn length(body: usize) -> [u8; HEAD] {
    // A body is at most BODY_LIMIT long.
    u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes()
}

impl<Out> Writer<Out> {
    /// Puts a frame with this body into the buffer, as [`Frame::encode`] returns it.
    ///
    /// # Errors
    /// If the connection broke.
    pub async fn feed_body(&mut self, body: &[u8]) -> Result<(), ConnectionError> {
        self.buffer.put_slice(&length(body.len()));
        if body.len() >= BUFFER {
            return self.write_with(body).await;
        }
        self.buffer.put_slice(body);
        if self.buffer.len() >= BUFFER { self.flush().await } else { Ok(()) }
    }
}

impl<Out: Serialize + Replace> Writer<Out> {
    /// Puts a frame into the buffer, and writes a full buffer out. A message that is too large is replaced by a notice
    /// to the peer ([`Replace`]) and never sent again.
    ///
    /// # Errors
    /// If the message is too large and has no replacement, or the connection broke.
    pub async fn feed(&mut self, frame: &Frame<Out>) -> Result<(), ConnectionError> {
        match frame {
            Frame::Message(message) => {
                let body = match frame.encode() {
                    // A retry would not fit either.
                    Err(error) => match message.replacement(&error) {
                        Some(replacement) => Frame::Message(replacement).encode()?,
                        None => return Err(error.into()),
                    },
                    encoded => encoded?,
                };
                self.buffer.put_slice(&length(body.len()));
                self.buffer.put_slice(&body);
            }
            Frame::Data(data) => {
                let head = data.head();
                self.buffer.put_slice(&length(head.len() + data.bytes.len()));
                self.buffer.put_slice(&head);
                if data.bytes.len() >= BUFFER {
                    return self.write_with(&data.bytes).await;
                }
                self.buffer.put_slice(&data.bytes);
            }
        }
        if self.buffer.len() >= BUFFER { self.flush().await } else { Ok(()) }
    }

    /// Feeds a frame and flushes the buffer.
    ///
    /// # Errors
    /// Same as [`Writer::feed`].
    pub async fn send(&mut self, frame: &Frame<Out>) -> Result<(), ConnectionError> {
        self.feed(frame).await?;
        self.flush().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;
    use crate::socket::Socket;

    const PING: Sign = Sign::Ping(7);

    #[tokio::test]
    async fn a_sign_is_written_between_frames_and_never_inside_one() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let (_read, half) = Socket::from(near).into_halves().expect("halves");
        let mut writer = Writer::<()>::new(half);
        let signs = writer.sign_writer();
        assert!(signs.write(PING), "nothing is being written");
        let body = vec![0; 4 << 20];
        let taken = {
            let mut writing = std::pin::pin!(writer.feed_body(&body));
            tokio::select! {
                biased;
                _ = writing.as_mut() => panic!("more than a socket keeps"),
                () = std::future::ready(()) => {}
            }
            assert!(!signs.write(PING), "inside a frame");
            let mut taken = vec![0; HEAD + BEAT + HEAD + body.len()];
            let (written, read) = tokio::join!(writing, far.read_exact(&mut taken));
            written.expect("written");
            read.expect("read");
            taken
        };
        let sign = [&length(BEAT)[..], &PING.body()].concat();
        assert_eq!(taken[..HEAD + BEAT], sign);
        assert_eq!(taken[HEAD + BEAT..][..HEAD], length(body.len()));
        assert!(signs.write(PING), "the frame is whole");
        drop(writer);
        assert!(!signs.write(PING), "nobody keeps the connection open for it");
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.expect("the end");
        assert_eq!(rest, sign);
    }

    /// A second write must not wait for the end of the first one.
    #[tokio::test]
    async fn each_write_to_a_broken_connection_is_an_error() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let (_read, half) = Socket::from(near).into_halves().expect("halves");
        let mut writer = Writer::<()>::new(half);
        drop(far);
        for _ in 0..2 {
            let fed = tokio::time::timeout(Duration::from_secs(10), writer.feed_body(&[0; BUFFER]));
            assert!(fed.await.expect("no wait").is_err());
        }
        assert!(!writer.sign_writer().write(PING));
    }

    #[tokio::test]
    async fn a_cancelled_write_ends_the_connection() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let (_read, half) = Socket::from(near).into_halves().expect("halves");
        let mut writer = Writer::<()>::new(half);
        let body = vec![0; 4 << 20];
        let cancelled = tokio::time::timeout(Duration::from_millis(1), writer.feed_body(&body)).await;
        assert!(cancelled.is_err(), "more than a socket keeps");
        assert!(!writer.sign_writer().write(PING), "inside a frame");
        assert!(writer.flush().await.is_err());
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.expect("the end");
        assert!(rest.len() < body.len());
    }

    #[tokio::test]
    async fn a_sign_that_does_not_fit_is_not_written() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        let (_read, half) = Socket::from(near).into_halves().expect("halves");
        let writer = Writer::<()>::new(half);
        let signs = writer.sign_writer();
        let written = (0..100_000).take_while(|_| signs.write(PING)).count();
        assert!((100..100_000).contains(&written), "{written} signs of {} bytes", HEAD + BEAT);
    }
}
