//! Samples of a meter, taken at a steady rate in a thread of its own. The times are on one monotonic clock.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use limo_model::Power;
use limo_power::{Batch, ClockLimits, Meter, MeterError, Reading};
use thiserror::Error;

use super::gpu_watch::{GpuWatch, LimitCounts};
use super::window::{Sample, TimeRange};

/// Most samples that are kept: a day at the shortest interval of 20 ms is four times as much.
const MOST_SAMPLES: usize = 1 << 20;

/// Most successive failures. A meter that does not answer for longer has failed.
const MOST_FAILURES: u32 = 20;

/// Longest wait for a sample beyond the time that it should have come.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time axis of all measurements.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock(Instant);

impl MonotonicClock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time of an instant, in seconds; instants before the start are 0.
    pub fn seconds(self, at: Instant) -> f64 {
        at.saturating_duration_since(self.0).as_secs_f64()
    }

    /// Returns the present time.
    pub fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// Reason why the meter gives no samples.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum RecorderError {
    #[error("the meter fails: {0}")]
    Meter(#[from] MeterError),
    #[error("the meter failed {MOST_FAILURES} times in a row: {0}")]
    Failing(String),
    #[error("the meter has not answered for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("there are {MOST_SAMPLES} samples, which is the limit: use a longer --interval")]
    Full,
}

/// Samples so far.
#[derive(Debug, Default)]
struct Recorded {
    samples: Vec<Sample>,
    /// Failures since the last sample, and the last one of them.
    failures: (u32, String),
    /// True while all samples came from an energy counter.
    is_counted: bool,
    /// GPU whose clock limits are sampled, if there is one that reports them.
    watch: Option<GpuWatch>,
    /// Its limits, with their times.
    limits: Vec<(f64, ClockLimits)>,
}

/// Meter that is being sampled.
#[derive(Debug)]
pub struct Recorder {
    recorded: Arc<(Mutex<Recorded>, Condvar)>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    clock: MonotonicClock,
}

impl Recorder {
    /// Starts to sample every `interval`.
    ///
    /// # Errors
    /// If the first sample fails.
    pub fn start(mut meter: Box<dyn Meter>, interval: Duration, clock: MonotonicClock) -> Result<Self, RecorderError> {
        let mut batch = Batch::new(interval);
        let now = clock.now();
        batch.look(now, meter.read(now)?);
        let recorded = Arc::new((Mutex::new(Recorded { is_counted: true, ..Recorded::default() }), Condvar::new()));
        let (stop, stopped) = mpsc::channel();
        let shared = recorded.clone();
        let thread = thread::spawn(move || {
            let mut next = now;
            loop {
                next = (next + interval).max(clock.now());
                match stopped.recv_timeout(next.saturating_sub(clock.now())) {
                    Err(RecvTimeoutError::Timeout) => look(meter.as_mut(), &mut batch, clock.now(), &shared),
                    _ => return,
                }
            }
        });
        Ok(Self { recorded, stop: Some(stop), thread: Some(thread), clock })
    }

    /// Returns the clock of the samples.
    pub fn clock(&self) -> MonotonicClock {
        self.clock
    }

    /// Waits until there is a sample from `until_s` or later.
    ///
    /// # Errors
    /// If the meter fails, or does not answer.
    pub fn wait(&self, until_s: f64) -> Result<(), RecorderError> {
        let due = (until_s - self.clock.now().as_secs_f64()).max(0.0);
        let end = Instant::now() + PATIENCE + Duration::from_secs_f64(due);
        let mut recorded = self.lock();
        loop {
            if recorded.failures.0 >= MOST_FAILURES {
                return Err(RecorderError::Failing(recorded.failures.1.clone()));
            }
            if recorded.samples.len() >= MOST_SAMPLES {
                return Err(RecorderError::Full);
            }
            if recorded.samples.last().is_some_and(|sample| sample.at_s >= until_s) {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RecorderError::Silent);
            }
            recorded = self.recorded.1.wait_timeout(recorded, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the samples that concern `range`.
    pub fn samples(&self, range: TimeRange) -> Vec<Sample> {
        let recorded = self.lock();
        let concerns = |sample: &&Sample| sample.at_s >= range.begin_s && sample.at_s - sample.over_s <= range.end_s;
        recorded.samples.iter().filter(concerns).copied().collect()
    }

    /// Returns true if all samples came from an energy counter, which misses nothing between them.
    pub fn is_counted(&self) -> bool {
        self.lock().is_counted
    }

    /// Samples the clock limits of this GPU from now on, or of none.
    pub fn watch(&self, gpu: Option<GpuWatch>) {
        let mut recorded = self.lock();
        (recorded.watch, recorded.limits) = (gpu, Vec::new());
    }

    /// Returns how often the GPU had limits in a run; `None` without samples of them.
    pub fn limits(&self, run: TimeRange) -> Option<LimitCounts> {
        LimitCounts::of(&self.lock().limits, run)
    }

    /// Forgets samples before this time.
    pub fn forget(&self, before_s: f64) {
        let mut recorded = self.lock();
        recorded.samples.retain(|sample| sample.at_s >= before_s);
        recorded.limits.retain(|(at_s, _)| *at_s >= before_s);
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        // The samples are whole after a panic of the other thread, too.
        self.recorded.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A meter with a command ends within 5 s.
            let _ = thread.join();
        }
    }
}

/// Takes one sample.
fn look(meter: &mut dyn Meter, batch: &mut Batch, now: Duration, shared: &(Mutex<Recorded>, Condvar)) {
    let reading = meter.read(now);
    let mut recorded = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    match recorded.watch.as_mut().map(GpuWatch::look) {
        Some(Some(limits)) if recorded.limits.len() < MOST_SAMPLES => {
            recorded.limits.push((now.as_secs_f64(), limits));
        }
        // It does not report them now, and never will.
        Some(None) => recorded.watch = None,
        _ => {}
    }
    match reading {
        Ok(reading) => {
            recorded.failures.0 = 0;
            recorded.is_counted &= !matches!(reading, Reading::Draw(_));
            if let Some((draw, over)) = batch.look(now, reading)
                && recorded.samples.len() < MOST_SAMPLES
            {
                let (at_s, over_s) = (now.as_secs_f64(), over.as_secs_f64());
                // A mean of a counter may reach back behind draws that were shown since.
                let over_s = recorded.samples.last().map_or(over_s, |last| over_s.min(at_s - last.at_s));
                let shown_w = meter.shown().map(Power::watts);
                recorded.samples.push(Sample { at_s, over_s, draw_w: draw.watts(), shown_w });
            }
        }
        Err(error) => {
            batch.interrupt();
            recorded.failures = (recorded.failures.0 + 1, error.to_string());
        }
    }
    shared.1.notify_all();
}
