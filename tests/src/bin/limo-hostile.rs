//! Hostile user: makes one attack on a master or a node per call, with the rights of any local user. The adversity test
//! runs it as an unprivileged user. Exits with 1 if an attack reveals data of another user.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use limo_model::{JobId, Request, Span};
use limo_proto::{
    ClientToMaster, Connection, DryRunQuery, Endpoint, Frame, JobFilter, JobsQuery, MasterToClient, Query, Role,
    SelectQuery, Selection, Selector, Socket, Trusted, WaitQuery, connect,
};
use limo_tests::Dice;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;

/// Pause before another call to an absent master.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Parser)]
#[command(about = "One attack of a local user on a Limo cluster, for tests")]
struct Arguments {
    attack: Attack,
    /// Address of the master, as for the clients.
    #[arg(long)]
    master: Endpoint,
    /// Directory of the clients.
    #[arg(long)]
    programs: PathBuf,
    /// Directory owned by this user.
    #[arg(long)]
    scratch: PathBuf,
    /// Duration of the attack.
    #[arg(long = "for", default_value = "5s")]
    time: Span,
}

#[derive(Clone, Copy, ValueEnum)]
enum Attack {
    /// Waits for ten thousand equal jobs, many times on one connection.
    Waits,
    /// Asks for long lists on many connections and reads no answer.
    Unread,
    /// Selects all jobs twenty thousand times in each request.
    Selectors,
    /// Sends bytes that are not messages.
    Garbage,
    /// Sends messages of 1 MiB without their last bytes, on many connections.
    Halves,
    /// Requests dry runs of a job, again after each answer.
    DryRuns,
    /// Sends requests that are refused, as fast as the master reads them.
    Refusals,
    /// Fills the queue with held jobs that have environments of 1 MB.
    Environments,
    /// Submits a command with a name of 400 kB that is not UTF-8.
    LongName,
    /// Holds a write lease on a script that a job then runs.
    Lease,
    /// Leaves very many files next to the file that came with a job.
    Litter,
    /// Looks for descriptors of the daemon in a job.
    Descriptors,
    /// Names jobs with escape sequences of terminals.
    Escapes,
}

type Line = Connection<MasterToClient, ClientToMaster>;

struct User {
    master: Endpoint,
    programs: PathBuf,
    scratch: PathBuf,
    end: Instant,
}

fn main() -> Result<()> {
    let Arguments { attack, master, programs, scratch, time } = Arguments::parse();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let time = Duration::from_millis(u64::try_from(time.ms()).context("a time below zero")?);
    let user = User { master, programs, scratch, end: Instant::now() + time };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(user.attack(attack))
}

impl User {
    async fn attack(&self, attack: Attack) -> Result<()> {
        match attack {
            Attack::Waits => {
                self.requests(|| ClientToMaster::Ask(Box::new(Query::Wait(WaitQuery(vec![JobId(1); 10_000]))))).await
            }
            Attack::Selectors => {
                let which = || Selection { which: vec![Selector::All; 20_000], filter: JobFilter::default() };
                self.requests(|| {
                    ClientToMaster::Ask(Box::new(Query::Select(SelectQuery { selection: which(), live: false })))
                })
                .await
            }
            Attack::Halves => {
                self.halves().await;
                Ok(())
            }
            Attack::DryRuns => {
                let request = || Query::DryRun(DryRunQuery(Box::new(Request::one_core("true"))));
                self.requests(|| ClientToMaster::Ask(Box::new(request()))).await
            }
            Attack::Refusals => self.requests(|| ClientToMaster::Signal { job: JobId(u64::MAX), signal: 9 }).await,
            Attack::Unread => self.unread().await,
            Attack::Garbage => {
                self.garbage().await;
                Ok(())
            }
            Attack::Environments => self.environments(),
            Attack::LongName => self.long_name(),
            Attack::Lease => self.lease(),
            Attack::Litter => self.litter(),
            Attack::Descriptors => self.descriptors(),
            Attack::Escapes => self.escapes(),
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn rest(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    async fn call(&self) -> Result<Line> {
        Ok(connect(&self.master, Role::Client, &Trusted::own()).await?)
    }

    /// Sends a request repeatedly and reads answers as they come. Reconnects if the master closes the connection.
    async fn requests(&self, request: impl Fn() -> ClientToMaster) -> Result<()> {
        while !self.is_over() {
            // If a master is unreachable or has disconnected this user, this loop calls it again.
            let Ok(Line { mut reader, mut writer, .. }) = self.call().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let reading = tokio::spawn(async move { while let Ok(Some(_)) = reader.next().await {} });
            while !self.is_over() && !reading.is_finished() {
                let sent = tokio::time::timeout(self.rest(), writer.send(&Frame::Message(request()))).await;
                if !matches!(sent, Ok(Ok(()))) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            reading.abort();
        }
        Ok(())
    }

    async fn unread(&self) -> Result<()> {
        let mut lines = Vec::new();
        while !self.is_over() {
            if lines.len() < 20
                && let Ok(line) = self.call().await
            {
                lines.push(line);
            }
            for line in &mut lines {
                let all = Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(1), ended: u32::MAX });
                let request = Frame::Message(ClientToMaster::Ask(Box::new(all)));
                let _ = tokio::time::timeout(Duration::from_millis(20), line.writer.send(&request)).await;
            }
        }
        Ok(())
    }

    async fn halves(&self) {
        let mut open = tokio::task::JoinSet::new();
        while !self.is_over() {
            let Ok(mut socket) = Socket::connect(&self.master).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            open.spawn(async move {
                let mut bytes = b"\0\0\0\x08\0LIMO\x01\x02\x02\0\x10\0\0".to_vec();
                bytes.resize(1 << 20, 1);
                let sent = send(&mut socket, &bytes).await;
                // The connection stays open until this program ends.
                sent.map(|()| socket)
            });
            if open.len() >= 1_000 {
                tokio::time::sleep(self.rest()).await;
            }
        }
    }

    async fn garbage(&self) {
        let mut dice = Dice::new(1);
        while !self.is_over() {
            let Ok(mut socket) = Socket::connect(&self.master).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let mut bytes = b"\0\0\0\x08\0LIMO\x01\x02\x02".to_vec();
            bytes.extend((0..4096).map(|_| dice.next_u64().to_be_bytes()[0]));
            // The master may close the connection before it has read everything.
            let _ = send(&mut socket, &bytes).await;
        }
    }

    /// Returns the command for a client, without this program's own options in its environment.
    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).env("LIMO_MASTER", self.master.to_string()).current_dir(&self.scratch);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn environments(&self) -> Result<()> {
        let large = "x".repeat(120_000);
        while !self.is_over() {
            let mut command = self.client("lrun", &["--detach", "--hold", "true"]);
            for index in 0..8 {
                command.env(format!("LARGE_{index}"), &large);
            }
            if !ran(command, self.rest())? {
                break;
            }
        }
        ran(self.client("lq", &["cancel", "all"]), Duration::from_secs(20))?;
        Ok(())
    }

    fn long_name(&self) -> Result<()> {
        while !self.is_over() {
            // The name is longer than the kernel's limit for an argument, so it is in a script.
            let script = self.scratch.join("long-name");
            let mut text = b"#!/".to_vec();
            text.extend(vec![0xff; 100_000]);
            write_executable(&script, &text)?;
            let name = OsString::from_vec(vec![0xff; 100_000]);
            let mut command = self.client("lrun", &["-Q"]);
            command.arg(name);
            ran(command, self.rest())?;
            let mut command = self.client("lrun", &["-Q"]);
            command.arg(&script);
            ran(command, self.rest())?;
        }
        Ok(())
    }

    fn lease(&self) -> Result<()> {
        let script = self.scratch.join("leased");
        write_executable(&script, b"#!/bin/sh\n")?;
        let file = fs::File::open(&script)?;
        // The kernel sends this signal to ask for the lease; by default it would end this program. SAFETY: both are
        // plain calls on values of this frame.
        unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            let taken = libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK);
            ensure!(taken == 0, "no write lease: {}", io::Error::last_os_error());
        }
        let mut job = self.client("lrun", &["--detach", "-t", "10s"]);
        job.arg(&script);
        ran(job, self.rest())?;
        std::thread::sleep(self.rest());
        Ok(())
    }

    fn litter(&self) -> Result<()> {
        let script = self.scratch.join("litter");
        let text = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 3\ni=0\nwhile [ $i -lt 20000 ]; do : > f$i; i=$((i+1)); done\n";
        write_executable(&script, text.as_bytes())?;
        while !self.is_over() {
            let mut job = self.client("lrun", &["-Q", "-t", "20s", "--bcast"]);
            job.arg(&script);
            ran(job, self.rest())?;
        }
        Ok(())
    }

    fn descriptors(&self) -> Result<()> {
        while !self.is_over() {
            let child = self.client("lrun", &["-Q", "sh", "-c", "ls /proc/$$/fd; true"]).spawn()?;
            let output = child.wait_with_output()?;
            let open = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() {
                let leaked: Vec<&str> = open.lines().filter(|fd| !["0", "1", "2"].contains(fd)).collect();
                ensure!(leaked.is_empty(), "a job has descriptors that are not its own: {leaked:?}");
            }
        }
        Ok(())
    }

    fn escapes(&self) -> Result<()> {
        while !self.is_over() {
            let name = "\u{1b}]0;owned\u{7}\u{1b}[31mred\nroot";
            ran(self.client("lrun", &["--detach", "-J", name, "-t", "5s", "sleep", "1"]), self.rest())?;
        }
        Ok(())
    }
}

async fn send(socket: &mut Socket, bytes: &[u8]) -> io::Result<()> {
    match socket {
        Socket::Unix(stream) => stream.write_all(bytes).await,
        Socket::Tcp(stream) => stream.write_all(bytes).await,
        Socket::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Writes a file that its owner may execute.
fn write_executable(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Returns true if a client succeeded. Kills it after `patience`, and discards its output.
fn ran(mut command: Command, patience: Duration) -> Result<bool> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}
