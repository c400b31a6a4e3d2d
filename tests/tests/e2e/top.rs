//! `lq top` on a real pseudo-terminal: its screen, its keys, and the restored terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use limo_tests::{Cluster, Submitter, until};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;

/// Sequences that leave the alternate screen and show the cursor.
const GIVEN_BACK: [&str; 2] = ["\x1b[?1049l", "\x1b[?25h"];

struct Screen {
    child: Child,
    keyboard: File,
    /// An open descriptor, with which the terminal keeps its settings.
    line: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    before: Termios,
}

impl Screen {
    fn open(submitter: &Submitter, arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        let before = tcgetattr(&pty.slave).expect("a terminal");
        let line = || Stdio::from(pty.slave.try_clone().expect("a copy"));
        let mut command = submitter.command("lq", arguments);
        command.env("TERM", "xterm").stdin(line()).stdout(line());
        let child = command.spawn().expect("a program that is built");
        drop(command);
        let keyboard = File::from(pty.master);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, kept) = (keyboard.try_clone().expect("a copy"), Arc::clone(&shown));
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                kept.lock().expect("no panic").extend_from_slice(&piece[..count]);
            }
        });
        Self { child, keyboard, line: pty.slave, shown, before }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no panic")).into_owned()
    }

    fn await_text(&self, text: &str) {
        until(&format!("the screen shows {text:?}"), || self.shown().contains(text).then_some(()));
    }

    fn forget(&self) {
        self.shown.lock().expect("no panic").clear();
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    /// Returns true if letters are echoed, lines are edited and Ctrl-C is a signal.
    fn modes(&self) -> LocalFlags {
        tcgetattr(&self.line).expect("a terminal").local_flags
    }

    /// Returns the exit code, and checks that the terminal is restored.
    fn end(mut self) -> Option<i32> {
        let status = until("lq top ends", || self.child.try_wait().expect("an own child"));
        for sequence in GIVEN_BACK {
            self.await_text(sequence);
        }
        assert_eq!(self.modes(), self.before.local_flags);
        status.code()
    }
}

#[test]
fn a_screen_that_follows_the_cluster() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["-J", "blocker", "sleep", "1000"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    let mut screen = Screen::open(&submitter, &["top"]);
    // The words are checked one by one, because only changed cells are drawn, and blanks did not change.
    for text in ["n1", "blocker", "running,", "draw", "jobid"] {
        screen.await_text(text);
    }
    assert!(!screen.modes().intersects(LocalFlags::ECHO | LocalFlags::ICANON), "keys come one by one");
    screen.forget();
    screen.press("s");
    screen.await_text("st");
    submitter.detach(&["-J", "second", "true"]);
    screen.await_text("second");
    cluster.kill_master();
    screen.await_text("AWAY");
    screen.forget();
    cluster.start_master();
    submitter.detach(&["-J", "third", "true"]);
    screen.await_text("third");
    screen.press("q");
    assert_eq!(screen.end(), Some(0));
}

#[test]
fn the_terminal_is_given_back_at_any_end() {
    let cluster = Cluster::of_one_node(1);
    for end in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let screen = Screen::open(cluster.submitter(), &["top"]);
        screen.await_text("n1");
        kill(Pid::from_raw(i32::try_from(screen.child.id()).expect("a process number")), end).expect("an own child");
        assert_eq!(screen.end(), Some(0), "{end}");
    }
    cluster.submitter().lq(&["top"]).failed("lq top needs a terminal");
}

#[test]
fn a_table_as_wide_as_the_terminal() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let name = "a-name-that-is-far-too-long-for-a-table-of-eighty-columns-and-is-cut-for-it-there";
    submitter.detach(&["-J", name, "sleep", "1000"]);
    let mut screen = Screen::open(submitter, &[]);
    let status = until("lq ends", || screen.child.try_wait().expect("an own child"));
    assert_eq!(status.code(), Some(0));
    screen.await_text("a-name-that-");
    until("the table is whole", || screen.shown().ends_with('\n').then_some(()));
    let text = screen.shown().replace("\x1b[32m", "").replace("\x1b[33m", "").replace("\x1b[0m", "");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains('…'), "{text}");
    assert!(!submitter.lq(&[]).succeeded().contains('…'), "whoever reads a pipe gets all");
}
