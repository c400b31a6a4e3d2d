//! Frames: the bodies between the lengths on a connection.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use limo_model::JobId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::encoding::{self, DecodeError, EncodeError};
use crate::stream::{CHUNK, Channel, StreamId};

/// Largest body before the peer is known: a greeting takes 8 bytes, and a refusal is one sentence.
pub const GREETING_LIMIT: usize = 4 * 1024;

/// Largest body of other frames: the environment and arguments of a job fit, and a hostile peer cannot demand more
/// memory.
pub const BODY_LIMIT: usize = 1024 * 1024;

/// Bytes of the length before each body.
pub(crate) const HEAD: usize = 4;

pub(crate) const GREETING: u8 = 0;
const MESSAGE: u8 = 1;
const DATA: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;

/// Bytes of a sign of life: its kind and its number.
pub(crate) const BEAT: usize = 9;

/// Bytes before the data: job, channel, part and offset take 8 + 1 + 4 + 8 bytes.
const DATA_HEAD: usize = 21;

/// A message of type `M`, or stdio data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<M> {
    /// A message to the peer.
    Message(M),
    /// Bytes of a job's stdin, stdout or stderr.
    Data(Data),
}

/// A piece of a stream: limo-2018's StreamData. Empty bytes mark the end of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The stream, with its job.
    pub stream: StreamId,
    /// Offset of the first byte; the stream begins at 0.
    pub offset: u64,
    /// Bytes, at most [`CHUNK`].
    pub bytes: Bytes,
}

/// Errors in a frame.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum FrameError {
    #[error("an empty frame")]
    Empty,
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    #[error("a data frame of {size} bytes is shorter than its head of {DATA_HEAD}")]
    Truncated { size: usize },
    #[error("a data frame of the unknown channel {0}")]
    Channel(u8),
    #[error("a data frame with {size} bytes: the limit is {CHUNK}")]
    TooMuch { size: usize },
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("a ping or pong of {size} bytes: it has {BEAT}")]
    Beat { size: usize },
}

/// A sign of life. It is not a [`Frame`]: only the ends of a connection see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A question, with the number that the answer repeats.
    Ping(u64),
    /// The answer to the ping of that number.
    Pong(u64),
}

impl Sign {
    pub(crate) fn body(self) -> [u8; BEAT] {
        let (kind, number) = match self {
            Self::Ping(number) => (PING, number),
            Self::Pong(number) => (PONG, number),
        };
        let mut body = [kind; BEAT];
        body[1..].copy_from_slice(&number.to_be_bytes());
        body
    }

    /// Decodes a sign; `None` if the body is another kind of frame.
    ///
    /// # Errors
    /// [`FrameError::Beat`] if its length is wrong.
    pub(crate) fn of(body: &[u8]) -> Result<Option<Self>, FrameError> {
        let sign = match body.first() {
            Some(&PING) => Self::Ping,
            Some(&PONG) => Self::Pong,
            _ => return Ok(None),
        };
        let number = body[1..].try_into().map_err(|_| FrameError::Beat { size: body.len() })?;
        Ok(Some(sign(u64::from_be_bytes(number))))
    }
}

impl<M: Serialize> Frame<M> {
    /// Encodes the frame.
    ///
    /// # Errors
    /// If the message is larger than [`BODY_LIMIT`].
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        match self {
            Self::Message(message) => {
                let mut out = vec![MESSAGE];
                encoding::encode_into(message, &mut out)?;
                // The frame may wait in a queue.
                out.shrink_to_fit();
                Ok(out.into())
            }
            Self::Data(data) => {
                let mut out = BytesMut::with_capacity(1 + DATA_HEAD + data.bytes.len());
                out.put_slice(&data.head());
                out.put_slice(&data.bytes);
                Ok(out.freeze())
            }
        }
    }
}

impl Data {
    /// Returns the part of the body before the bytes.
    pub(crate) fn head(&self) -> [u8; 1 + DATA_HEAD] {
        let channel = match self.stream.channel {
            Channel::Stdin => 0,
            Channel::Stdout => 1,
            Channel::Stderr => 2,
        };
        let mut head = [DATA; 1 + DATA_HEAD];
        head[1..9].copy_from_slice(&self.stream.job.0.to_be_bytes());
        head[9] = channel;
        head[10..14].copy_from_slice(&self.stream.part.to_be_bytes());
        head[14..].copy_from_slice(&self.offset.to_be_bytes());
        head
    }
}

impl<M: DeserializeOwned> Frame<M> {
    /// Decodes a body.
    ///
    /// # Errors
    /// [`FrameError`] if the body is not a frame of this protocol. Memory stays within a small multiple of the body.
    pub fn decode(mut body: Bytes) -> Result<Self, FrameError> {
        if body.is_empty() {
            return Err(FrameError::Empty);
        }
        match body.get_u8() {
            MESSAGE => Ok(Self::Message(encoding::decode(&body)?)),
            DATA => decode_data(body).map(Self::Data),
            kind => Err(FrameError::Kind(kind)),
        }
    }
}

fn decode_data(mut body: Bytes) -> Result<Data, FrameError> {
    if body.len() < DATA_HEAD {
        return Err(FrameError::Truncated { size: body.len() });
    }
    let job = JobId(body.get_u64());
    let channel = match body.get_u8() {
        0 => Channel::Stdin,
        1 => Channel::Stdout,
        2 => Channel::Stderr,
        other => return Err(FrameError::Channel(other)),
    };
    let part = body.get_u32();
    let offset = body.get_u64();
    if body.len() > CHUNK {
        return Err(FrameError::TooMuch { size: body.len() });
    }
    Ok(Data { stream: StreamId { job, channel, part }, offset, bytes: body })
}
