//! The real program with orders from the test: timers work without a reader, and everything ends with the connection.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limo_shepherd::{
    Answer, BootTime, CommandFailure, Handle, Kept, Launch, Order, Plan, Why, pair, receive, send, send_launch,
};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Longest wait of a test on a working machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Shepherd {
    child: Child,
    socket: OwnedFd,
}

impl Shepherd {
    fn start() -> Self {
        let (socket, theirs) = pair().expect("sockets");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lshepherd"));
        let child = command.stdin(Stdio::from(theirs)).spawn().expect("lshepherd starts");
        let shepherd = Self { child, socket };
        shepherd.order(&Order::Hello { name: None });
        assert!(matches!(shepherd.answer(), Answer::Hello { .. }));
        shepherd
    }

    fn order(&self, order: &Order) {
        send(self.socket.as_fd(), &order.encode(), &[]).expect("sent");
    }

    /// Launches a shell script.
    fn launch(&self, script: &str, launch: Launch) {
        self.launch_with(script, None, launch);
    }

    /// Launches a shell script whose checkpoints `command` makes.
    fn launch_with(&self, script: &str, command: Option<&str>, launch: Launch) {
        let plan = Plan {
            paths: vec![b"/bin/sh".to_vec()],
            argv: ["sh", "-c", script].map(|word| word.as_bytes().to_vec()).into(),
            env: vec![b"PATH=/usr/bin:/bin".to_vec(), format!("LIMO_ATTEMPT={}", cookie()).into_bytes()],
            directory: b"/".to_vec(),
            umask: 0o022,
            uid: nix::unistd::geteuid().as_raw(),
            cookie: cookie(),
            checkpoint_command: command.map(|command| command.as_bytes().to_vec()),
            ..Plan::default()
        };
        let (bytes, file) = send_launch(&launch, &plan).expect("encoded");
        let null: Vec<File> = (0..3).map(|_| File::open("/dev/null").expect("there")).collect();
        let all: Vec<_> = file.iter().map(AsFd::as_fd).chain(null.iter().map(AsFd::as_fd)).collect();
        send(self.socket.as_fd(), &bytes, &all).expect("sent");
    }

    fn answer(&self) -> Answer {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(1000_u16)).expect("waited");
            match receive(self.socket.as_fd()) {
                Ok(Some(received)) => return Answer::decode(&received.bytes).expect("an answer"),
                Ok(None) => panic!("lshepherd has ended"),
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
        }
        panic!("no answer")
    }

    fn started(&self) -> i32 {
        match self.answer() {
            Answer::Started { handle: Handle(1), leader, .. } => leader,
            other => panic!("{other:?} instead of Started"),
        }
    }

    /// Returns the next end: reason, status and milliseconds.
    fn ended(&self) -> (Why, i32, u64) {
        let ended = match self.answer() {
            Answer::Exited { handle: Handle(1), ended } => ended,
            other => panic!("{other:?} instead of Exited"),
        };
        assert_eq!(self.answer(), Answer::Emptied { handle: Handle(1), left: 0 });
        (ended.why, ended.status, ended.elapsed)
    }
}

impl Drop for Shepherd {
    fn drop(&mut self) {
        nix::sys::socket::shutdown(std::os::fd::AsRawFd::as_raw_fd(&self.socket), nix::sys::socket::Shutdown::Both)
            .expect("an open socket");
        self.child.wait().expect("a child");
    }
}

/// Returns a cookie for each test, because all processes with a job's cookie are killed with it.
fn cookie() -> String {
    format!("timers-test-{}-{:?}", std::process::id(), std::thread::current().id())
}

fn plain() -> Launch {
    Launch {
        handle: Handle(1),
        time_limit: None,
        warning: None,
        checkpoint: None,
        kill_grace: 100,
        lease: None,
        launch_deadline: 30_000,
        claim: None,
        kept: Kept::default(),
    }
}

#[test]
fn a_time_limit_ends_with_term_and_then_kill() {
    let shepherd = Shepherd::start();
    shepherd.launch("exec sleep 1000", Launch { time_limit: Some(50), ..plain() });
    shepherd.started();
    assert_eq!(shepherd.answer(), Answer::Stopping { handle: Handle(1), why: Why::Limit });
    let (why, status, elapsed) = shepherd.ended();
    assert_eq!((why, status), (Why::Limit, libc::SIGTERM));
    assert!(elapsed >= 50, "{elapsed} ms");
    shepherd.launch("trap '' TERM; while :; do sleep 0.01; done", Launch { time_limit: Some(50), ..plain() });
    shepherd.started();
    assert_eq!(shepherd.answer(), Answer::Stopping { handle: Handle(1), why: Why::Limit });
    let (why, status, elapsed) = shepherd.ended();
    assert_eq!((why, status), (Why::Limit, libc::SIGKILL));
    assert!(elapsed >= 150, "{elapsed} ms: the limit and the grace");
}

#[test]
fn frozen_time_does_not_count() {
    let shepherd = Shepherd::start();
    shepherd.launch("exec sleep 1000", Launch { time_limit: Some(300), ..plain() });
    shepherd.started();
    let order = |on| shepherd.order(&Order::Frozen { handle: Handle(1), on });
    order(true);
    // The time limit of another job passes meanwhile.
    shepherd.launch("exec sleep 1000", Launch { handle: Handle(2), time_limit: Some(400), ..plain() });
    while shepherd.answer() != (Answer::Emptied { handle: Handle(2), left: 0 }) {}
    order(false);
    assert_eq!(shepherd.answer(), Answer::Stopping { handle: Handle(1), why: Why::Limit });
    let (_, _, elapsed) = shepherd.ended();
    assert!(elapsed >= 600, "{elapsed} ms, of which at least 300 are not frozen");
}

#[test]
fn an_unrenewed_lease_expires() {
    let shepherd = Shepherd::start();
    let now = BootTime::now();
    shepherd.launch("exec sleep 1000", Launch { lease: Some(now.plus(50)), ..plain() });
    shepherd.order(&Order::Lease { until: now.plus(400) });
    shepherd.started();
    assert_eq!(shepherd.answer(), Answer::Stopping { handle: Handle(1), why: Why::Lease });
    assert!(BootTime::now() >= now.plus(400), "it was renewed");
    assert_eq!(shepherd.ended().0, Why::Lease);
}

#[test]
fn a_launch_that_takes_too_long_is_given_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("held");
    std::fs::copy("/bin/true", &path).expect("copied");
    let file = File::options().read(true).write(true).open(&path).expect("an own file");
    // SAFETY: the descriptor is open. The signal about a waiting process must not end this one.
    unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert_eq!(libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK), 0, "a lease");
    }
    let shepherd = Shepherd::start();
    let held = Plan {
        paths: vec![path.to_str().expect("UTF-8").into()],
        argv: vec![b"held".to_vec()],
        directory: b"/".to_vec(),
        cookie: cookie(),
        uid: nix::unistd::geteuid().as_raw(),
        ..Plan::default()
    };
    let (bytes, _) = send_launch(&Launch { launch_deadline: 100, ..plain() }, &held).expect("encoded");
    let null = File::open("/dev/null").expect("there");
    send(shepherd.socket.as_fd(), &bytes, &[null.as_fd(); 3]).expect("sent");
    let step = limo_shepherd::Step::Deadline as u8;
    let expected = Answer::NotStarted { handle: Handle(1), step, errno: 0, reason: String::new() };
    assert_eq!(shepherd.answer(), expected);
    shepherd.launch("exit 3", Launch { handle: Handle(2), ..plain() });
    assert!(matches!(shepherd.answer(), Answer::Started { handle: Handle(2), .. }));
    while shepherd.answer() != (Answer::Emptied { handle: Handle(2), left: 0 }) {}
}

#[test]
fn everything_ends_with_the_connection() {
    let shepherd = Shepherd::start();
    shepherd.launch("setsid sleep 1000 & env -i /usr/bin/setsid /bin/sleep 1001 & wait", plain());
    let leader = shepherd.started();
    let end = Instant::now() + PATIENCE;
    let pid = shepherd.child.id();
    // Both children of the shell have left its group.
    let children = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let both = loop {
        let both = children(leader.cast_unsigned());
        let names = both.split_whitespace().map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")));
        if names.filter(|name| name.as_ref().is_ok_and(|name| name == "sleep\n")).count() == 2 {
            break both;
        }
        assert!(Instant::now() < end, "two processes sleep: {both}");
        std::thread::yield_now();
    };
    assert!(children(pid).contains(&leader.to_string()));
    drop(shepherd);
    for pid in both.split_whitespace().chain([leader.to_string().as_str()]) {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is gone");
    }
}

#[test]
fn a_command_makes_checkpoints_and_a_failed_one_keeps_the_last() {
    let directory = tempfile::tempdir().expect("a directory");
    let saved = directory.path().join("saved");
    let name = saved.to_str().expect("text");
    let command = format!("[ -e {name} ] && exit 3; echo $LIMO_JOB_PID $LIMO_ATTEMPT > {name}");
    let shepherd = Shepherd::start();
    shepherd.launch_with("exec sleep 1000", Some(&command), Launch { checkpoint: Some((None, 20)), ..plain() });
    let leader = shepherd.started();
    let checkpoint = || match shepherd.answer() {
        Answer::Checkpointed { handle: Handle(1), ran, took, failed } => (ran, took, failed),
        other => panic!("{other:?} instead of Checkpointed"),
    };
    let (ran, took, failed) = checkpoint();
    assert!(ran >= 20 && failed.is_none(), "{ran} ms, {failed:?}");
    assert_eq!(std::fs::read_to_string(&saved).expect("written"), format!("{leader} {}\n", cookie()));
    let failed = Some(CommandFailure { status: 3 << 8, is_late: false });
    assert_eq!(checkpoint(), (ran, took, failed));
    assert_eq!(checkpoint(), (ran, took, failed), "it is tried again");
}

#[test]
fn an_evicted_job_makes_a_checkpoint_before_it_is_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let saved = directory.path().join("saved");
    let command = format!("sleep 0.1; echo saved > {}", saved.display());
    let shepherd = Shepherd::start();
    shepherd.launch_with("exec sleep 1000", Some(&command), Launch { checkpoint: Some((None, 900_000)), ..plain() });
    shepherd.started();
    shepherd.order(&Order::Frozen { handle: Handle(1), on: true });
    shepherd.order(&Order::Stop { handle: Handle(1), grace: 30_000, evicts: true });
    assert!(matches!(shepherd.answer(), Answer::Checkpointed { took: 100.., failed: None, .. }));
    assert_eq!(std::fs::read_to_string(&saved).expect("written"), "saved\n");
    assert_eq!(shepherd.answer(), Answer::Stopping { handle: Handle(1), why: Why::Stop });
    let (why, status, _) = shepherd.ended();
    assert_eq!((why, status), (Why::Stop, libc::SIGTERM));
    // Of a command that takes too long, nothing is left after the grace.
    shepherd.launch_with(
        "exec sleep 1000",
        Some("sleep 2000"),
        Launch { checkpoint: Some((None, 900_000)), ..plain() },
    );
    shepherd.started();
    shepherd.order(&Order::Stop { handle: Handle(1), grace: 200, evicts: true });
    assert_eq!(shepherd.answer(), Answer::Stopping { handle: Handle(1), why: Why::Stop });
    let (_, status, elapsed) = shepherd.ended();
    assert!(elapsed >= 200 && [libc::SIGTERM, libc::SIGKILL].contains(&status), "{elapsed} ms, {status}");
}
