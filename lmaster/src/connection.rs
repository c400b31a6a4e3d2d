//! One connection of a node or a client: one task reads, another writes the queue.

mod outgoing;

use std::io::ErrorKind;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use limo_proto::{Connection, ConnectionError, Data, Frame, Reader, Sign, Writer};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::accounts::{Account, Charge};
use crate::controller::{Input, PeerId};
use crate::log_limits::log_of;
use crate::pass::Pass;
use crate::room::Room;
use crate::signs::{Signs, SignsOfLife};
use outgoing::Outgoing;

/// Most bytes of messages that may wait for a node that does not read. Data from clients to its jobs counts in their
/// users' accounts.
const NODE_QUEUE_LIMIT: usize = 64 << 20;

/// Longest time that a client may leave an answer unread.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest time for a peer to read the reason before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Turns a received frame into an input.
type Wrap<In> = fn(PeerId, Frame<In>) -> Input;

/// An item of the queue.
enum Item {
    /// An encoded message; true if it is an answer.
    Message(Bytes, Held, bool),
    Data(Data, Held),
    /// Marker that all earlier items were read; reported to the controller.
    Drained,
}

/// Bytes charged for an item until it is written.
struct Held {
    waiting: Arc<Queued>,
    size: usize,
    is_data: bool,
    _charge: Option<Charge>,
}

/// Counts of messages and bytes that wait to be written to a connection.
#[derive(Debug)]
struct Queued {
    messages: AtomicUsize,
    data: AtomicUsize,
    answers: AtomicUsize,
    /// Time at which the last answer was read, or at which the oldest waiting one was queued.
    since: Mutex<Instant>,
}

impl Queued {
    fn touch(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when an answer was left unread for too long.
    async fn ignored(&self) {
        loop {
            let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
            let until = match self.answers.load(Ordering::Relaxed) {
                0 => Instant::now() + PATIENCE,
                _ if since.elapsed() >= PATIENCE => return,
                _ => since + PATIENCE,
            };
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let counter = if self.is_data { &self.waiting.data } else { &self.waiting.messages };
        counter.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// The master's side of a connection. Dropping it closes the connection after the queue was sent.
pub struct Link<M> {
    queue: Option<UnboundedSender<Item>>,
    waiting: Arc<Queued>,
    /// The account of a client's user.
    account: Option<Arc<Account>>,
    reader: AbortHandle,
    writer: AbortHandle,
    message: PhantomData<fn(M)>,
}

impl<M: Outgoing> Link<M> {
    /// Starts both tasks. Received frames and finally the end of the connection go to `inputs`, wrapped by `input`. A
    /// client has the account of its user. The connection of a caller with a certificate ends with its pass.
    pub fn start<In: DeserializeOwned + Send + 'static>(
        peer: PeerId,
        connection: Connection<In, M>,
        (inputs, input): (Sender<Input>, Wrap<In>),
        (account, pass): (Option<Arc<Account>>, Option<Box<Pass>>),
        signs: Signs,
    ) -> Self {
        let (queue, queued) = unbounded_channel();
        let waiting = Arc::new(Queued {
            messages: AtomicUsize::new(0),
            data: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            since: Mutex::new(Instant::now()),
        });
        let user = account.as_ref().map(|account| account.uid());
        let (life, to_send) = SignsOfLife::new(signs, connection.writer.sign_writer(), M::WATCHED);
        let writing = write((peer, user), connection.writer, (queued, to_send), (Arc::clone(&waiting), inputs.clone()));
        let last_words =
            LastWords { queue: queue.clone(), waiting: Arc::clone(&waiting), message: PhantomData::<fn(M)> };
        let reader = (connection.reader, last_words);
        let reading = read((peer, account.clone()), reader, (inputs, input), (life, pass));
        let reader = tokio::spawn(reading).abort_handle();
        let writer = tokio::spawn(writing).abort_handle();
        Self { queue: Some(queue), waiting, account, reader, writer, message: PhantomData }
    }

    /// Queues a frame. Returns true if it was queued. Output of a job may be dropped, and is sent again once the
    /// connection has drained.
    ///
    /// # Errors
    /// If too much is already queued: the reason to close the connection.
    pub fn send(&self, frame: Frame<M>) -> Result<bool, String> {
        let message = match frame {
            Frame::Message(message) => message,
            Frame::Data(data) => return Ok(self.send_data(data)),
        };
        let is_answer = message.is_answer();
        let frame = Frame::Message(message);
        let body = match (frame.encode(), &frame) {
            (Ok(body), _) => body,
            // A retry would not fit either.
            (Err(error), Frame::Message(message)) => match message.replacement(&error) {
                Some(instead) => Frame::Message(instead).encode().map_err(|error| error.to_string())?,
                None => return Err(format!("a message to it is too large: {error}")),
            },
            (Err(error), Frame::Data(_)) => return Err(error.to_string()),
        };
        self.send_body(body, is_answer).map(|()| true)
    }

    fn send_body(&self, body: Bytes, is_answer: bool) -> Result<(), String> {
        let size = body.len();
        let charge = self.account.as_ref().map(|account| account.answer(size)).transpose()?;
        let before = self.waiting.messages.fetch_add(size, Ordering::Relaxed);
        let held = Held { waiting: Arc::clone(&self.waiting), size, is_data: false, _charge: charge };
        if self.account.is_none() && before + size > NODE_QUEUE_LIMIT {
            return Err(format!("it has left {} MiB unread", NODE_QUEUE_LIMIT >> 20));
        }
        if is_answer && self.waiting.answers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.waiting.touch();
        }
        self.queue(Item::Message(body, held, is_answer));
        Ok(())
    }

    fn send_data(&self, data: Data) -> bool {
        let size = data.bytes.len();
        let charge = match &self.account {
            Some(account) => match account.output(size, self.waiting.data.load(Ordering::Relaxed) > 0) {
                Some(charge) => Some(charge),
                None => return false,
            },
            None => None,
        };
        self.waiting.data.fetch_add(size, Ordering::Relaxed);
        let held = Held { waiting: Arc::clone(&self.waiting), size, is_data: true, _charge: charge };
        self.queue(Item::Data(data, held));
        true
    }

    /// Returns the user of a client; `None` for a node.
    pub fn user(&self) -> Option<u32> {
        self.account.as_ref().map(|account| account.uid())
    }

    /// Reports to the controller when the peer has read all queued items.
    pub fn tell_when_drained(&self) {
        self.queue(Item::Drained);
    }

    fn queue(&self, item: Item) {
        if let Some(queue) = &self.queue {
            // If the writer has ended, the reader reports it.
            let _ = queue.send(item);
        }
    }
}

impl<M> Drop for Link<M> {
    fn drop(&mut self) {
        self.reader.abort();
        // The writer ends when the queue is closed and empty, or is aborted.
        drop(self.queue.take());
        let writer = self.writer.clone();
        if let (false, Ok(runtime)) = (writer.is_finished(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep(LAST_WORDS).await;
                writer.abort();
            });
        }
    }
}

/// Tells a peer the reason for the end of its connection.
struct LastWords<M> {
    queue: UnboundedSender<Item>,
    waiting: Arc<Queued>,
    message: PhantomData<fn(M)>,
}

impl<M: Outgoing> LastWords<M> {
    fn say(&self, reason: String) {
        let Some(Ok(body)) = M::refusal(reason).map(|message| Frame::Message(message).encode()) else { return };
        self.waiting.messages.fetch_add(body.len(), Ordering::Relaxed);
        let held = Held { waiting: Arc::clone(&self.waiting), size: body.len(), is_data: false, _charge: None };
        // The connection may have ended by itself.
        let _ = self.queue.send(Item::Message(body, held, false));
    }
}

async fn read<In: DeserializeOwned, M: Outgoing>(
    (peer, account): (PeerId, Option<Arc<Account>>),
    (mut reader, last_words): (Reader<In>, LastWords<M>),
    (inputs, input): (Sender<Input>, Wrap<In>),
    (mut life, mut pass): (SignsOfLife, Option<Box<Pass>>),
) {
    let user = account.as_ref().map(|account| account.uid());
    let mut room = Room::new(account.clone());
    if account.is_some() {
        reader.be_frugal();
    }
    loop {
        let received = tokio::select! {
            // So the pass is checked before each frame.
            biased;
            reason = over(&mut pass) => {
                log_of!(warn, user, "certificate", peer = peer.0, user, reason, "closed a connection");
                last_words.say(reason.to_owned());
                break;
            }
            received = life.receive((&mut reader, &mut room)) => received,
        };
        match received {
            Ok(Some(frame)) => {
                // The frame counts in this memory until it has its place below.
                let room = room.take();
                let (frame, is_data) = match frame {
                    Frame::Data(data) => {
                        let bytes = account.as_ref().map(|account| account.input(data.bytes.clone()));
                        (Frame::Data(Data { bytes: bytes.unwrap_or(data.bytes), ..data }), true)
                    }
                    message => (message, false),
                };
                let mut input = input(peer, frame);
                if let Some(account) = &account {
                    let Some(place) = account.place().await else { return };
                    input = Input::Placed(Box::new(input), place);
                }
                drop(room);
                if inputs.send(input).await.is_err() {
                    return;
                }
                if let (Some(account), true) = (&account, is_data) {
                    account.input_room().await;
                }
            }
            Ok(None) => break,
            Err(ConnectionError::Dead) => {
                tracing::warn!(peer = peer.0, "closed the connection to a node that gives no sign of life");
                break;
            }
            // A frame length over the limit is also an error of input.
            Err(ConnectionError::Io(error))
                if ![ErrorKind::InvalidData, ErrorKind::TimedOut].contains(&error.kind()) =>
            {
                log_of!(info, user, "connection broke", peer = peer.0, %error, "connection broke");
                break;
            }
            Err(error) => {
                let what = "closed the connection to a peer that violates the protocol";
                log_of!(warn, user, "protocol", peer = peer.0, user, %error, "{what}");
                last_words.say(error.to_string());
                break;
            }
        }
    }
    let _ = inputs.send(Input::Gone(peer)).await;
}

/// Waits until a pass ends; without a pass, for ever.
async fn over(pass: &mut Option<Box<Pass>>) -> &'static str {
    match pass {
        Some(pass) => pass.ended().await,
        None => std::future::pending().await,
    }
}

async fn write<M: Outgoing>(
    (peer, user): (PeerId, Option<u32>),
    mut writer: Writer<M>,
    (mut queued, mut signs): (UnboundedReceiver<Item>, Receiver<Sign>),
    (waiting, inputs): (Arc<Queued>, Sender<Input>),
) {
    let ignored = async || {
        let seconds = PATIENCE.as_secs();
        log_of!(
            warn,
            user,
            "no answer read",
            peer = peer.0,
            "closed the connection to a client that read no answer for {seconds} s"
        );
        let _ = inputs.send(Input::Gone(peer)).await;
    };
    loop {
        let first = tokio::select! {
            Some(sign) = signs.recv() => {
                writer.feed_sign(sign);
                None
            }
            first = queued.recv() => match first {
                Some(first) => Some(first),
                None => return,
            },
        };
        let (mut next, mut fed_answer) = (first, false);
        while let Some(item) = next {
            let drains = matches!(item, Item::Drained);
            fed_answer |= matches!(item, Item::Message(_, _, true));
            let written = tokio::select! {
                biased;
                written = write_item(&mut writer, item, &waiting) => written,
                () = waiting.ignored() => return ignored().await,
            };
            if let Err(error) = written {
                return tracing::debug!(peer = peer.0, %error, "cannot send");
            }
            if drains {
                // The receiver no longer exists when the process ends.
                let _ = inputs.send(Input::Drained(peer)).await;
            }
            next = queued.try_recv().ok();
        }
        let flushed = tokio::select! {
            biased;
            flushed = writer.flush() => flushed,
            () = tokio::time::sleep(PATIENCE), if fed_answer => return ignored().await,
        };
        if let Err(error) = flushed {
            return tracing::debug!(peer = peer.0, %error, "cannot send");
        }
    }
}

async fn write_item<M: Outgoing>(writer: &mut Writer<M>, item: Item, waiting: &Queued) -> Result<(), ConnectionError> {
    match item {
        Item::Message(body, _held, is_answer) => {
            writer.feed_body(&body).await?;
            if is_answer {
                waiting.touch();
                waiting.answers.fetch_sub(1, Ordering::Relaxed);
            }
            Ok(())
        }
        Item::Data(data, _held) => writer.feed(&Frame::Data(data)).await,
        Item::Drained => writer.flush().await,
    }
}
