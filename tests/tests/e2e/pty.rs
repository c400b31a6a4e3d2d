//! Jobs with their own terminal, used through a real one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread;

use limo_tests::{Cluster, Submitter, finish, processes, until};
use nix::libc;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// `lrun --pty` on a terminal with a user who reads and types.
struct Desk {
    lrun: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
    /// Number of bytes read so far.
    seen: usize,
    terminal: OwnedFd,
    before: Termios,
}

impl Desk {
    fn new(submitter: &Submitter, job: &[&str]) -> Self {
        let pty = openpty(Some(&size(24, 80)), None).expect("a terminal");
        let lrun = submitter.command("lrun", &[]).get_program().to_owned();
        let lrun = lrun.to_str().expect("UTF-8");
        let arguments: Vec<&str> = ["--ctty", "--wait", lrun, "--pty"].into_iter().chain(job.iter().copied()).collect();
        let mut command = submitter.command_of(Path::new("setsid"), &arguments);
        let end = || pty.slave.try_clone().expect("a descriptor");
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "vt100").env("PS1", "prompt> ");
        let before = tcgetattr(&pty.slave).expect("a terminal");
        let shown = Arc::new(Mutex::new(String::new()));
        let keys = File::from(pty.master);
        let mut screen = keys.try_clone().expect("a descriptor");
        let record = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                record.lock().expect("no panic").push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        });
        Self { lrun: command.spawn().expect("setsid is there"), keys, shown, seen: 0, terminal: pty.slave, before }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until `text` is shown, after the text of the previous wait.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let (shown, seen) = (Arc::clone(&self.shown), self.seen);
        let all = || shown.lock().expect("no panic").clone();
        let found = until(&format!("`{text}` on the terminal"), || {
            let found = all()[seen..].find(text);
            if found.is_none() && thread::panicking() {
                eprintln!("{}", all());
            }
            found
        });
        self.seen += found + text.len();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal).expect("a terminal").local_flags.contains(LocalFlags::ICANON)
    }

    fn resize(&self, size: Winsize) {
        // SAFETY: the descriptor is open, and the size lives until the call returns.
        assert_eq!(unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// Waits for the end of `lrun`, and checks that the terminal is restored. Returns the exit code.
    #[track_caller]
    fn ends(self) -> Option<i32> {
        let Self { lrun, terminal, before, .. } = self;
        let code = finish(lrun).code;
        assert_eq!(tcgetattr(&terminal).expect("a terminal"), before, "the terminal is not as it was");
        code
    }

    fn signal_lrun(&self, mark: &Submitter, signal: Signal) {
        let all = processes(limo_tests::MARK, &mark.mark);
        let lrun = all.iter().find(|process| process.is_called("lrun")).expect("lrun runs");
        kill(Pid::from_raw(lrun.pid), signal).expect("it is ours");
    }
}

#[test]
fn a_program_that_reads_single_keys_gets_all_of_them() {
    let cluster = Cluster::of_one_node(1);
    let script = "tty; echo $TERM; stty raw -echo; printf ready; dd bs=1 count=4 2>/dev/null | od -An -tx1; exit 5";
    let mut desk = Desk::new(cluster.submitter(), &["sh", "-c", script]);
    desk.shows("/dev/pts/");
    desk.shows("vt100");
    desk.shows("ready");
    assert!(desk.is_raw());
    desk.types("\x03\x1a\x04q");
    desk.shows("03 1a 04 71");
    assert_eq!(desk.ends(), Some(5));
}

#[test]
fn the_size_follows_and_an_interrupt_is_one() {
    let cluster = Cluster::of_one_node(1);
    let script = "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut desk = Desk::new(cluster.submitter(), &["sh", "-c", script]);
    desk.shows("24 80\r\n");
    desk.shows("ready");
    desk.resize(size(30, 100));
    desk.shows("30 100\r\n");
    desk.types("\x03");
    assert_eq!(desk.ends(), Some(130));
}

#[test]
fn a_shell_stops_and_continues_its_jobs() {
    let cluster = Cluster::of_one_node(1);
    let mut desk = Desk::new(cluster.submitter(), &["sh", "-i"]);
    desk.shows("prompt> ");
    desk.types("sh -c 'echo up-$((1+1)); exec sleep 1000'\n");
    desk.shows("up-2");
    desk.types("\x1a");
    desk.shows("Stopped");
    desk.shows("prompt> ");
    desk.types("echo still-$((2+2))\n");
    desk.shows("still-4");
    desk.types("fg\n");
    desk.shows("exec sleep 1000");
    desk.types("\x03");
    desk.shows("prompt> ");
    desk.types("exit 7\n");
    assert_eq!(desk.ends(), Some(7));
}

#[test]
fn the_terminal_is_restored_after_any_end_of_lrun() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    for (signal, code) in [(Signal::SIGABRT, None), (Signal::SIGTERM, Some(143)), (Signal::SIGHUP, Some(129))] {
        let mut desk = Desk::new(submitter, &["sh", "-c", "echo ready; exec sleep 1000"]);
        desk.shows("ready");
        until("the terminal is raw", || desk.is_raw().then_some(()));
        desk.signal_lrun(submitter, signal);
        let ended = desk.ends();
        // The status of setsid after a signal to its child varies.
        assert!(code.is_none() || ended == code, "{signal}: {ended:?}");
        if signal == Signal::SIGABRT {
            let job = submitter.jobs()[0]["id"].to_string();
            submitter.lq(&["cancel", &job]).succeeded();
            until("the job is over", || submitter.jobs().is_empty().then_some(()));
        }
    }
}

/// Cancels an interactive shell, which ignores TERM but notices that its terminal no longer exists.
#[test]
fn a_shell_that_is_cancelled_ends_before_the_grace_is_over() {
    let cluster = limo_tests::Setup::nodes(1, 1).master(&["--kill-grace", "1h"]).start();
    let submitter = cluster.submitter();
    let mut desk = Desk::new(submitter, &["sh", "-i"]);
    desk.shows("prompt> ");
    submitter.lq(&["cancel", "1"]).succeeded();
    desk.shows("cancelled");
    desk.ends();
    assert_eq!(submitter.state(1), "cancelled");
}

#[test]
fn pty_is_refused_without_a_terminal_or_with_files() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lrun(&["--pty", "true"]).failed("--pty needs a terminal, but standard input is not one");
    for other in [&["-o", "x"][..], &["-e", "x"], &["-i", "x"], &["--detach"], &["--wait"]] {
        let arguments: Vec<&str> = ["--pty"].iter().chain(other).chain(&["true"]).copied().collect();
        submitter.lrun(&arguments).failed("cannot be used with");
    }
}

/// Suspends a shell and its command for power, and not for the user: the shell must not take its terminal back from
/// the command.
#[test]
fn a_shell_and_its_jobs_are_suspended_and_continue_together() {
    const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");
    let steer = ["--readings-every", "20ms", "--least-off", "100ms", "--least-on", "100ms"];
    let node = ["--hardware", HARDWARE, "--reading-interval", "100ms"];
    let cluster = limo_tests::Setup::default().master(&steer).node("n1", &node).start();
    let submitter = cluster.submitter();
    let limit = |high: &str| submitter.lconf(&["set", "limits", "none", high]).succeeded();
    let stand_still = || {
        let state = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        cluster.job_processes().iter().filter(|process| state(process.pid).contains(") T ")).count()
    };
    let mut desk = Desk::new(submitter, &["--app", "steady", "sh", "-i"]);
    desk.shows("prompt> ");
    desk.types("sh -c 'echo up-$((1+1)); read x; echo got-$x'\n");
    desk.shows("up-2");
    limit("15W");
    until("the job is suspended", || (submitter.state(1) == "suspended").then_some(()));
    until("its processes stand still", || (stand_still() == 2).then_some(()));
    // Input that is typed now is read later.
    desk.types("early-");
    desk.shows("early-");
    limit("none");
    until("the job goes on", || (submitter.state(1) == "running").then_some(()));
    until("its processes go on", || (stand_still() == 0).then_some(()));
    desk.types("word\n");
    desk.shows("got-early-word");
    desk.shows("prompt> ");
    desk.types("exit 3\n");
    assert_eq!(desk.ends(), Some(3));
}
