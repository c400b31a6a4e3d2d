//! A TCP connection that has agreed on a version: frames in, frames out.

use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use crate::encoding::EncodeError;
use crate::frame::{BODY_LIMIT, Frame, FrameError, GREETING, GREETING_LIMIT};
use crate::hello::{Hello, Reject, Role, decode_answer, encode_answer};

/// A peer that has not greeted by then is not one: longer than a TCP retransmission on a bad line.
const GREETING_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
pub enum ConnectionError {
    #[error("cannot connect to {address}: {source}")]
    Connect { address: String, source: io::Error },
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the peer closed the connection before it greeted")]
    Closed,
    #[error("the peer did not greet within {} s", GREETING_TIME.as_secs())]
    Silent,
    #[error(transparent)]
    Reject(#[from] Reject),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Both directions of a connection: receives `In`, sends `Out`.
pub struct Connection<In, Out> {
    pub reader: Reader<In>,
    pub writer: Writer<Out>,
}

pub struct Reader<In> {
    frames: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    message: PhantomData<fn() -> In>,
}

pub struct Writer<Out> {
    frames: FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>,
    message: PhantomData<fn(Out)>,
}

fn split<In, Out>(stream: TcpStream) -> Result<(Reader<In>, Writer<Out>), ConnectionError> {
    stream.set_nodelay(true)?;
    let codec = || LengthDelimitedCodec::builder().max_frame_length(GREETING_LIMIT).new_codec();
    let (read, write) = stream.into_split();
    let reader = Reader { frames: FramedRead::new(read, codec()), message: PhantomData };
    Ok((reader, Writer { frames: FramedWrite::new(write, codec()), message: PhantomData }))
}

impl<In, Out> Connection<In, Out> {
    fn greeted(mut reader: Reader<In>, mut writer: Writer<Out>) -> Self {
        reader.frames.decoder_mut().set_max_frame_length(BODY_LIMIT);
        writer.frames.encoder_mut().set_max_frame_length(BODY_LIMIT);
        Self { reader, writer }
    }
}

/// Calls a master at `address` and agrees on a version.
///
/// # Errors
/// [`ConnectionError`] where the master cannot be reached or does not agree.
pub async fn connect<In, Out>(address: &str, role: Role) -> Result<Connection<In, Out>, ConnectionError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| ConnectionError::Connect { address: address.to_owned(), source })?;
    let (mut reader, mut writer) = split(stream)?;
    writer.greet(Hello::of(role).encode()).await?;
    decode_answer(&reader.greeting().await?)?;
    Ok(Connection::greeted(reader, writer))
}

/// Answers a caller. What it may send depends on its role, so the types come after the role is known.
///
/// # Errors
/// [`ConnectionError`] where the caller does not greet in time or speaks no version that this program does; it is told why.
pub async fn accept(stream: TcpStream) -> Result<Greeted, ConnectionError> {
    let peer = stream.peer_addr()?;
    let (mut reader, mut writer) = split::<(), ()>(stream)?;
    let hello = Hello::decode(&reader.greeting().await?);
    writer.greet(encode_answer(&hello.as_ref().map(|hello| hello.newest).map_err(Reject::clone))).await?;
    Ok(Greeted { role: hello?.role, peer, reader, writer })
}

/// A caller whose role is known.
pub struct Greeted {
    pub role: Role,
    pub peer: SocketAddr,
    reader: Reader<()>,
    writer: Writer<()>,
}

impl Greeted {
    pub fn into_connection<In, Out>(self) -> Connection<In, Out> {
        let reader = Reader { frames: self.reader.frames, message: PhantomData };
        let writer = Writer { frames: self.writer.frames, message: PhantomData };
        Connection::greeted(reader, writer)
    }
}

impl<In> Reader<In> {
    async fn body(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        Ok(self.frames.next().await.transpose()?.map(BytesMut::freeze))
    }

    async fn greeting(&mut self) -> Result<Bytes, ConnectionError> {
        let body = tokio::time::timeout(GREETING_TIME, self.body()).await.map_err(|_| ConnectionError::Silent)??;
        let mut body = body.ok_or(ConnectionError::Closed)?;
        match body.first() {
            Some(&GREETING) => Ok(body.split_off(1)),
            _ => Err(Reject::NotLimo.into()),
        }
    }
}

impl<In: DeserializeOwned> Reader<In> {
    /// The next frame; `None` where the peer closed the connection between frames. Safe to cancel.
    ///
    /// # Errors
    /// Where the connection broke, inside a frame too, or the peer sent something that is not a frame.
    pub async fn next(&mut self) -> Result<Option<Frame<In>>, ConnectionError> {
        match self.body().await? {
            Some(body) => Ok(Some(Frame::decode(body)?)),
            None => Ok(None),
        }
    }
}

impl<Out> Writer<Out> {
    async fn greet(&mut self, greeting: Bytes) -> Result<(), ConnectionError> {
        let mut body = BytesMut::with_capacity(1 + greeting.len());
        body.put_u8(GREETING);
        body.put_slice(&greeting);
        Ok(self.frames.send(body.freeze()).await?)
    }
}

impl<Out: Serialize> Writer<Out> {
    /// Puts a frame into the buffer, writing it out where the buffer is full.
    ///
    /// # Errors
    /// Where the message is too large or the connection broke.
    pub async fn feed(&mut self, frame: &Frame<Out>) -> Result<(), ConnectionError> {
        Ok(self.frames.feed(frame.encode()?).await?)
    }

    /// Writes out what was fed.
    ///
    /// # Errors
    /// Where the connection broke.
    pub async fn flush(&mut self) -> Result<(), ConnectionError> {
        Ok(SinkExt::<Bytes>::flush(&mut self.frames).await?)
    }

    /// Feeds and flushes.
    ///
    /// # Errors
    /// As [`Writer::feed`].
    pub async fn send(&mut self, frame: &Frame<Out>) -> Result<(), ConnectionError> {
        self.feed(frame).await?;
        self.flush().await
    }
}
