//! A master and its nodes.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::clock::{Clock, Library};
use crate::daemon::Daemon;
use crate::groups;
use crate::processes::{self, Process};
use crate::submitter::{MARK, Submitter};
use crate::until::until;

/// Name of the master's clock, see [`Cluster::clock`].
pub const MASTER: &str = "master";

/// Initial configuration of a cluster.
#[derive(Debug, Default)]
pub struct Setup {
    /// Further options of `lmaster`.
    pub master: Vec<String>,
    /// True if nodes and clients use a port on loopback rather than the Unix socket.
    pub over_tcp: bool,
    /// State directory of the master, if not in the cluster's directory.
    pub state_dir: Option<PathBuf>,
    pub nodes: Vec<NodeSetup>,
    /// True if each daemon gets its own wall clock, see [`Cluster::clock`].
    pub clocks: bool,
    /// True if jobs have control groups, where root can make them.
    pub groups: bool,
}

#[derive(Debug, Clone)]
pub struct NodeSetup {
    pub name: String,
    /// Further options of `lslave`.
    pub options: Vec<String>,
}

impl Setup {
    /// Configures nodes `n1`, `n2` and so on with `cores` cores each.
    pub fn nodes(count: usize, cores: u32) -> Self {
        let node = |index| NodeSetup { name: format!("n{index}"), options: vec!["--cpus".into(), cores.to_string()] };
        Self { nodes: (1..=count).map(node).collect(), ..Self::default() }
    }

    pub fn master(mut self, options: &[&str]) -> Self {
        self.master.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Makes nodes and clients use a port on loopback.
    pub fn over_tcp(mut self) -> Self {
        self.over_tcp = true;
        self
    }

    pub fn node(mut self, name: &str, options: &[&str]) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        self.nodes.push(NodeSetup { name: name.to_owned(), options });
        self
    }

    /// Gives each daemon a wall clock that the test can set.
    pub fn with_clocks(mut self) -> Self {
        self.clocks = true;
        self
    }

    /// Gives jobs control groups.
    pub fn with_groups(mut self) -> Self {
        self.groups = true;
        self
    }

    /// Starts the cluster and waits until every node is registered.
    pub fn start(self) -> Cluster {
        Cluster::start(self)
    }
}

/// A running cluster. Its daemons, and the remaining processes of jobs, end when it is dropped.
pub struct Cluster {
    master: Daemon,
    nodes: Vec<(String, Daemon)>,
    state_dir: PathBuf,
    submitter: Submitter,
    clocks: Option<Library>,
    groups: bool,
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster of one node with `cores` cores.
    pub fn of_one_node(cores: u32) -> Self {
        Setup::nodes(1, cores).start()
    }

    fn start(setup: Setup) -> Self {
        let dir = tempfile::Builder::new().prefix("limo-").tempdir().expect("a directory");
        let mark = dir.path().display().to_string();
        let directory = dir.path().join("work");
        fs::create_dir(&directory).expect("a directory");
        let state_dir = setup.state_dir.unwrap_or_else(|| dir.path().join("master"));
        let mut arguments = vec!["--state-dir".to_owned(), state_dir.display().to_string()];
        // Other users may also connect.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("own directory");
        arguments.extend(["--socket".to_owned(), dir.path().join("master.sock").display().to_string()]);
        if setup.over_tcp {
            arguments.extend(["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        }
        arguments.extend(setup.master);
        let clocks = setup.clocks.then(|| Library::build(dir.path()));
        let mut variables = vec![(MARK.to_owned(), mark.clone())];
        let master_clock = clocks.as_ref().map(|library| Clock::new(library, dir.path(), MASTER));
        variables.extend(master_clock.into_iter().flat_map(|clock| clock.variables()));
        let master = Daemon::new("lmaster", arguments, variables, dir.path().join("master.log"));
        let submitter = Submitter { address: String::new(), directory, mark };
        let mut cluster = Self { master, nodes: Vec::new(), state_dir, submitter, clocks, groups: setup.groups, dir };
        cluster.start_master();
        // The port stays the same, so that nodes and clients find the master again.
        cluster.submitter.address = fs::read_to_string(cluster.address_file()).expect("readable").trim().to_owned();
        let address = cluster.submitter.address.clone();
        if setup.over_tcp {
            cluster.master.replace_argument("--listen", &address);
        }
        // The nodes are started one after the other, so that the master numbers them in this order.
        for node in setup.nodes {
            cluster.add_node(&node);
            cluster.await_node(&node.name);
        }
        cluster
    }

    /// Starts one more node, without waiting for it.
    pub fn add_node(&mut self, node: &NodeSetup) {
        let address = self.submitter.address.clone();
        self.add_node_via(node, &address);
    }

    /// Starts one more node, which uses another address of the master.
    pub fn add_node_via(&mut self, node: &NodeSetup, address: &str) {
        let mut arguments = vec!["--master".to_owned(), address.to_owned()];
        if !node.options.iter().any(|option| option == "--state-dir") {
            let state = self.dir.path().join(&node.name);
            arguments.extend(["--state-dir".to_owned(), state.display().to_string()]);
        }
        arguments.extend(["--name".to_owned(), node.name.clone()]);
        arguments.extend(node.options.iter().cloned());
        let mut variables = vec![(MARK.to_owned(), self.submitter.mark.clone())];
        if self.groups {
            variables.push(("LIMO_CGROUP".to_owned(), "auto".to_owned()));
        }
        let clock = self.clocks.as_ref().map(|library| Clock::new(library, self.dir.path(), &node.name));
        variables.extend(clock.into_iter().flat_map(|clock| clock.variables()));
        let log = self.dir.path().join(format!("{}.log", node.name));
        let mut daemon = Daemon::new("lslave", arguments, variables, log);
        daemon.start();
        self.nodes.push((node.name.clone(), daemon));
    }

    /// Returns the wall clock of the master, or of the node `name`. A restart of the daemon does not change it.
    ///
    /// # Panics
    /// If the cluster was started without [`Setup::with_clocks`].
    pub fn clock(&self, name: &str) -> Clock {
        let library = self.clocks.as_ref().expect("a cluster with clocks");
        Clock::existing(library, self.dir.path(), name)
    }

    pub fn await_node(&self, name: &str) {
        until(&format!("{name} is up"), || (self.node_report(name)?["state"] == "up").then_some(()));
    }

    /// Returns a node as `lq nodes` shows it; `None` if the master does not know it or does not answer.
    pub fn node_report(&self, name: &str) -> Option<Value> {
        let ran = self.submitter.lq(&["nodes", "--json"]);
        let report: Value = serde_json::from_str(&ran.stdout).ok()?;
        report["nodes"].as_array()?.iter().find(|node| node["name"] == name).cloned()
    }

    /// Returns a user of this cluster.
    pub fn submitter(&self) -> &Submitter {
        &self.submitter
    }

    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Returns the state directory of a node that has no other one among its options.
    pub fn node_state(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn address_file(&self) -> PathBuf {
        self.state_dir.join("address")
    }

    /// Starts the master and waits until it listens.
    pub fn start_master(&mut self) {
        // The last process may not have written this file.
        let _ = fs::remove_file(self.address_file());
        self.launch_master();
        until("the master listens", || {
            if let Some(status) = self.master.ended() {
                // While the port has no listener, an outgoing connection of another process may use it for a moment.
                let tail = self.master.tail();
                let taken = tail.lines().last().is_some_and(|line| line.contains("in use"));
                assert!(taken, "the master ended with {status}:\n{tail}");
                self.launch_master();
            }
            self.listens().then_some(())
        });
    }

    /// Returns true if the master listens at its address. At the first start, the address is known when the master
    /// has written it, which it cannot do on a full disk.
    fn listens(&self) -> bool {
        let known = self.submitter.address.as_str();
        match known.strip_prefix("unix:") {
            Some(path) => UnixStream::connect(path).is_ok(),
            None if known.is_empty() => fs::read_to_string(self.address_file()).is_ok_and(|text| text.ends_with('\n')),
            // A connection to a port without a listener can connect to itself.
            None => TcpStream::connect(known).is_ok_and(|stream| stream.local_addr().ok() != stream.peer_addr().ok()),
        }
    }

    /// Starts the master without waiting.
    pub fn launch_master(&mut self) {
        self.master.start();
    }

    /// Kills the master with SIGKILL.
    pub fn kill_master(&mut self) {
        self.master.kill();
    }

    /// Sends SIGHUP to the master, which reads its settings again.
    pub fn reload_master(&self) {
        self.master.signal(Signal::SIGHUP);
    }

    /// Stops the master with SIGSTOP.
    pub fn stop_master(&self) {
        self.master.signal(Signal::SIGSTOP);
    }

    /// Continues the master with SIGCONT.
    pub fn continue_master(&self) {
        self.master.signal(Signal::SIGCONT);
    }

    /// Returns the peak memory of the running master, in bytes.
    ///
    /// # Panics
    /// If the kernel does not report it.
    pub fn peak_master_bytes(&self) -> u64 {
        self.master.peak_bytes()
    }

    /// Ends the master with SIGTERM, and waits for its end.
    pub fn terminate_master(&mut self) -> ExitStatus {
        self.master.terminate()
    }

    /// Returns the process of a node.
    ///
    /// # Panics
    /// If there is no node of that name.
    fn daemon(&mut self, name: &str) -> &mut Daemon {
        let found = self.nodes.iter_mut().find(|(node, _)| node == name);
        &mut found.unwrap_or_else(|| panic!("no node {name}")).1
    }

    pub fn start_node(&mut self, name: &str) {
        self.daemon(name).start();
    }

    /// Kills the daemon with SIGKILL, but not its jobs.
    pub fn kill_node(&mut self, name: &str) {
        self.daemon(name).kill();
    }

    /// Waits until the daemon has ended by itself. It can be started again afterwards.
    pub fn collect_node(&mut self, name: &str) {
        let daemon = self.daemon(name);
        until(&format!("the daemon of {name} ends"), || daemon.ended());
    }

    /// Stops the daemon with SIGSTOP, but not its jobs.
    pub fn stop_node(&mut self, name: &str) {
        self.daemon(name).signal(Signal::SIGSTOP);
    }

    /// Continues the daemon with SIGCONT.
    pub fn continue_node(&mut self, name: &str) {
        self.daemon(name).signal(Signal::SIGCONT);
    }

    /// Returns the log of the master.
    pub fn master_log(&self) -> String {
        fs::read_to_string(&self.master.log).unwrap_or_default()
    }

    /// Returns the log of a node's daemon.
    pub fn node_log(&self, name: &str) -> String {
        let log = self.nodes.iter().find(|(node, _)| node == name).map(|(_, daemon)| &daemon.log);
        fs::read_to_string(log.expect("a node")).unwrap_or_default()
    }

    /// Ends the daemon with SIGTERM, but not its jobs, and waits for its end.
    pub fn terminate_node(&mut self, name: &str) -> ExitStatus {
        self.daemon(name).terminate()
    }

    /// Ends the daemon and its jobs with SIGINT, and waits for its end.
    pub fn interrupt_node(&mut self, name: &str) -> ExitStatus {
        self.daemon(name).end(Signal::SIGINT)
    }

    /// Kills the shepherds of all jobs on the node. Their jobs are lost.
    pub fn kill_shepherds(&self, node: &str) {
        processes::kill_shepherds(&self.submitter.mark, node);
    }

    /// Returns the living processes of jobs.
    pub fn job_processes(&self) -> Vec<Process> {
        processes::job_processes(&self.submitter.mark)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.master.kill();
        for (_, daemon) in &mut self.nodes {
            daemon.kill();
        }
        processes::kill_all(&self.submitter.mark);
        for (name, _) in self.nodes.iter().filter(|_| self.groups) {
            groups::clear(&self.node_state(name));
        }
        if thread::panicking() {
            eprintln!("--- lmaster\n{}", self.master.tail());
            for (name, daemon) in &self.nodes {
                eprintln!("--- lslave {name}\n{}", daemon.tail());
            }
        }
    }
}
