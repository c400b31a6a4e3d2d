//! Connection to the master: made, kept and renewed. Passes frames in both directions. Reads only the first answer,
//! which tells if the node was registered.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use limo_model::Backoff;
use limo_proto::{
    Alive, Beat, Connection, ConnectionError, Endpoint, Frame, Heartbeat, MasterToNode, NodeToMaster, Pulse, Reader,
    Received, Role, Sign, Trusted, Writer, connect_newest,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tracing::{debug, info, warn};

use crate::newest::Masters;
use crate::shell::Event;
use crate::sleep::Sleeper;
use limo_node::Input;

/// Pauses between calls. A restarted master is back in less than a second; an absent one is called every few seconds.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5) };

/// Largest number of waiting frames at which readings are still sent. With more, readings would be stale when sent.
const BACKLOG: usize = 1024;

/// Most signs of life that wait to be sent.
const SIGNS: usize = 4;

type Outbound = Frame<NodeToMaster>;

/// Sender of a connection to the master. Its queue is bounded by the windows of the jobs' streams and a few messages
/// for each job.
#[derive(Debug, Clone)]
pub struct Outgoing {
    frames: mpsc::UnboundedSender<Outbound>,
    waiting: Arc<AtomicUsize>,
}

impl Outgoing {
    fn new() -> (Self, mpsc::UnboundedReceiver<Outbound>) {
        let (frames, outbound) = mpsc::unbounded_channel();
        (Self { frames, waiting: Arc::default() }, outbound)
    }

    pub fn put(&self, frame: Outbound) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // A broken connection is reported elsewhere.
        let _ = self.frames.send(frame);
    }

    /// Returns true if the master reads slowly.
    pub fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > BACKLOG
    }
}

/// Keeps a connection to `master` for as long as `events` is open. Sends nothing to a listener that is not `trusted`,
/// and does not obey it or an older master than one that it has met. Closes the connection before the machine sleeps.
pub async fn keep(
    (master, mut masters): (Endpoint, Masters),
    trusted: Trusted,
    events: mpsc::Sender<Event>,
    alive: Alive,
    sleeper: Option<Sleeper>,
) {
    let mut failures = 0_u32;
    // Reason that was logged last.
    let mut told = None;
    while !events.is_closed() {
        match connect_newest(&master, Role::Node, &trusted, masters.newest).await {
            Ok(connection) => {
                told = None;
                masters.meet(&connection.identity).await;
                let (registered, error) = serve(connection, &events, &alive, sleeper.as_ref()).await;
                if registered {
                    failures = 0;
                }
                match error {
                    Some(error) => warn!(%master, %error, "the connection to the master ended"),
                    None => info!(%master, "the connection to the master ended"),
                }
                if events.send(Event::Disconnected).await.is_err() {
                    return;
                }
                if let Some(sleeper) = &sleeper
                    && let Err(reason) = sleeper.sleep().await
                    && events.send(Event::Node(Input::SleepFailed(reason))).await.is_err()
                {
                    return;
                }
            }
            Err(error) if told.as_ref() == Some(&error.to_string()) => {
                debug!(%master, %error, "cannot reach the master");
            }
            Err(error) => {
                warn!(%master, %error, "cannot reach the master; retrying");
                told = Some(error.to_string());
            }
        }
        failures = failures.saturating_add(1);
        // Nodes must not reconnect in step. Without a random number, each waits for the whole pause.
        let random = getrandom::u64();
        tokio::time::sleep(random.map_or(PAUSES.pause(failures), |random| PAUSES.scattered(failures, random))).await;
    }
}

/// Passes frames until the connection ends. Returns true if the node was registered, and the reason for the end.
async fn serve(
    connection: Connection<MasterToNode, NodeToMaster>,
    events: &mpsc::Sender<Event>,
    alive: &Alive,
    sleeper: Option<&Sleeper>,
) -> (bool, Option<ConnectionError>) {
    let Connection { reader, writer, identity } = connection;
    let (sign, signs) = mpsc::channel(SIGNS);
    let beats = alive.caller(Instant::now());
    let mut heard = Heard { reader, beats, pulse: alive.pulse.clone(), sign };
    let (outgoing, outbound) = Outgoing::new();
    let waiting = Arc::clone(&outgoing.waiting);
    if events.send(Event::Connected(outgoing, identity)).await.is_err() {
        return (false, None);
    }
    let mut registered = false;
    let farewell = async {
        match sleeper {
            Some(sleeper) => sleeper.farewell().await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = receive(&mut heard, events, &mut registered) => result,
        () = farewell => Ok(()),
        result = send(writer, (outbound, signs), &waiting) => result,
    };
    (registered, result.err())
}

/// Receiver of frames, with signs of life in both directions.
struct Heard {
    reader: Reader<MasterToNode>,
    beats: Heartbeat,
    pulse: Pulse,
    sign: mpsc::Sender<Sign>,
}

impl Heard {
    /// Sends a sign of life. Skips it if the loop is stuck or too many signs wait: then the master reads slowly.
    fn say(&self, sign: Sign) {
        if !self.pulse.is_stuck(Instant::now()) {
            let _ = self.sign.try_send(sign);
        }
    }

    /// Returns the next frame, or the time of a ping that was answered. Safe to cancel.
    async fn next(&mut self, mut timer: Pin<&mut Sleep>) -> Result<Option<Event>, ConnectionError> {
        loop {
            // Frames that have arrived are read before the master counts as dead: this process may have been stopped.
            tokio::select! {
                biased;
                received = self.reader.receive() => {
                    let now = Instant::now();
                    self.beats.heard(now);
                    match received? {
                        Some(Received::Frame(frame)) => return Ok(Some(Event::FromMaster(frame))),
                        Some(Received::Sign(Sign::Ping(number))) => self.say(Sign::Pong(number)),
                        Some(Received::Sign(Sign::Pong(number))) => {
                            return Ok(Some(Event::Answered(self.beats.answered(number, now))));
                        }
                        None => return Ok(None),
                    }
                }
                () = &mut timer => {
                    let beat = self.beats.beat(Instant::now());
                    timer.as_mut().reset(self.beats.due());
                    match beat {
                        Beat::Dead => return Err(ConnectionError::Dead),
                        Beat::Ping(number) => self.say(Sign::Ping(number)),
                        Beat::Nothing => {}
                    }
                }
            }
        }
    }
}

async fn receive(
    heard: &mut Heard,
    events: &mpsc::Sender<Event>,
    registered: &mut bool,
) -> Result<(), ConnectionError> {
    let mut timer = pin!(tokio::time::sleep_until(heard.beats.due()));
    while let Some(event) = heard.next(timer.as_mut()).await? {
        *registered |= matches!(event, Event::FromMaster(Frame::Message(MasterToNode::Registered)));
        if events.send(event).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Writes frames; ends when the node drops its end and everything is written.
async fn send(
    mut writer: Writer<NodeToMaster>,
    (mut outbound, mut signs): (mpsc::UnboundedReceiver<Outbound>, mpsc::Receiver<Sign>),
    waiting: &AtomicUsize,
) -> Result<(), ConnectionError> {
    loop {
        let mut next = tokio::select! {
            Some(sign) = signs.recv() => {
                writer.feed_sign(sign);
                None
            }
            frame = outbound.recv() => match frame {
                Some(frame) => Some(frame),
                None => return Ok(()),
            },
        };
        while let Some(frame) = next {
            writer.feed(&frame).await?;
            waiting.fetch_sub(1, Ordering::Relaxed);
            next = outbound.try_recv().ok();
        }
        writer.flush().await?;
    }
}
