//! An `lrun` process and its fake master.

use std::process::{Output, Stdio};

use limo_fake::{FakeMaster, Peer, finished_job};
use limo_model::{JobId, Outcome};
use limo_proto::{ClientToMaster, Frame, MasterToClient, SendExec};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

pub const JOB: JobId = JobId(12);

/// Makes `lrun` with these arguments for this master, with all streams piped.
pub fn lrun(address: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lrun"));
    command
        .args(args)
        .env("LIMO_MASTER", address)
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
        .env_remove("LIMO_RECONNECT_TIMEOUT");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Returns exit code, stdout and stderr of an ended program.
pub fn snapshot(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or_else(|| format!("{:?}", output.status), |code| code.to_string());
    format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

pub async fn end(child: Child) -> String {
    snapshot(&child.wait_with_output().await.expect("lrun ends"))
}

pub fn send_signal(child: &Child, signal: Signal) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).expect("lrun is alive");
    kill(Pid::from_raw(id), signal).expect("a signal");
}

/// Client of the fake master, with the usual steps of tests.
pub struct Stage {
    pub peer: Peer,
}

impl Stage {
    pub async fn client(master: &FakeMaster) -> Self {
        Self { peer: master.client().await.expect("a client") }
    }

    /// Returns the next message; skips data for the job.
    pub async fn hear(&mut self) -> ClientToMaster {
        loop {
            if let Frame::Message(message) = self.peer.hear().await.expect("a connection").expect("a message") {
                return message;
            }
        }
    }

    /// Returns when `lrun` knows that the job runs. The end of its empty stdin shows this. Signals then go to a
    /// running job.
    pub async fn settle(&mut self) {
        let frame = self.peer.hear().await.expect("a connection").expect("a frame");
        assert!(matches!(&frame, Frame::Data(data) if data.bytes.is_empty()), "{frame:?}");
    }

    pub async fn say(&mut self, message: MasterToClient) {
        self.peer.say(message).await.expect("said");
    }

    /// Takes the submission and answers that it is job 12.
    pub async fn accept(&mut self) -> SendExec {
        let ClientToMaster::SendExec(exec) = self.hear().await else { panic!("no submission") };
        self.say(MasterToClient::Accepted { job: JOB }).await;
        *exec
    }

    /// Accepts the submission and reports that the job runs.
    pub async fn start(&mut self) -> SendExec {
        let exec = self.accept().await;
        self.say(MasterToClient::Running { job: JOB, node: "n1".into(), unit: "cpu".into() }).await;
        self.say(MasterToClient::Attached { job: JOB, stdin_offset: 0 }).await;
        exec
    }

    pub async fn finish(&mut self, outcome: Outcome) {
        let report = Box::new(finished_job(JOB.0, outcome));
        self.say(MasterToClient::Finished { job: JOB, report }).await;
    }

    /// Ends both outputs at these offsets.
    pub async fn end_streams(&mut self, stdout: u64, stderr: u64) {
        use limo_proto::Channel::{Stderr, Stdout};
        self.peer.data(JOB, Stdout, stdout, b"").await.expect("sent");
        self.peer.data(JOB, Stderr, stderr, b"").await.expect("sent");
    }
}
