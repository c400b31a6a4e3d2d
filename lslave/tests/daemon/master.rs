//! The other side of the daemon: a master that the test controls, and the daemon's own process.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use limo_model::{Attempt, JobId, JournalId, Memory, NodeId, NodeSpec, Outcome, Part, Span, UnitId, Usage};
use limo_proto::{
    AttemptReport, Channel, Connection, Data, DoExec, Frame, Identity, Inbox, Io, Launch, MasterToNode, NewSlave,
    NodeToMaster, StreamId, accept,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Longest wait of a test, longer than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Daemon {
    child: Child,
    pub dir: TempDir,
}

impl Daemon {
    /// Starts a daemon with the state directory `state` in a new directory.
    pub fn start(master: &Master, more: &[&str]) -> Self {
        Self::start_changed(master, more, |_| {})
    }

    /// Starts a daemon with a changed command.
    pub fn start_changed(master: &Master, more: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = command(dir.path(), master, more);
        change(&mut command);
        Self { child: command.spawn().expect("lslave starts"), dir }
    }

    /// Restarts the daemon in the same place.
    pub fn restart(&mut self, master: &Master) {
        self.restart_with(master, &[]);
    }

    /// Restarts the daemon with options.
    pub fn restart_with(&mut self, master: &Master, more: &[&str]) {
        self.child = command(self.dir.path(), master, more).spawn().expect("lslave starts");
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the daemon runs");
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process number"))
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child")
    }

    /// Kills the daemon without notice, as a power cut would.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon ends its jobs when it is interrupted, but not after a kill.
        let _ = kill(self.pid(), Signal::SIGINT);
        let _ = self.child.wait();
        for pid in shepherds(self.dir.path()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Variable of the daemon and its shepherds, with the directory of the test.
const MARK: &str = "TEST_NODE";

/// Returns the shepherds of the daemon in `dir`.
pub fn shepherds(dir: &Path) -> Vec<i32> {
    let mark = format!("{MARK}={}", dir.display());
    let all = std::fs::read_dir("/proc").expect("readable").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_own = |pid: &i32| {
        let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        read("comm") == b"lshepherd\n" && read("environ").split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
    };
    all.filter(is_own).collect()
}

pub fn command(dir: &Path, master: &Master, more: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_lslave"));
    let shepherd = program.with_file_name("lshepherd");
    assert!(shepherd.is_file(), "{} is not there: build it with `cargo build -p lshepherd`", shepherd.display());
    let mut command = Command::new(program);
    command.arg("--state-dir").arg(dir.join("state")).args(["--master", &master.address(), "--name", "n1"]);
    command.args(["--cpus", "4"]).args(more).stdin(Stdio::null()).env_remove("LIMO_CONFIG");
    command.env(MARK, dir).env("LIMO_CGROUP", "off");
    command
}

/// Registration of a node.
pub struct New {
    pub journal: JournalId,
    pub spec: NodeSpec,
    pub instance: String,
    pub boot: String,
    pub attempts: Vec<AttemptReport>,
}

pub struct Master {
    listener: TcpListener,
    /// Identity in the node's greeting.
    pub identity: Identity,
}

impl Master {
    pub async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a port"), identity: Identity::default() }
    }

    /// Starts another master at the address of an earlier one.
    pub async fn at(address: &str) -> Self {
        Self {
            listener: TcpListener::bind(address).await.expect("the port is free again"),
            identity: Identity::default(),
        }
    }

    pub fn address(&self) -> String {
        self.listener.local_addr().expect("bound").to_string()
    }

    /// Accepts the next connection of a node, up to its first message.
    pub async fn greet(&self) -> (Session, New) {
        let (stream, _) = within(self.listener.accept()).await.expect("a connection");
        let connection = accept(stream, PATIENCE, self.identity).await.expect("a node").into_connection();
        let mut session = Session { connection, early: VecDeque::new() };
        let NewSlave { journal, spec, instance, boot, .. } = match session.next().await {
            Frame::Message(NodeToMaster::NewSlave(new)) => *new,
            other => panic!("{other:?} instead of NewSlave"),
        };
        let mut attempts = Vec::new();
        loop {
            match session.next().await {
                Frame::Message(NodeToMaster::Attempts(piece)) => attempts.extend(piece),
                Frame::Message(NodeToMaster::RegisterEnd { count }) => {
                    assert_eq!(count as usize, attempts.len());
                    return (session, New { journal, spec, instance, boot, attempts });
                }
                other => panic!("{other:?} in a registration"),
            }
        }
    }

    /// Greets the next caller; returns true if it hangs up then, without a word.
    pub async fn is_turned_down(&self) -> bool {
        let (stream, _) = within(self.listener.accept()).await.expect("a connection");
        let greeted = accept(stream, PATIENCE, self.identity).await.expect("a node");
        let mut connection = greeted.into_connection::<NodeToMaster, MasterToNode>();
        !matches!(within(connection.reader.receive()).await, Ok(Some(_)))
    }

    /// Accepts and registers the next connection.
    pub async fn welcome(&self) -> (Session, New) {
        let (mut session, new) = self.greet().await;
        session.send(MasterToNode::Registered).await;
        (session, new)
    }
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

/// A connection of a node.
pub struct Session {
    connection: Connection<NodeToMaster, MasterToNode>,
    /// Frames that came during another wait.
    early: VecDeque<Frame<NodeToMaster>>,
}

impl Session {
    async fn next(&mut self) -> Frame<NodeToMaster> {
        within(self.connection.reader.next()).await.expect("a frame").expect("the connection is open")
    }

    /// Returns the first value that `wanted` gives for a frame, now or later; keeps other frames.
    pub async fn find<T>(&mut self, mut wanted: impl FnMut(&Frame<NodeToMaster>) -> Option<T>) -> T {
        for index in 0..self.early.len() {
            if let Some(found) = wanted(&self.early[index]) {
                self.early.remove(index);
                return found;
            }
        }
        loop {
            let frame = self.next().await;
            match wanted(&frame) {
                Some(found) => return found,
                None => self.early.push_back(frame),
            }
        }
    }

    pub async fn message<T>(&mut self, mut wanted: impl FnMut(&NodeToMaster) -> Option<T>) -> T {
        self.find(|frame| match frame {
            Frame::Message(message) => wanted(message),
            Frame::Data(_) => None,
        })
        .await
    }

    pub async fn expect(&mut self, expected: NodeToMaster) {
        self.message(|message| (*message == expected).then_some(())).await;
    }

    pub async fn send(&mut self, message: MasterToNode) {
        self.connection.writer.send(&Frame::Message(message)).await.expect("sent");
    }

    pub async fn write(&mut self, job: u64, offset: u64, bytes: impl Into<Bytes>) {
        let stream = StreamId::new(JobId(job), Channel::Stdin);
        let data = Data { stream, offset, bytes: bytes.into() };
        self.connection.writer.send(&Frame::Data(data)).await.expect("sent");
    }

    pub async fn acknowledge(&mut self, job: u64, channel: Channel, offset: u64) {
        let stream = StreamId::new(JobId(job), channel);
        self.send(MasterToNode::StreamAck { stream, offset }).await;
    }

    /// Returns the next data frame of a stream.
    pub async fn data(&mut self, job: u64, channel: Channel) -> Data {
        let wanted = StreamId::new(JobId(job), channel);
        self.find(|frame| match frame {
            Frame::Data(data) if data.stream == wanted => Some(data.clone()),
            _ => None,
        })
        .await
    }

    /// Returns true if data of a stream came during another wait.
    pub fn has_early_data(&self, job: u64, channel: Channel) -> bool {
        let wanted = StreamId::new(JobId(job), channel);
        self.early.iter().any(|frame| matches!(frame, Frame::Data(data) if data.stream == wanted))
    }

    /// Reads all of a stream from the position of `inbox`, with the acknowledgements of a client.
    pub async fn read_on(&mut self, job: u64, channel: Channel, inbox: &mut Inbox) -> Vec<u8> {
        let mut all = Vec::new();
        while !inbox.has_ended() {
            let data = self.data(job, channel).await;
            if let Some(new) = inbox.accept(data.offset, data.bytes).expect("no gap") {
                all.extend_from_slice(&new);
            }
            inbox.consume();
            if let Some(offset) = inbox.due_ack() {
                self.acknowledge(job, channel, offset).await;
            }
        }
        all
    }

    pub async fn read_all(&mut self, job: u64, channel: Channel) -> String {
        let all = self.read_on(job, channel, &mut Inbox::new()).await;
        String::from_utf8(all).expect("text")
    }

    /// Assigns a job, and releases it as soon as the node has acknowledged it.
    pub async fn run(&mut self, exec: DoExec) {
        let (job, attempt) = (exec.job, exec.attempt);
        self.send(MasterToNode::DoExec(Box::new(exec))).await;
        self.expect(NodeToMaster::JobAck { job, attempt }).await;
        self.send(MasterToNode::Go { job, attempt, expected: limo_model::Power::from_watts(1) }).await;
    }

    pub async fn started(&mut self, job: u64) {
        self.expect(NodeToMaster::Started { job: JobId(job), attempt: Attempt(1) }).await;
    }

    pub async fn ended(&mut self, job: u64) -> (Outcome, Usage) {
        self.message(|message| match message {
            NodeToMaster::Ended { job: found, outcome, usage, .. } if found.0 == job => Some((outcome.clone(), *usage)),
            _ => None,
        })
        .await
    }

    pub async fn acknowledge_end(&mut self, job: u64) {
        self.send(MasterToNode::EndedAck { job: JobId(job), attempt: Attempt(1) }).await;
    }

    pub async fn stop(&mut self, job: u64, grace: Span) {
        self.send(MasterToNode::Stop { job: JobId(job), attempt: Attempt(1), grace }).await;
    }
}

/// Makes an attached job on one core of unit 0, in `/`, run by the test's own user.
pub fn exec(job: u64, argv: &[&str]) -> DoExec {
    let unit = UnitId { node: NodeId(0), unit: 0 };
    DoExec {
        journal: JournalId::default(),
        job: JobId(job),
        attempt: Attempt(1),
        name: "test".into(),
        application: argv.first().copied().unwrap_or_default().into(),
        size: String::new(),
        user: limo_proto::user_name(nix::unistd::geteuid().as_raw()),
        placement: vec![Part { unit, cores: 1, memory: Memory::ZERO, cap: None, count: 1 }],
        launch: Launch {
            argv: argv.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            variants: Vec::new(),
            cwd: b"/".to_vec(),
            env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
            umask: 0o022,
            uid: nix::unistd::geteuid().as_raw(),
            io: Io::Attached,
            ..Launch::default()
        },
        time_limit: None,
        restarts: 0,
        lease: None,
        task: None,
        share: None,
        warning: None,
        checkpoint: None,
        step: None,
        kill_grace: limo_model::Span::from_secs(30),
    }
}

pub fn shell(job: u64, script: &str) -> DoExec {
    exec(job, &["sh", "-c", script])
}

/// Makes a detached job in `dir`.
pub fn detached(job: u64, script: &str, dir: &Path) -> DoExec {
    let mut exec = shell(job, script);
    exec.launch.io = Io::Detached;
    exec.launch.cwd = dir.to_str().expect("a path in UTF-8").as_bytes().to_vec();
    exec
}

/// Returns true if a process with this number runs; a zombie does not run.
pub fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
