//! A cluster with a relay on each way: between each of its masters, its nodes, its clients and its database. The journal
//! is on a PostgreSQL server, with two masters, or in a file, with one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;

use limo_requirements::{PostgresServer, SmallDisk};
use limo_tests::{Daemon, MACHINE, MARK, Submitter, groups, kill_all, kill_machine, until};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::relay::Relay;

/// Name of the socket of PostgreSQL in its directory.
const POSTGRES_SOCKET: &str = ".s.PGSQL.5432";

/// Options of the masters: an attached job ends soon after its `lrun` was killed, the job of a node soon after the
/// node was cut off, and a node that had a full disk soon gets jobs again.
const MASTER: [&str; 10] = [
    "--orphan-grace",
    "20s",
    "--node-lease",
    "10s",
    "--snapshot-every",
    "200",
    "--heartbeat",
    "500ms",
    "--suspect-for",
    "2s",
];

/// Options of the nodes.
const OF_NODES: [&str; 2] = ["--heartbeat", "500ms"];

/// The disk of the journal and that of the last node, in [`Site::disks`].
pub const JOURNAL: usize = 0;
pub const NODE: usize = 1;

/// Size of the disks of [`Site::disks`], in bytes. The journal of an hour needs some 500 MiB.
const DISK: u64 = 4 << 30;

pub struct Site {
    masters: Vec<Daemon>,
    nodes: Vec<Daemon>,
    /// Lengths of the logs of the masters at their last starts.
    begun: Vec<usize>,
    /// The client, whose way to each master is in `clients`.
    pub submitter: Submitter,
    pub server: Option<PostgresServer>,
    /// The way of each master to the database.
    pub databases: Vec<Relay>,
    pub clients: Vec<Relay>,
    /// The ways of each node to each master.
    pub links: Vec<Vec<Relay>>,
    /// Disks that become full or fail. They are present with the journal in a file, if this process may mount them.
    pub disks: Vec<SmallDisk>,
    dir: TempDir,
}

impl Site {
    /// Starts two masters with their journal on a server, and nodes with `cores` cores each. The first master gets the
    /// lease. Skips the rest of the test if PostgreSQL is missing.
    pub fn on_server(nodes: usize, cores: u32) -> Option<Self> {
        let dir = directory();
        let server = PostgresServer::for_test(&dir.path().join("pg"))?;
        Some(Self::start((dir, Some(server), Vec::new()), nodes, cores))
    }

    /// Starts a master with its journal in a file, and nodes with `cores` cores each.
    pub fn on_file(nodes: usize, cores: u32) -> Self {
        let disks = [(); 2].iter().map_while(|()| SmallDisk::mount_ext4(DISK)).collect();
        Self::start((directory(), None, disks), nodes, cores)
    }

    fn start(
        (dir, server, disks): (TempDir, Option<PostgresServer>, Vec<SmallDisk>),
        nodes: usize,
        cores: u32,
    ) -> Self {
        let path = |name: &str| dir.path().join(name);
        let mark = text(dir.path());
        let names: &[&str] = if server.is_some() { &["m1", "m2"] } else { &["m1"] };
        let variables = [(MARK.to_owned(), mark.clone()), ("LIMO_CGROUP".to_owned(), "auto".to_owned())];
        // The sockets of the relays for this caller, and its address of all masters.
        let relays = |caller: &str| -> (Vec<Relay>, String) {
            let socket = |master: &&str| path(&format!("{caller}-{master}.sock"));
            let relay = |master: &&str| Relay::start(&socket(master), path(&format!("{master}.sock")));
            let addresses: Vec<String> = names.iter().map(|name| format!("unix:{}", text(&socket(name)))).collect();
            (names.iter().map(relay).collect(), addresses.join(","))
        };
        let daemon = |program, name: &str, state: &Path, more: &[&str]| {
            let arguments = ["--state-dir", &text(state)].iter().chain(more).map(|&word| word.to_owned()).collect();
            let machine = (MACHINE.to_owned(), name.to_owned());
            let variables = variables.iter().cloned().chain([machine]).collect();
            Daemon::new(program, arguments, variables, path(&format!("{name}.log")))
        };
        let on_disk = |disk: Option<&SmallDisk>, name: &str| disk.map_or(path(name), |disk| disk.path().join("state"));
        let (mut masters, mut databases) = (Vec::new(), Vec::new());
        for name in names {
            let socket = text(&path(&format!("{name}.sock")));
            let mut options = vec!["--socket".to_owned(), socket];
            if server.is_some() {
                let ways = path(&format!("pg-{name}"));
                fs::create_dir(&ways).expect("made");
                databases.push(Relay::start(&ways.join(POSTGRES_SOCKET), path("pg").join(POSTGRES_SOCKET)));
                let journal = format!("postgres://postgres@localhost/postgres?host={}", text(&ways));
                options.extend(["--journal".to_owned(), journal]);
            }
            let options: Vec<&str> = options.iter().map(String::as_str).chain(MASTER).collect();
            masters.push(daemon("lmaster", name, &on_disk(disks.get(JOURNAL), name), &options));
        }
        let (mut slaves, mut links) = (Vec::new(), Vec::new());
        for number in 1..=nodes {
            let (name, cores) = (format!("n{number}"), cores.to_string());
            let (relays, address) = relays(&name);
            let disk = disks.get(NODE).filter(|_| number == nodes);
            let (config, boot) = (path(&format!("{name}.toml")), boot_id(&dir, &name));
            fs::write(&boot, "0").expect("written");
            let reboot = format!("[reboot]\ncommand = \"false\"\nboot_id = \"{}\"\n", boot.display());
            fs::write(&config, reboot).expect("written");
            let config = text(&config);
            let options = ["--config", &config, "--name", &name, "--master", &address, "--cpus", &cores];
            let options = [&options[..], &OF_NODES].concat();
            slaves.push(daemon("lslave", &name, &on_disk(disk, &name), &options));
            links.push(relays);
        }
        let (clients, address) = relays("clients");
        let directory = path("work");
        fs::create_dir(&directory).expect("made");
        let submitter = Submitter { address, directory, mark };
        let begun = vec![0; masters.len()];
        let mut site = Self { masters, nodes: slaves, begun, submitter, server, databases, clients, links, disks, dir };
        site.start_master(0);
        site.await_log(0, "listening");
        for standby in 1..site.masters.len() {
            site.start_master(standby);
            site.await_log(standby, "standing by");
        }
        for node in 0..nodes {
            site.start_node(node);
            site.await_node(node);
        }
        site
    }

    /// Returns the state directory of a node.
    fn node_state(&self, node: usize) -> PathBuf {
        let disk = self.disks.get(NODE).filter(|_| node + 1 == self.nodes.len());
        disk.map_or_else(|| self.dir.path().join(node_name(node)), |disk| disk.path().join("state"))
    }

    /// Returns the database of the journal.
    ///
    /// # Panics
    /// If the journal is in a file.
    pub fn server(&self) -> &PostgresServer {
        self.server.as_ref().expect("a journal on a server")
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn start_master(&mut self, index: usize) {
        self.begun[index] = self.whole_log(index).len();
        self.masters[index].start();
    }

    /// Returns the master that leads, if one does and answers.
    pub fn leader(&self) -> Option<usize> {
        (0..self.masters.len())
            .find(|index| self.masters[*index].is_started() && self.log(*index).contains("listening"))
    }

    /// Waits until the node is up.
    pub fn await_node(&self, node: usize) {
        let name = node_name(node);
        until(&format!("{name} is up"), || {
            let ran = self.submitter.lq(&["nodes", "--json"]);
            let report: serde_json::Value = serde_json::from_str(&ran.stdout).ok()?;
            let nodes = report["nodes"].as_array()?;
            nodes.iter().any(|node| node["name"] == name && node["state"] == "up").then_some(())
        });
    }

    /// Waits until a master has logged `words` since its last start.
    pub fn await_log(&self, index: usize, words: &str) {
        until(&format!("master {index} logs `{words}`"), || self.log(index).contains(words).then_some(()));
    }

    /// Returns the log of a master since its last start.
    pub fn log(&self, index: usize) -> String {
        self.whole_log(index).get(self.begun[index]..).unwrap_or_default().to_owned()
    }

    fn whole_log(&self, index: usize) -> String {
        fs::read_to_string(&self.masters[index].log).unwrap_or_default()
    }

    /// Moves the journal from the database, which no master may use, to a file, for a third master in the place of the
    /// first one.
    pub fn move_to_a_file(&mut self) {
        let place = |name: &str| text(&self.dir.path().join(name));
        let moved = self.submitter.lconf(&["journal", "move", &self.server().address("postgres"), &place("m3")]);
        assert!(moved.succeeded().starts_with("moved the journal: "), "the journal has rows");
        let arguments = ["--state-dir", &place("m3"), "--socket", &place("m1.sock")].map(str::to_owned);
        let variables = vec![(MARK.to_owned(), self.submitter.mark.clone())];
        let mut third = Daemon::new("lmaster", arguments.into(), variables, self.dir.path().join("m3.log"));
        third.start();
        self.masters.push(third);
        self.begun.push(0);
    }

    pub fn signal(&self, index: usize, signal: Signal) {
        self.masters[index].signal(signal);
    }

    /// Sends the signal to a master unless it has ended.
    pub fn signal_if_started(&self, index: usize, signal: Signal) {
        if self.masters[index].is_started() {
            self.signal(index, signal);
        }
    }

    pub fn kill(&mut self, index: usize) {
        self.masters[index].kill();
    }

    /// Waits until a master has ended by itself.
    pub fn await_end(&mut self, index: usize) -> ExitStatus {
        until(&format!("master {index} ends"), || self.masters[index].ended())
    }

    /// Starts the masters that have ended by themselves, as a service manager does.
    pub fn restart_ended(&mut self) {
        for index in 0..self.masters.len() {
            if !self.masters[index].is_started() || self.masters[index].ended().is_some() {
                self.start_master(index);
            }
        }
    }

    /// Returns the largest peak memory of the running masters, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.masters.iter().filter(|master| master.is_started()).map(Daemon::peak_bytes).max().unwrap_or(0)
    }

    pub fn start_node(&mut self, node: usize) {
        self.nodes[node].start();
    }

    pub fn kill_node(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Mounts a disk that failed, once no process uses it.
    pub fn repair(&self, disk: usize) {
        until("no process uses the disk", || self.disks[disk].repair().then_some(()));
    }

    /// Restarts the machine of the last node, whose disk failed: nothing runs on it any longer, and it gets another boot id.
    pub fn reboot(&mut self, node: usize) {
        let name = node_name(node);
        self.kill_node(node);
        kill_machine(&self.submitter.mark, &name);
        self.repair(NODE);
        let boot = boot_id(&self.dir, &name);
        let starts: u64 = fs::read_to_string(&boot).expect("written before").parse().expect("a number");
        fs::write(boot, (starts + 1).to_string()).expect("written");
        self.start_node(node);
    }

    pub fn signal_node(&self, node: usize, signal: Signal) {
        self.nodes[node].signal(signal);
    }

    /// Checks that no control group of a job is left.
    pub fn check_nothing_left(&self) {
        for node in 0..self.nodes.len() {
            let state = self.node_state(node);
            if let Ok(subtree) = groups::of(&state) {
                until("the control groups of all jobs are removed", || subtree.names().ok()?.is_empty().then_some(()));
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if thread::panicking() {
            for daemon in self.masters.iter().chain(&self.nodes) {
                eprintln!("--- {}\n{}", daemon.log.display(), daemon.tail());
            }
        }
        for daemon in self.masters.iter_mut().chain(&mut self.nodes) {
            daemon.kill();
        }
        kill_all(&self.submitter.mark);
        for node in 0..self.nodes.len() {
            if self.node_state(node).join("instance").exists() {
                groups::clear(&self.node_state(node));
            }
        }
        if let Some(server) = &self.server {
            let _ = server.signal(Signal::SIGCONT);
            let _ = server.stop_immediately();
        }
    }
}

/// Returns the name of a node by its place.
pub fn node_name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// Returns the file with the boot id of the machine of a node.
fn boot_id(dir: &TempDir, node: &str) -> PathBuf {
    dir.path().join(format!("{node}.boot"))
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

fn directory() -> TempDir {
    let dir = tempfile::Builder::new().prefix("limo-").tempdir().expect("a directory");
    // The server of root runs as another user.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("own directory");
    dir
}
