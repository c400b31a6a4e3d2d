//! Input devices: the time of the newest event. Events are read only to remove them, and are dropped unseen.
//!
//! The thread sleeps in `poll` until a device has an event, so it notices the first one at once. While the owner is there, it
//! wakes up once a second at most.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::error::OwnerError;
use crate::signs::Signs;
use crate::source::{Place, Source};

/// Longest pause after events; a mouse sends up to a thousand a second. It is shorter than the time after which the owner is away,
/// so that the owner who goes on is not away meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Most devices that are watched.
const MOST_DEVICES: usize = 128;

/// Most reads that empty a device; its buffer is smaller.
const MOST_READS: usize = 64;

/// Bit of `INPUT_PROP_ACCELEROMETER` in the properties of a device: it reports the movements of the machine, not of a person.
const ACCELEROMETER: u64 = 1 << 6;

/// Input devices in one directory.
pub struct InputDevices {
    directory: PathBuf,
    sysfs: PathBuf,
    /// Tells about new devices; `None` until the first look.
    changes: Option<Inotify>,
    devices: Vec<(PathBuf, File)>,
    signs: Signs,
    pause: Duration,
    told: bool,
    /// Time of the next look, after events.
    rest_until: Option<Instant>,
}

impl InputDevices {
    pub fn new(place: &Place) -> Self {
        Self {
            directory: place.input(),
            sysfs: place.sysfs.clone(),
            changes: None,
            devices: Vec::new(),
            signs: Signs::new(place.away_after),
            pause: PAUSE.min(place.away_after / 2),
            told: false,
            rest_until: None,
        }
    }

    fn begin(&mut self) -> Result<(), OwnerError> {
        let watch = || {
            let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
            let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ATTRIB;
            changes.add_watch(&self.directory, what)?;
            Ok(changes)
        };
        let watched = watch()
            .map_err(|error: nix::Error| OwnerError::Watch { path: self.directory.clone(), source: error.into() })?;
        self.scan()?;
        self.changes = Some(watched);
        Ok(())
    }

    /// Opens the devices that are not open.
    fn scan(&mut self) -> Result<(), OwnerError> {
        let failed = |source| OwnerError::Read { path: self.directory.clone(), source };
        let mut refused = None;
        let mut count = 0;
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if !is_of_a_person(&path, &self.sysfs) || self.devices.iter().any(|(open, _)| *open == path) {
                continue;
            }
            count += 1;
            let mut options = OpenOptions::new();
            match options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&path) {
                Ok(device) if self.devices.len() < MOST_DEVICES => self.devices.push((path, device)),
                Ok(_) => {}
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(source) if self.devices.is_empty() => {
                Err(OwnerError::Devices { path: self.directory.clone(), count, source })
            }
            _ => Ok(()),
        }
    }

    /// Waits for events, new devices or the end of `limit`. Returns true after an event.
    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, OwnerError> {
        let Some(changes) = &self.changes else { return Ok(false) };
        // One millisecond is added to the rounded time, so that the last wait does not spin.
        let timeout = limit.map(|limit| limit + Duration::from_millis(1));
        let timeout =
            timeout.map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
        let fds = [changes.as_fd()].into_iter().chain(self.devices.iter().map(|(_, device)| device.as_fd()));
        let mut waited: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut waited, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(OwnerError::Watch { path: self.directory.clone(), source: error.into() }),
        }
        let ready: Vec<bool> = waited.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let has_changed = ready.first() == Some(&true);
        if has_changed {
            // The directory is read again, so the changes themselves do not matter.
            let _ = changes.read_events();
        }
        let mut has_event = false;
        let before = self.devices.len();
        let mut ready = ready.into_iter().skip(1);
        self.devices.retain_mut(|(_, device)| {
            if ready.next() != Some(true) {
                return true;
            }
            let emptied = empty(device);
            has_event |= emptied.had_event;
            emptied.is_open
        });
        if has_changed {
            self.scan()?;
        } else if self.devices.len() < before {
            // A device that is gone fails to open; the end of a pipe is one that another writer may follow.
            self.rest_until = Some(Instant::now() + PAUSE);
            let _ = self.scan();
        }
        Ok(has_event)
    }
}

impl Source for InputDevices {
    fn next(&mut self) -> Result<bool, OwnerError> {
        if self.changes.is_none() {
            self.begin()?;
            return Ok(self.told);
        }
        loop {
            if let Some(rest) = self.rest_until.take() {
                thread::sleep(rest.saturating_duration_since(Instant::now()));
            }
            let left = self.signs.left(Instant::now());
            if left.is_none() && self.told {
                self.told = false;
                return Ok(false);
            }
            if self.wait(left)? {
                let now = Instant::now();
                self.signs.seen(now);
                self.rest_until = Some(now + self.pause);
                if !std::mem::replace(&mut self.told, true) {
                    return Ok(true);
                }
            }
        }
    }
}

struct Emptied {
    had_event: bool,
    is_open: bool,
}

/// Removes the events of a device.
fn empty(device: &mut File) -> Emptied {
    let mut events = [0; 4096];
    let mut had_event = false;
    for _ in 0..MOST_READS {
        match device.read(&mut events) {
            Ok(0) => return Emptied { had_event, is_open: false },
            Ok(_) => had_event = true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Emptied { had_event, is_open: error.kind() == ErrorKind::WouldBlock },
        }
    }
    Emptied { had_event, is_open: true }
}

/// Returns true for an event device that a person moves or presses.
fn is_of_a_person(path: &Path, sysfs: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.starts_with("event")) else {
        return false;
    };
    let properties = fs::read_to_string(sysfs.join("class/input").join(name).join("device/properties"));
    let last = properties.ok().and_then(|words| u64::from_str_radix(words.split_whitespace().last()?, 16).ok());
    last.is_none_or(|bits| bits & ACCELEROMETER == 0)
}

/// Returns an error if the directory of input devices cannot be read.
pub fn check(place: &Place) -> io::Result<()> {
    fs::read_dir(place.input()).map(drop)
}
