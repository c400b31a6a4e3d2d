//! A machine made of files: a processor that obeys the cap in its powercap zone, and a wattmeter in hwmon. It draws its
//! idle draw plus the wanted draw, limited by its cap, and records the times above a limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use limo_model::{Energy, Power, Span, Time};

pub const IDLE: Power = Power::from_watts(10);

/// Initial limit of the zone.
const ORIGINAL: Power = Power::from_watts(400);

/// Time between two steps: with a thousand steps a second, measured times last at least several of them.
const STEP: Duration = Duration::from_millis(1);

/// Time above the limit, from its cause until the draw is at or below the limit.
#[derive(Debug, Clone, Copy)]
pub struct Above {
    pub lasted: Span,
    pub peak: Power,
    /// Energy above the limit.
    pub energy: Energy,
}

pub struct Plant {
    dir: PathBuf,
    /// Draw of the job without a cap, in mW.
    wanted: Arc<AtomicI64>,
    watch: Arc<Mutex<Watch>>,
    stop: Arc<AtomicI64>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Watch {
    limit: Option<Power>,
    since: Option<Time>,
    peak: Power,
    energy: Energy,
    seen: Option<Above>,
}

pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl Plant {
    /// Starts the machine below `dir`, which becomes a sysfs.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn start(dir: &Path) -> Result<Self> {
        let zone = dir.join("class/powercap/intel-rapl:0");
        let files = [
            ("name", "package-0".to_owned()),
            ("enabled", "1".to_owned()),
            ("energy_uj", "0".to_owned()),
            ("max_energy_range_uj", "262143328850".to_owned()),
            ("constraint_0_name", "long_term".to_owned()),
            ("constraint_0_power_limit_uw", (ORIGINAL.mw() * 1_000).to_string()),
            ("constraint_0_time_window_us", "976".to_owned()),
        ];
        fs::create_dir_all(&zone).with_context(|| format!("cannot make {}", zone.display()))?;
        for (name, value) in files {
            write(&zone.join(name), &value)?;
        }
        let sensor = dir.join("class/hwmon/hwmon0");
        fs::create_dir_all(&sensor).with_context(|| format!("cannot make {}", sensor.display()))?;
        write(&sensor.join("name"), "plant")?;
        write(&sensor.join("power1_input"), &(IDLE.mw() * 1_000).to_string())?;
        let (wanted, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let watch = Arc::new(Mutex::new(Watch::default()));
        let thread = {
            let (wanted, stop, watch) = (wanted.clone(), stop.clone(), watch.clone());
            thread::spawn(move || run(&zone, &sensor, &wanted, &watch, &stop))
        };
        Ok(Self { dir: dir.to_owned(), wanted, watch, stop, thread: Some(thread) })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sets the wanted draw of the job.
    pub fn want(&self, draw: Power) {
        self.wanted.store(draw.mw(), Ordering::SeqCst);
    }

    /// Starts to record the time above `limit`.
    pub fn watch(&self, limit: Power) {
        if let Ok(mut watch) = self.watch.lock() {
            *watch = Watch { limit: Some(limit), since: Some(now()), ..Watch::default() };
        }
    }

    /// Returns the time above the limit, once it is over.
    pub fn seen(&self) -> Option<Above> {
        self.watch.lock().ok()?.seen
    }

    pub fn draw(&self) -> Power {
        draw(&self.dir.join("class/powercap/intel-rapl:0"), Power::from_mw(self.wanted.load(Ordering::SeqCst)))
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic: it only reads and writes files.
            let _ = thread.join();
        }
    }
}

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, format!("{value}\n")).with_context(|| format!("cannot write {}", path.display()))
}

fn draw(zone: &Path, wanted: Power) -> Power {
    let cap = fs::read_to_string(zone.join("constraint_0_power_limit_uw")).ok();
    let cap = cap.and_then(|text| text.trim().parse::<i64>().ok()).map(|uw| Power::from_mw(uw / 1_000));
    IDLE + wanted.min(cap.unwrap_or(ORIGINAL))
}

fn run(zone: &Path, sensor: &Path, wanted: &AtomicI64, watch: &Mutex<Watch>, stop: &AtomicI64) {
    let (input, next) = (sensor.join("power1_input"), sensor.join("next"));
    let mut last = now();
    while stop.load(Ordering::SeqCst) == 0 {
        let (at, draw) = (now(), draw(zone, Power::from_mw(wanted.load(Ordering::SeqCst))));
        // The file is renamed into place, so that a partial file is never read.
        if write(&next, &(draw.mw() * 1_000).to_string()).and_then(|()| Ok(fs::rename(&next, &input)?)).is_err() {
            return;
        }
        if let Ok(mut watch) = watch.lock() {
            watch.look(at, draw, at - last);
        }
        last = at;
        thread::sleep(STEP);
    }
}

impl Watch {
    fn look(&mut self, at: Time, draw: Power, step: Span) {
        let (Some(limit), Some(since), None) = (self.limit, self.since, self.seen) else { return };
        if draw > limit {
            self.peak = self.peak.max(draw);
            self.energy += (draw - limit) * step;
        } else if self.peak > Power::ZERO {
            self.seen = Some(Above { lasted: at - since, peak: self.peak, energy: self.energy });
        }
    }
}
