//! A relay of connections between two programs that can fail as a network does: it is cut in one direction or in both,
//! loses packets, resets connections, or leaves them half open.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use limo_tests::Dice;

/// Delay of bytes whose packet is lost: the shortest time after which Linux sends a packet again.
const LOST: Duration = Duration::from_millis(200);

/// One of this number of pieces is lost on a lossy network.
const LOSS: u64 = 8;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the caller to the listener.
    There,
    /// From the listener to the caller.
    Back,
}

/// State of a network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    Whole,
    /// Nothing passes in either direction, and no connection ends.
    Cut,
    /// Nothing passes in this direction.
    OneWay(Way),
    /// Some packets are lost, so that their bytes arrive late.
    Lossy,
}

#[derive(Clone)]
pub struct Relay(Arc<(Mutex<State>, Condvar)>);

struct State {
    network: Network,
    dice: Dice,
    next: u64,
    /// The connections: the stream of the caller, and that to the listener.
    connections: BTreeMap<u64, [UnixStream; 2]>,
    /// Streams whose other end is gone, without notice.
    half_open: Vec<UnixStream>,
}

impl State {
    fn is_cut(&self, way: Way) -> bool {
        self.network == Network::Cut || self.network == Network::OneWay(way)
    }
}

impl Relay {
    /// Relays from a socket at `from` to the one at `to`, until the process ends. Without a listener there, callers are
    /// disconnected.
    pub fn start(from: &Path, to: PathBuf) -> Self {
        let listener = UnixListener::bind(from).expect("bound");
        let state = State {
            network: Network::Whole,
            dice: Dice::new(1),
            next: 0,
            connections: BTreeMap::new(),
            half_open: Vec::new(),
        };
        let relay = Self(Arc::new((Mutex::new(state), Condvar::new())));
        let accepting = relay.clone();
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let (relay, to) = (accepting.clone(), to.clone());
                thread::spawn(move || relay.connect(caller, &to));
            }
        });
        relay
    }

    /// Changes the network. A whole one ends connections that were half open.
    pub fn set(&self, network: Network) {
        let mut state = self.state();
        state.network = network;
        if network == Network::Whole {
            state.half_open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
        self.0.1.notify_all();
    }

    /// Returns the number of connections.
    pub fn count(&self) -> usize {
        self.state().connections.len()
    }

    /// Ends all connections. Bytes in transit are lost.
    pub fn reset(&self) {
        let ended = std::mem::take(&mut self.state().connections);
        ended.into_values().flatten().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        self.0.1.notify_all();
    }

    /// Ends all connections for the end from which bytes go this way. The other end does not notice until the network is
    /// [`Network::Whole`].
    pub fn forget(&self, way: Way) {
        let mut state = self.state();
        for [caller, listener] in std::mem::take(&mut state.connections).into_values() {
            let (ended, kept) = if way == Way::There { (caller, listener) } else { (listener, caller) };
            let _ = ended.shutdown(Shutdown::Both);
            state.half_open.push(kept);
        }
        self.0.1.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().expect("no panic")
    }

    fn connect(&self, caller: UnixStream, to: &Path) {
        let waited = self.0.1.wait_while(self.state(), |state| state.is_cut(Way::There));
        drop(waited.expect("no panic"));
        let Ok(listener) = UnixStream::connect(to) else { return };
        let clone = |stream: &UnixStream| stream.try_clone().expect("a descriptor");
        let back = (clone(&listener), clone(&caller));
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            state.connections.insert(number, [clone(&caller), clone(&listener)]);
            number
        };
        let other = self.clone();
        thread::spawn(move || other.copy((number, Way::Back), back));
        self.copy((number, Way::There), (caller, listener));
    }

    fn copy(&self, (number, way): (u64, Way), (mut from, mut to): (UnixStream, UnixStream)) {
        let mut bytes = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if !self.passes(number, way) || to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // The end of a stream does not pass a cut network either.
        if self.passes(number, way)
            && let Some(ended) = self.state().connections.remove(&number)
        {
            ended.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
    }

    /// Waits until bytes of a connection pass. Returns false if the connection has ended.
    fn passes(&self, number: u64, way: Way) -> bool {
        let has_ended = |state: &State| !state.connections.contains_key(&number);
        let waited = self.0.1.wait_while(self.state(), |state| state.is_cut(way) && !has_ended(state));
        let mut state = waited.expect("no panic");
        if state.network == Network::Lossy && state.dice.below(LOSS) == 0 {
            drop(state);
            thread::sleep(LOST);
            state = self.state();
        }
        !has_ended(&state)
    }
}
