//! Input devices are pipes with records of events; a logind is a program on a bus of its own.

#[path = "devices/bus.rs"]
mod bus;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use limo_owner::{News, OwnerChoice, Place, watch};
use nix::sys::stat::Mode;

/// Longest wait of a test for news.
const PATIENCE: Duration = Duration::from_secs(20);

/// A key press: a time, then type, code and value.
const EVENT: [u8; 24] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 30, 0, 1, 0, 0, 0];

/// Watches the sources of `choice`.
fn watched(choice: &str, place: &Place) -> Receiver<News> {
    let (sender, news) = mpsc::channel();
    let choice: OwnerChoice = choice.parse().expect("a choice");
    watch(choice.open(place).expect("sources"), move |news| sender.send(news).is_ok()).expect("threads");
    news
}

/// Returns the next news if it is about the owner.
fn next(news: &Receiver<News>) -> bool {
    match news.recv_timeout(PATIENCE).expect("news") {
        News::There(is_there) => is_there,
        News::Failed { name, error } => panic!("{name}: {error}"),
    }
}

struct Desk {
    root: tempfile::TempDir,
    place: Place,
}

impl Desk {
    fn new(away_after: Duration) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("dev/input")).expect("a directory");
        let place = Place { dev: at("dev"), sysfs: at("sys"), utmp: at("utmp"), away_after, ..Place::default() };
        Self { root, place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Adds a pipe in place of a device, and opens it as the kernel's side.
    fn device(&self, name: &str) -> File {
        let path = self.path("dev/input").join(name);
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        opened(&path)
    }
}

fn opened(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("the pipe")
}

#[test]
fn the_owner_is_there_from_the_first_event_until_there_was_none_for_a_while() {
    let desk = Desk::new(Duration::from_millis(1500));
    let mut keyboard = desk.device("event0");
    fs::write(desk.path("dev/input/mice"), EVENT).expect("another device");
    let news = watched("input", &desk.place);
    assert!(!next(&news));
    let pressed = Instant::now();
    keyboard.write_all(&EVENT).expect("an event");
    assert!(next(&news));
    let noticed = pressed.elapsed();
    assert!(noticed < Duration::from_millis(200), "{noticed:?}");
    assert!(!next(&news));
    let away = pressed.elapsed();
    assert!(away >= desk.place.away_after, "{away:?}");
    keyboard.write_all(&EVENT).expect("an event");
    assert!(next(&news));
}

#[test]
fn an_owner_who_goes_on_is_not_away_between_two_events() {
    let desk = Desk::new(Duration::from_millis(400));
    let mut keyboard = desk.device("event0");
    let news = watched("input", &desk.place);
    assert!(!next(&news));
    keyboard.write_all(&EVENT).expect("an event");
    assert!(next(&news));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1500) {
        keyboard.write_all(&EVENT).expect("an event");
        let away = news.recv_timeout(Duration::from_millis(20));
        assert!(away.is_err(), "away after {:?} of events", begin.elapsed());
    }
    assert!(!next(&news));
}

#[test]
fn devices_may_come_and_go() {
    let desk = Desk::new(Duration::from_millis(10));
    let news = watched("input", &desk.place);
    assert!(!next(&news));
    let mut keyboard = desk.device("event7");
    keyboard.write_all(&EVENT).expect("an event");
    assert!(next(&news));
    assert!(!next(&news));
    // The pipe ends, and another writer comes.
    drop(keyboard);
    let mut keyboard = opened(&desk.path("dev/input/event7"));
    keyboard.write_all(&EVENT).expect("an event");
    assert!(next(&news));
}

#[test]
fn movements_of_the_machine_are_no_sign_of_a_person() {
    let desk = Desk::new(Duration::from_secs(600));
    let mut sensor = desk.device("event0");
    let mut touchpad = desk.device("event1");
    for (name, properties) in [("event0", "40\n"), ("event1", "5\n")] {
        let directory = desk.path("sys/class/input").join(name).join("device");
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("properties"), properties).expect("a file");
    }
    let news = watched("input", &desk.place);
    assert!(!next(&news));
    sensor.write_all(&EVENT).expect("an event");
    touchpad.write_all(&EVENT).expect("an event");
    assert!(next(&news));
    let mut left = [0; 24];
    std::io::Read::read_exact(&mut sensor, &mut left).expect("the event is still there");
    assert_eq!(left, EVENT);
}

#[test]
fn devices_that_cannot_be_opened_are_named() {
    let desk = Desk::new(Duration::from_secs(600));
    let path = desk.path("dev/input/event0");
    std::os::unix::fs::symlink(desk.path("missing"), path).expect("a link");
    let news = watched("input,command:false", &desk.place);
    let mut told = [news.recv_timeout(PATIENCE).expect("news"), news.recv_timeout(PATIENCE).expect("news")];
    told.sort_by_key(|news| matches!(news, News::There(_)));
    let [News::Failed { name, error }, News::There(false)] = told else { panic!("{told:?}") };
    assert_eq!(name, "input");
    assert!(error.to_string().contains("none of the 1 input devices in"), "{error}");
}

#[test]
fn sessions_of_users_count_while_they_are_active_and_not_idle() {
    let Some(bus) = bus::Bus::start() else { return };
    let logind = bus.logind();
    // A greeter, a service and a session that another one covers.
    logind.set("1", "greeter", "active", false);
    logind.set("2", "background", "active", false);
    logind.set("3", "user", "online", false);
    let place = Place { bus: Some(bus.address.clone()), ..Place::default() };
    let news = watched("logind", &place);
    assert!(!next(&news));
    logind.set("4", "user", "active", false);
    assert!(next(&news));
    logind.set("4", "user", "active", true);
    assert!(!next(&news));
    logind.set("4", "user", "active", false);
    assert!(next(&news));
    logind.remove("4");
    assert!(!next(&news));
}
