//! A machine that draws power: a thread that knows from a file if a command is at work, and shows the draw on fake
//! devices. It counts exactly what it draws, so a test can compare.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::program::prefer;

/// Interval between two looks at the file.
const TICK: Duration = Duration::from_millis(1);

/// Longest time that a meter looks back.
const MEMORY_S: f64 = 5.0;

/// Draw at one time: without the command, and now.
pub type Draw = (f64, f64);

/// Returns the draw for a time since the start, and whether the command is at work.
pub type Law = Box<dyn FnMut(f64, bool) -> Draw + Send>;

/// Shows the draw. Gets the record of the energy, once a tick.
pub type Display = Box<dyn FnMut(&Drawn) + Send>;

/// Energy over time.
#[derive(Default)]
pub struct Drawn {
    /// Times, with the energy up to then.
    record: VecDeque<(f64, f64)>,
}

impl Drawn {
    /// Returns the energy since the start.
    pub fn total_j(&self) -> f64 {
        self.record.back().map_or(0.0, |(_, energy_j)| *energy_j)
    }

    /// Returns the mean draw over `window_s`, `lag_s` ago.
    pub fn mean_w(&self, window_s: f64, lag_s: f64) -> f64 {
        let end_s = self.record.back().map_or(0.0, |(at_s, _)| *at_s) - lag_s;
        (self.at(end_s) - self.at(end_s - window_s)) / window_s
    }

    /// Returns the energy at a time, interpolated; before the record it continues evenly.
    fn at(&self, at_s: f64) -> f64 {
        let after = self.record.partition_point(|(time_s, _)| *time_s < at_s).clamp(1, self.record.len() - 1);
        let ((early_s, early_j), (late_s, late_j)) = (self.record[after - 1], self.record[after]);
        early_j + (late_j - early_j) * (at_s - early_s) / (late_s - early_s)
    }
}

/// Work of one command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    pub above_j: f64,
}

pub struct Plant {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    works: Arc<Mutex<Vec<Work>>>,
}

impl Plant {
    /// Starts a machine whose commands are at work while the file `busy` exists.
    pub fn start(busy: PathBuf, law: Law, display: Display) -> Self {
        let (stop, stopped) = mpsc::channel();
        let works = Arc::new(Mutex::new(Vec::new()));
        let (shared, (ready, is_ready)) = (works.clone(), mpsc::channel());
        let thread = thread::spawn(move || Machine { busy, law, display, works: shared }.run(&stopped, &ready));
        is_ready.recv().expect("the devices show something");
        Self { stop: Some(stop), thread: Some(thread), works }
    }

    /// Returns the median energy above idle of all works so far.
    pub fn work_j(&self) -> f64 {
        let mut energies: Vec<f64> = self.works.lock().expect("no panic").iter().map(|work| work.above_j).collect();
        energies.sort_by(f64::total_cmp);
        energies[energies.len() / 2]
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.stop.take();
        let result = self.thread.take().expect("once").join();
        if !thread::panicking() {
            result.expect("the machine works to its end");
        }
    }
}

struct Machine {
    busy: PathBuf,
    law: Law,
    display: Display,
    works: Arc<Mutex<Vec<Work>>>,
}

impl Machine {
    fn run(mut self, stopped: &Receiver<()>, ready: &Sender<()>) {
        // A device does not wait for a processor.
        prefer();
        let begin = Instant::now();
        let (idle_w, _) = (self.law)(0.0, false);
        let mut drawn = Drawn { record: VecDeque::from([(-MEMORY_S, -MEMORY_S * idle_w), (0.0, 0.0)]) };
        let mut work: Option<Work> = None;
        (self.display)(&drawn);
        ready.send(()).expect("somebody waits");
        while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let (now_s, is_busy) = (begin.elapsed().as_secs_f64(), self.busy.exists());
            let (idle_w, draw_w) = (self.law)(now_s, is_busy);
            let (before_s, before_j) = *drawn.record.back().expect("it begins with two");
            let span_s = now_s - before_s;
            drawn.record.push_back((now_s, before_j + draw_w * span_s));
            while drawn.record.len() > 2 && drawn.record[1].0 < now_s - MEMORY_S {
                drawn.record.pop_front();
            }
            if is_busy {
                work.get_or_insert_default().above_j += (draw_w - idle_w) * span_s;
            } else if let Some(work) = work.take() {
                self.works.lock().expect("no panic").push(work);
            }
            (self.display)(&drawn);
        }
    }
}
