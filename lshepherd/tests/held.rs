//! The real program across connections: it holds its job, and a later connection gets everything that is known of it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use limo_shepherd::{
    Answer, Claim, Ended, Handle, Holds, Kept, Launch, Order, Plan, Ring, Step, Why, pair, receive, send, send_launch,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::Pid;

/// Longest wait of a test on a working machine.
const PATIENCE: Duration = Duration::from_secs(30);

const HANDLE: Handle = Handle(1);
const CLAIM: Claim = Claim { job: 5, attempt: 2 };

fn spawn(directory: &Path) -> (Child, Connection) {
    let (socket, theirs) = pair().expect("sockets");
    let child = Command::new(env!("CARGO_BIN_EXE_lshepherd")).stdin(Stdio::from(theirs)).spawn().expect("it starts");
    let connection = Connection(socket);
    let directory = File::open(directory).expect("a directory");
    let hello = Order::Hello { name: Some("ready-1".into()) }.encode();
    send(connection.0.as_fd(), &hello, &[directory.as_fd()]).expect("sent");
    let (holds, _) = connection.greeted();
    assert_eq!(holds, None);
    (child, connection)
}

struct Connection(OwnedFd);

impl Connection {
    /// Connects to the shepherd that holds the attempt or is ready.
    fn open(directory: &Path, name: &str) -> Self {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        let path = directory.join(name);
        connect(socket.as_raw_fd(), &UnixAddr::new(&path).expect("a short path")).expect("it listens");
        Self(socket)
    }

    fn receive(&self) -> (Answer, Vec<OwnedFd>) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(1000_u16)).expect("waited");
            match receive(self.0.as_fd()) {
                Ok(Some(received)) => {
                    return (Answer::decode(&received.bytes).expect("an answer"), received.descriptors);
                }
                Ok(None) => panic!("lshepherd has ended"),
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
        }
        panic!("no answer")
    }

    fn greeted(&self) -> (Option<Holds>, Vec<Ring>) {
        match self.receive() {
            (Answer::Hello { holds, .. }, memory) => {
                let rings = memory.into_iter().map(|one| Ring::open(one).expect("memory")).collect();
                (holds.map(|holds| *holds), rings)
            }
            (other, _) => panic!("{other:?}"),
        }
    }

    fn answer(&self) -> Answer {
        self.receive().0
    }

    fn order(&self, order: &Order) {
        send(self.0.as_fd(), &order.encode(), &[]).expect("sent");
    }

    /// Launches a shell script whose stdout is kept.
    fn launch(&self, script: &str) {
        let plan = Plan {
            paths: vec![b"/bin/sh".to_vec()],
            argv: ["sh", "-c", script].map(|word| word.as_bytes().to_vec()).into(),
            env: vec![b"PATH=/usr/bin:/bin".to_vec()],
            directory: b"/".to_vec(),
            uid: nix::unistd::geteuid().as_raw(),
            cookie: "held-test".into(),
            ..Plan::default()
        };
        let launch = Launch {
            handle: HANDLE,
            time_limit: None,
            warning: None,
            checkpoint: None,
            kill_grace: 100,
            lease: None,
            launch_deadline: 30_000,
            claim: Some(CLAIM),
            kept: Kept { stdout: true, ..Kept::default() },
        };
        let (bytes, _) = send_launch(&launch, &plan).expect("encoded");
        let null = File::open("/dev/null").expect("there");
        let (output, jobs) = nix::unistd::pipe().expect("a pipe");
        send(self.0.as_fd(), &bytes, &[null.as_fd(), jobs.as_fd(), null.as_fd(), output.as_fd()]).expect("sent");
    }
}

/// Returns the bytes of stdout, once it has ended.
fn output(rings: &[Ring]) -> Vec<u8> {
    let end = Instant::now() + PATIENCE;
    while !rings[1].has_ended() {
        assert!(Instant::now() < end, "stdout ends");
        std::thread::yield_now();
    }
    rings[1].unread(0, usize::MAX).iter().flat_map(|part| part.to_vec()).collect()
}

#[test]
fn a_later_connection_gets_the_job_its_output_and_its_end_until_the_release() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut child, first) = spawn(dir.path());
    first.launch("echo out; exit 3");
    assert!(matches!(first.answer(), Answer::Started { handle: HANDLE, .. }));
    drop(first);
    for _ in 0..2 {
        let next = Connection::open(dir.path(), "5.2");
        let (holds, rings) = next.greeted();
        let holds = holds.expect("a job");
        assert_eq!((holds.handle, holds.claim, holds.cookie.as_str()), (HANDLE, CLAIM, "held-test"));
        assert!(matches!(next.answer(), Answer::Started { handle: HANDLE, .. }));
        let Answer::Exited { ended: Ended { status, why, .. }, .. } = next.answer() else { panic!("no end") };
        assert_eq!((status, why), (3 << 8, Why::OfItself));
        assert_eq!(next.answer(), Answer::Emptied { handle: HANDLE, left: 0 });
        assert_eq!(output(&rings), b"out\n");
    }
    let last = Connection::open(dir.path(), "5.2");
    last.greeted();
    last.order(&Order::Release { handle: HANDLE });
    while last.answer() != Answer::Ready {}
    assert!(dir.path().join("ready-1").exists() && !dir.path().join("5.2").exists());
    last.launch("exit 4");
    assert!(matches!(last.answer(), Answer::Started { handle: HANDLE, .. }), "the next job");
    drop(last);
    let last = Connection::open(dir.path(), "5.2");
    last.order(&Order::Release { handle: HANDLE });
    drop(last);
    // Nothing is left to do.
    assert!(child.wait().expect("a child").success());
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
}

/// A launch that `lslave` has sent before it was killed is obeyed before the next `lslave` is answered. Otherwise that
/// one would launch the job again.
#[test]
fn orders_of_an_ended_connection_come_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut child, first) = spawn(dir.path());
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGSTOP).expect("it runs");
    first.launch("exec sleep 1000");
    // It has not taken the name of the attempt yet.
    let next = Connection::open(dir.path(), "ready-1");
    drop(first);
    kill(pid, Signal::SIGCONT).expect("it runs");
    let (holds, _) = next.greeted();
    assert_eq!(holds.map(|holds| holds.claim), Some(CLAIM));
    next.order(&Order::Stop { handle: HANDLE, grace: 0, evicts: false });
    while !matches!(next.answer(), Answer::Emptied { .. }) {}
    next.order(&Order::Release { handle: HANDLE });
    drop(next);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_killed_shepherd_leaves_no_leader() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut child, first) = spawn(dir.path());
    first.launch("exec sleep 1000");
    let Answer::Started { leader, .. } = first.answer() else { panic!("not started") };
    // SAFETY: no memory is involved; the flags are none. The leader lives.
    let process = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, leader, 0) };
    // SAFETY: the kernel has just made the descriptor, and no other code owns it.
    let process = unsafe { OwnedFd::from_raw_fd(i32::try_from(process).expect("a descriptor")) };
    child.kill().and_then(|()| child.wait()).expect("a child");
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(30_000_u16)), Ok(1), "the leader ends");
}

/// With the number of the error, the node tells a failed disk from a job that cannot be started anywhere.
#[test]
fn a_failed_claim_is_told_with_the_number_of_its_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut child, first) = spawn(dir.path());
    drop(dir);
    first.launch("true");
    let Answer::NotStarted { step, errno, .. } = first.answer() else { panic!("it started") };
    assert_eq!((Step::of(step), errno), (Step::Spawn, nix::libc::ENOENT));
    drop(first);
    assert!(child.wait().expect("a child").success());
}
