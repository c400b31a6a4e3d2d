//! The MCP39F511 and MCP39F511N on a pty: answers requests like the chip, or as a test wants. Tests of two crates and a
//! bench share this module; what only one of them needs is in that crate.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use limo_power::Chip;
use nix::pty::openpty;

/// Converts an answer into the pieces to send.
pub type Change = Box<dyn FnOnce(Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// State of the chip, and the requests so far.
pub struct State {
    pub registers: [u8; 256],
    /// Changes for the next requests, one each.
    pub changes: VecDeque<Change>,
    /// Whole requests.
    pub asked: Vec<Vec<u8>>,
}

/// A chip with its serial line.
pub struct Emulated {
    pub path: PathBuf,
    pub chip: Chip,
    state: Arc<Mutex<State>>,
    /// Kept open, so that the line stays when a reader closes it.
    _line: OwnedFd,
}

impl Emulated {
    /// Makes a chip with power range 19, 2^4 line cycles, and 41.50 W on its first channel.
    pub fn new(chip: Chip) -> Self {
        let pty = openpty(None, None).expect("a pty");
        let path = nix::unistd::ttyname(&pty.slave).expect("a terminal");
        let state = State { registers: [0; 256], changes: VecDeque::new(), asked: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let (master, answering) = (File::from(pty.master), state.clone());
        thread::spawn(move || answer(master, &answering));
        let emulated = Self { path, chip, state, _line: pty.slave };
        for channel in 0..emulated.channels().len() {
            emulated.set_range(channel, 19);
        }
        emulated.set_cycles(4);
        emulated.set(0x02, &[0b101_0000, 0]);
        emulated.set_power(0, 4150);
        emulated
    }

    /// Returns the registers of power and range of each channel.
    fn channels(&self) -> &'static [(u8, u8)] {
        match self.chip {
            Chip::One => &[(0x12, 0x82)],
            Chip::Two => &[(0x16, 0xae), (0x1a, 0xbe)],
        }
    }

    pub fn set(&self, address: u8, bytes: &[u8]) {
        let address = usize::from(address);
        self.with(|state| state.registers[address..address + bytes.len()].copy_from_slice(bytes));
    }

    /// Sets the raw power: at range 19 in 10 mW.
    pub fn set_power(&self, channel: usize, raw: u32) {
        self.set(self.channels()[channel].0, &raw.to_le_bytes());
    }

    pub fn set_range(&self, channel: usize, range: u8) {
        // The values are the ranges of voltage, current and power.
        self.set(self.channels()[channel].1, &[18, 13, range, 0]);
    }

    pub fn set_cycles(&self, n: u16) {
        self.set(cycles_at(self.chip), &n.to_le_bytes());
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }
}

/// Returns the register of N, for 2^N line cycles.
pub fn cycles_at(chip: Chip) -> u8 {
    if chip == Chip::One { 0x9e } else { 0xa8 }
}

/// Answers until the line is closed.
fn answer(mut line: File, state: &Mutex<State>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64];
    loop {
        match line.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return,
        }
        while let Some(request) = whole(&mut bytes) {
            let mut state = state.lock().expect("no panic");
            let change = state.changes.pop_front();
            let reply = reply(&mut state, &request);
            state.asked.push(request);
            drop(state);
            let pieces = match change {
                Some(change) => change(reply),
                None => vec![reply],
            };
            for piece in pieces {
                line.write_all(&piece).expect("an open line");
                thread::yield_now();
            }
        }
    }
}

/// Takes a whole frame, or bytes that a chip takes for one.
fn whole(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let start = bytes.iter().position(|byte| *byte == 0xa5)?;
    bytes.drain(..start);
    let length = usize::from(*bytes.get(1)?);
    (bytes.len() >= length).then(|| bytes.drain(..length).collect())
}

fn reply(state: &mut State, request: &[u8]) -> Vec<u8> {
    let (sum, frame) = request.split_last().expect("a frame");
    if *sum != frame.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)) {
        return vec![0x51];
    }
    match frame[2..] {
        [0x41, 0, at, 0x4e, count] if count <= 32 => {
            let at = usize::from(at);
            let mut reply = vec![0x06, count + 3];
            reply.extend_from_slice(&state.registers[at..at + usize::from(count)]);
            reply.push(reply.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
            reply
        }
        [0x41, 0, at, 0x4d, 2, low, high] => {
            state.registers[usize::from(at)..][..2].copy_from_slice(&[low, high]);
            vec![0x06]
        }
        _ => vec![0x15],
    }
}
