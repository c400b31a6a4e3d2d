//! The MCP39F511 and MCP39F511N on a pty: answers requests as the chip does, or as it does not.

#![allow(dead_code, reason = "two tests and a bench include it, and each uses a part")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use limo_power::{Chip, Mcp39f511, Wattmeter};
use nix::pty::openpty;

/// What is done with a request, in place of an answer.
#[derive(Debug, Clone)]
pub enum Fault {
    Nack,
    ChecksumFailed,
    /// Nothing at all.
    Silence,
    /// The answer with its last byte changed.
    WrongSum,
    /// All but the last bytes.
    Cut(usize),
    /// These before the answer.
    Before(Vec<u8>),
    /// Byte by byte.
    Split,
}

/// What it holds, and what it was asked.
#[derive(Debug)]
pub struct State {
    pub registers: [u8; 256],
    pub faults: VecDeque<Fault>,
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
    /// At power range 19, 2^4 line cycles, and 41.50 W on its first channel.
    pub fn new(chip: Chip) -> Self {
        let pty = openpty(None, None).expect("a pty");
        let path = nix::unistd::ttyname(&pty.slave).expect("a terminal");
        let state = State { registers: [0; 256], faults: VecDeque::new(), asked: Vec::new() };
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

    /// Of each channel, where its power is and its range.
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

    /// As the chip shows it: at range 19 in 10 mW.
    pub fn set_power(&self, channel: usize, raw: u32) {
        self.set(self.channels()[channel].0, &raw.to_le_bytes());
    }

    pub fn set_range(&self, channel: usize, range: u8) {
        // Voltage, current, power.
        self.set(self.channels()[channel].1, &[18, 13, range, 0]);
    }

    pub fn set_cycles(&self, n: u16) {
        self.set(self.cycles_at(), &n.to_le_bytes());
    }

    pub fn cycles(&self) -> u16 {
        let at = usize::from(self.cycles_at());
        self.with(|state| u16::from_le_bytes([state.registers[at], state.registers[at + 1]]))
    }

    fn cycles_at(&self) -> u8 {
        if self.chip == Chip::One { 0x9e } else { 0xa8 }
    }

    /// For the requests that come next, one each.
    pub fn fail(&self, faults: &[Fault]) {
        self.with(|state| state.faults = faults.iter().cloned().collect());
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    /// A meter of this chip.
    pub fn meter(&self, channel: Option<u8>, interval: std::time::Duration) -> Mcp39f511 {
        Mcp39f511::new(Wattmeter { chip: self.chip, path: self.path.clone(), channel }, interval)
    }
}

/// Until the line is closed.
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
            let fault = state.faults.pop_front();
            let mut reply = reply(&mut state, &request);
            state.asked.push(request);
            drop(state);
            match fault {
                Some(Fault::Nack) => reply = vec![0x15],
                Some(Fault::ChecksumFailed) => reply = vec![0x51],
                Some(Fault::Silence) => reply.clear(),
                Some(Fault::WrongSum) => *reply.last_mut().expect("an answer") ^= 0xff,
                Some(Fault::Cut(bytes)) => reply.truncate(reply.len() - bytes),
                Some(Fault::Before(garbage)) => reply.splice(0..0, garbage).for_each(drop),
                Some(Fault::Split) => {
                    for byte in reply.drain(..) {
                        line.write_all(&[byte]).expect("an open line");
                        thread::yield_now();
                    }
                }
                None => {}
            }
            line.write_all(&reply).expect("an open line");
        }
    }
}

/// Takes a whole frame, or what a chip takes for one.
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
