//! A real `lmaster` process, and nodes and clients that exchange single messages with it over real sockets.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use limo_model::{Containment, JobId, JournalId, Memory, Meter, NodeSpec, Power, Request, UnitKind, UnitSpec};
use limo_proto::{
    Answer, AttemptReport, ClientToMaster, Connection, Frame, Io, JobFilter, JobReport, JobsQuery, Launch,
    MasterToClient, MasterToNode, NewSlave, NodeToMaster, Query, Registration, Replace, Role, SendExec, Status,
    StatusQuery, Trusted, connect,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest wait of a test: longer than any step takes on a loaded machine, also the end of 30,000 jobs.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn lmaster() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmaster"));
    command.stdin(Stdio::null()).env_remove("LIMO_CONFIG").env_remove("LIMO_STATE_DIR");
    command
}

/// A running master; killed when dropped.
pub struct Master {
    child: Child,
    log: Mutex<Receiver<String>>,
    pub address: String,
}

impl Master {
    /// Starts a master on a free port.
    pub fn start(dir: &Path) -> Self {
        Self::start_with(dir, "127.0.0.1:0", &[])
    }

    /// Starts a master with options; returns when it listens.
    pub fn start_with(dir: &Path, listen: &str, options: &[&str]) -> Self {
        let mut command = lmaster();
        command.args(["--listen", listen, "--log-format", "json", "--state-dir"]).arg(dir);
        command.arg("--socket").arg(dir.join("master.sock")).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("lmaster starts");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("lmaster: {line}");
                // The test may have stopped reading.
                let _ = sender.send(line);
            }
        });
        let mut master = Self { child, log: Mutex::new(log), address: String::new() };
        master.logged("\"listening\"");
        master.address = std::fs::read_to_string(dir.join("address")).expect("an address").trim().to_owned();
        master
    }

    /// Waits for a line of the log.
    pub fn logged(&self, part: &str) -> String {
        loop {
            let line = self
                .log
                .lock()
                .expect("whole")
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("`{part}` was not logged"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Returns the logged lines that no test has waited for.
    pub fn lines(&self) -> Vec<String> {
        self.log.lock().expect("whole").try_iter().collect()
    }

    /// Returns the current memory, in KiB.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Returns the peak memory, in KiB.
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it is alive");
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel tells");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("alive");
    }

    /// Returns the exit code; `None` if a signal ended it.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("a child").code()
    }

    /// Kills the master with `kill -9`, and starts another one at the same address.
    pub fn killed(mut self, dir: &Path) -> Self {
        self.child.kill().expect("alive");
        self.child.wait().expect("a child");
        Self::start_with(dir, &self.address.clone(), &[])
    }

    /// Starts another master without waiting for the end of this one.
    pub fn replaced(mut self, dir: &Path) -> Self {
        self.child.kill().expect("alive");
        Self::start_with(dir, &self.address.clone(), &[])
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One end of a connection to a master.
pub struct Peer<In, Out> {
    pub connection: Connection<In, Out>,
}

pub type Node = Peer<MasterToNode, NodeToMaster>;
pub type Client = Peer<MasterToClient, ClientToMaster>;

impl<In: DeserializeOwned + std::fmt::Debug, Out: Serialize + Replace> Peer<In, Out> {
    pub async fn call(master: &Master, role: Role) -> Self {
        Self {
            connection: connect(&master.address.parse().expect("an address"), role, &Trusted::own())
                .await
                .expect("a master"),
        }
    }

    pub async fn say(&mut self, message: Out) {
        self.connection.writer.send(&Frame::Message(message)).await.expect("sent");
    }

    /// Returns the next frame; `None` at the end of the connection.
    pub async fn frame(&mut self) -> Option<Frame<In>> {
        let frame = tokio::time::timeout(PATIENCE, self.connection.reader.next()).await.expect("in time");
        frame.unwrap_or(None)
    }

    /// Returns the next message; skips data.
    pub async fn hear(&mut self) -> Option<In> {
        loop {
            match self.frame().await? {
                Frame::Message(message) => return Some(message),
                Frame::Data(_) => {}
            }
        }
    }

    /// Returns the first value that `wanted` gives for a message; skips other messages.
    pub async fn hear_of<T>(&mut self, wanted: impl Fn(&In) -> Option<T>) -> T {
        loop {
            let message = self.hear().await.expect("the connection ended before what was waited for");
            match wanted(&message) {
                Some(found) => return found,
                None => eprintln!("passed over: {message:?}"),
            }
        }
    }
}

impl Node {
    /// A registered node.
    pub async fn register(master: &Master, name: &str, attempts: Vec<AttemptReport>) -> Self {
        let mut node = Self::call(master, Role::Node).await;
        let journal = node.connection.identity.journal;
        // The attempts are of this master, unless the test names another one.
        let attempts = attempts.into_iter().map(|report| match report.journal {
            unnamed if unnamed == JournalId::default() => AttemptReport { journal, ..report },
            _ => report,
        });
        let mut registration = slave(name, attempts.collect());
        registration.slave.journal = journal;
        for message in registration.into_messages() {
            node.say(message).await;
        }
        match node.hear().await {
            Some(MasterToNode::Registered) => node,
            other => panic!("not registered: {other:?}"),
        }
    }

    /// Returns the next assignment.
    pub async fn assignment(&mut self) -> limo_proto::DoExec {
        self.hear_of(|message| match message {
            MasterToNode::DoExec(exec) => Some(exec.as_ref().clone()),
            _ => None,
        })
        .await
    }

    /// Acknowledges an assignment, and starts it when it is released.
    pub async fn start(&mut self, exec: &limo_proto::DoExec) {
        let (job, attempt) = (exec.job, exec.attempt);
        self.say(NodeToMaster::JobAck { job, attempt }).await;
        let is_go = |message: &MasterToNode| matches!(message, MasterToNode::Go { job: of, .. } if *of == job);
        self.hear_of(|message| is_go(message).then_some(())).await;
        self.say(NodeToMaster::Started { job, attempt }).await;
    }
}

impl Client {
    pub async fn new(master: &Master) -> Self {
        Self::call(master, Role::Client).await
    }

    pub async fn submit(&mut self, key: u8) -> Result<JobId, String> {
        self.say(exec(key)).await;
        self.hear_of(|message| match message {
            MasterToClient::Accepted { job } => Some(Ok(*job)),
            MasterToClient::Refused { reason, .. } => Some(Err(reason.clone())),
            _ => None,
        })
        .await
    }

    pub async fn finished(&mut self) -> JobReport {
        self.hear_of(|message| match message {
            MasterToClient::Finished { report, .. } => Some(report.as_ref().clone()),
            _ => None,
        })
        .await
    }

    pub async fn ask(&mut self, query: Query) -> Answer {
        self.say(ClientToMaster::Ask(Box::new(query))).await;
        self.hear_of(|message| match message {
            MasterToClient::Answer(answer) => Some(answer.as_ref().clone()),
            _ => None,
        })
        .await
    }

    /// Queries the status until `so` holds.
    pub async fn status_with(&mut self, what: &str, so: impl Fn(&Status) -> bool) -> Status {
        let mut clock = tokio::time::interval(Duration::from_millis(20));
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            clock.tick().await;
            match self.ask(Query::Status(StatusQuery)).await {
                Answer::Status(status) if so(&status) => return *status,
                last => assert!(std::time::Instant::now() < end, "waited in vain: {what}: {last:?}"),
            }
        }
    }

    pub async fn jobs(&mut self) -> Vec<JobReport> {
        match self.ask(Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 1000 })).await {
            Answer::Jobs(jobs) => jobs,
            other => panic!("{other:?}"),
        }
    }
}

pub fn slave(name: &str, attempts: Vec<AttemptReport>) -> Registration {
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 1,
        nameplate: Power::from_watts(60),
        caps: None,
    };
    let spec = NodeSpec {
        name: name.into(),
        units: vec![unit],
        memory: Memory::from_bytes(1 << 30),
        idle: Power::from_watts(10),
        meter: Meter::Emulated,
        rest: None,
    };
    let slave = NewSlave {
        journal: Default::default(),
        spec,
        instance: format!("instance of {name}"),
        boot: "boot".into(),
        containment: Containment::FULL,
        unfit: None,
        owner: None,
    };
    Registration { slave, attempts }
}

/// Returns an attached submission, whose key is `key` repeated sixteen times.
pub fn exec(key: u8) -> ClientToMaster {
    let request = Request { name: "cg".into(), ..Request::one_core("cg") };
    let launch = Launch {
        argv: vec![b"cg".to_vec()],
        variants: Vec::new(),
        cwd: b"/".to_vec(),
        env: vec![(b"PADDING".to_vec(), vec![b'x'; 2000])],
        umask: 0o022,
        uid: 4711,
        io: Io::Attached,
        ..Launch::default()
    };
    ClientToMaster::SendExec(Box::new(SendExec { key: [key; 16], request, launch, again: false }))
}
