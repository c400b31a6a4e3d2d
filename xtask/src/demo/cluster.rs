//! The processes of a run: one master, its nodes, and clients. They end with the [`Cluster`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use limo_proto::user_name;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::workspace;

/// Crates with programs that the demo uses.
const PACKAGES: [&str; 8] = ["lmaster", "lslave", "lshepherd", "lrun", "lq", "lconf", "lslurm", "limo-tests"];

/// Longest time for a daemon to start or to end.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Number of log lines in errors: enough to see why a daemon ended.
const LOG_TAIL: usize = 10;

/// The programs of Limo, with the path of their directory.
#[derive(Debug)]
pub struct Programs {
    dir: PathBuf,
    /// Search path with `dir` first: a job finds `limo-workload` like a user's program.
    path: OsString,
}

impl Programs {
    /// Builds the programs in release mode.
    ///
    /// # Errors
    /// If they cannot be built.
    pub fn build() -> Result<Self> {
        let mut arguments = vec!["build", "--release", "--bins"];
        arguments.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
        // Output of cargo goes to stderr, because stdout is for the answer.
        let status = workspace::cargo(&arguments)?.stdout(Stdio::null()).status().context("cannot run cargo")?;
        ensure!(status.success(), "the programs cannot be built: cargo {}", arguments.join(" "));
        let dir = workspace::target_dir()?.join("release");
        let before = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([dir.clone()].into_iter().chain(std::env::split_paths(&before)))?;
        Ok(Self { dir, path })
    }

    /// Returns the path of a program of Limo.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns a command for a program of Limo, without settings of the demo's user.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path_of(name));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LIMO_") {
                command.env_remove(name);
            }
        }
        command.env("PATH", &self.path).stdin(Stdio::null());
        command
    }
}

struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

/// A master with its nodes.
pub struct Cluster<'a> {
    programs: &'a Programs,
    dir: PathBuf,
    address: String,
    config: PathBuf,
    tls: Option<Tls>,
    master: Daemon,
    nodes: Vec<Daemon>,
}

/// Certificates of a cluster whose nodes and clients connect over TLS.
struct Tls {
    /// Directory of the authority and of the master's certificate.
    authority: PathBuf,
    /// Directory of the clients' certificate.
    client: PathBuf,
}

impl<'a> Cluster<'a> {
    /// Starts a master with the settings in `config`, below `dir`.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(programs: &'a Programs, dir: &Path, config: &Path) -> Result<Self> {
        Self::start_with(programs, (dir, config), None).await
    }

    /// Does the same with nodes and clients over TLS. The clients' certificate goes to the directory `client`.
    ///
    /// # Errors
    /// If no certificate can be made, or the master does not start.
    pub async fn start_over_tls(programs: &'a Programs, dir: &Path, config: &Path, client: &Path) -> Result<Self> {
        let tls = Tls { authority: dir.join("authority"), client: client.to_owned() };
        succeeded(programs.command("lconf").args(["cluster", "init", "--dir"]).arg(&tls.authority))?;
        tls.issue(programs, "operator", &user_name(nix::unistd::geteuid().as_raw()), client)?;
        Self::start_with(programs, (dir, config), Some(tls)).await
    }

    async fn start_with(programs: &'a Programs, (dir, config): (&Path, &Path), tls: Option<Tls>) -> Result<Self> {
        let (dir, config) = (dir.to_owned(), config.to_owned());
        let start = Start { programs, dir: &dir, config: &config, tls: tls.as_ref() };
        let (master, address) = start.master("127.0.0.1:0").await?;
        Ok(Self { programs, dir, address, config, tls, master, nodes: Vec::new() })
    }

    /// Kills the master with `kill -9`, and starts another with the same address and journal.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn kill_master(&mut self) -> Result<()> {
        self.master.child.kill().context("cannot kill the master")?;
        self.master.child.wait().context("cannot wait for the master")?;
        fs::remove_file(self.state_dir().join("address")).context("the master had no address")?;
        let Self { programs, dir, config, tls, .. } = self;
        let start = Start { programs, dir, config, tls: tls.as_ref() };
        (self.master, _) = start.master(&self.address).await?;
        Ok(())
    }

    /// Returns the Unix socket on which the master listens.
    pub fn socket(&self) -> String {
        socket_in(&self.dir).display().to_string()
    }

    /// Returns the address at which nodes and clients call the master.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn master_pid(&self) -> u32 {
        self.master.child.id()
    }

    /// Returns the processes of the nodes, in the order in which they were added.
    pub fn node_pids(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.child.id())
    }

    /// Returns a command for a client of this cluster, without stdin.
    pub fn client(&self, program: &str) -> Command {
        let mut command = self.programs.command(program);
        command.env("LIMO_MASTER", &self.address).current_dir(&self.dir);
        if let Some(tls) = &self.tls {
            command.env("LIMO_TLS_DIR", &tls.client);
        }
        command
    }

    /// Returns the state directory of the master.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("lmaster")
    }

    /// Starts a node for each name, as the machine of that name in `hardware`, and waits until all have registered.
    ///
    /// # Errors
    /// If a node does not start.
    pub async fn add_nodes(&mut self, hardware: &Path, names: &[&str]) -> Result<()> {
        let hardware = hardware.to_str().with_context(|| format!("{} is not UTF-8 text", hardware.display()))?;
        for name in names {
            self.add_node(name, &["--hardware", hardware, "--reading-interval", "500ms"])?;
        }
        self.registered(names.len()).await
    }

    /// Starts a node with these options.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn add_node(&mut self, name: &str, options: &[&str]) -> Result<()> {
        let mut command = self.programs.command("lslave");
        command.arg("--state-dir").arg(self.dir.join(name)).args(["--master", &self.address, "--name", name]);
        command.args(options);
        if let Some(tls) = &self.tls {
            let certificate = self.dir.join(format!("{name}-tls"));
            tls.issue(self.programs, "node", name, &certificate)?;
            command.env("LIMO_TLS_DIR", certificate).env("LIMO_ROOT_JOBS", "true");
        }
        self.nodes.push(Daemon::start(name, command, &self.dir)?);
        Ok(())
    }

    /// Waits until `count` nodes have registered.
    ///
    /// # Errors
    /// If a node does not start.
    pub async fn registered(&mut self, count: usize) -> Result<()> {
        let begin = Instant::now();
        loop {
            let listed: serde_json::Value = serde_json::from_str(&self.ask("lq", &["nodes", "--json"]).await?)
                .context("cannot read the list of nodes")?;
            if listed["nodes"].as_array().is_some_and(|nodes| nodes.len() == count) {
                return Ok(());
            }
            for daemon in &mut self.nodes {
                daemon.must_run()?;
            }
            ensure!(begin.elapsed() < PATIENCE, "the nodes did not register within {} s", PATIENCE.as_secs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns the output of a command, which must succeed.
    ///
    /// # Errors
    /// If it fails, with its message.
    pub async fn ask(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::from(self.client(program));
        command.args(arguments).kill_on_drop(true);
        let output = command.output().await.with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{program} {} failed ({}): {}", arguments.join(" "), output.status, said.trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("{program} printed no text"))
    }

    /// Checks that every daemon still runs.
    ///
    /// # Errors
    /// If a daemon ended, with the end of its log.
    pub fn must_run(&mut self) -> Result<()> {
        [&mut self.master].into_iter().chain(&mut self.nodes).try_for_each(Daemon::must_run)
    }
}

impl Drop for Cluster<'_> {
    /// The nodes are stopped first: each ends its jobs and informs the master.
    fn drop(&mut self) {
        stop(self.nodes.iter_mut());
        stop([&mut self.master].into_iter());
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("master.sock")
}

/// Programs, directory and settings of a master.
struct Start<'a> {
    programs: &'a Programs,
    dir: &'a Path,
    config: &'a Path,
    tls: Option<&'a Tls>,
}

impl Start<'_> {
    /// Starts a master; returns it with its address for nodes and clients.
    async fn master(&self, listen: &str) -> Result<(Daemon, String)> {
        let state = self.dir.join("lmaster");
        let mut command = self.programs.command("lmaster");
        command.arg("--state-dir").arg(&state).arg("--config").arg(self.config);
        command.arg("--socket").arg(socket_in(self.dir));
        match self.tls {
            Some(tls) => command.args(["--tls-listen", listen, "--tls-dir"]).arg(&tls.authority),
            None => command.args(["--listen", listen]),
        };
        let file = if self.tls.is_some() { "tls-address" } else { "address" };
        let mut master = Daemon::start("lmaster", command, self.dir)?;
        let begin = Instant::now();
        loop {
            if let Ok(address) = fs::read_to_string(state.join(file)) {
                return Ok((master, address.trim().to_owned()));
            }
            master.must_run()?;
            ensure!(begin.elapsed() < PATIENCE, "the master did not come up within {} s", PATIENCE.as_secs());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

impl Tls {
    /// Makes a certificate in the directory `to`.
    fn issue(&self, programs: &Programs, role: &str, name: &str, to: &Path) -> Result<()> {
        let mut command = programs.command("lconf");
        command.args(["cert", "issue", role, name, "--dir"]).arg(&self.authority).arg("--out").arg(to);
        succeeded(&mut command)
    }
}

fn succeeded(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, said.trim());
    Ok(())
}

impl Daemon {
    fn start(name: &str, mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    fn must_run(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        bail!("{} ended ({status}):\n{}", self.name, lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n"));
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// Sends INT, with which nodes end their jobs, and KILL to daemons that have not ended in time.
fn stop<'d>(daemons: impl Iterator<Item = &'d mut Daemon>) {
    let mut running: Vec<&mut Daemon> = daemons.filter_map(|daemon| (!daemon.has_ended()).then_some(daemon)).collect();
    for daemon in &running {
        if let Ok(pid) = i32::try_from(daemon.child.id()) {
            // The daemon may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
    }
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        running.retain_mut(|daemon| !daemon.has_ended());
        if running.is_empty() {
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
    for daemon in running {
        eprintln!("xtask: {} did not end within {} s and is killed", daemon.name, PATIENCE.as_secs());
        // The daemon may have ended meanwhile.
        let _ = daemon.child.kill();
        let _ = daemon.child.wait();
    }
}
