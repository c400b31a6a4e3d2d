//! Two masters with one journal on a PostgreSQL server, and a node that calls both.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use limo_requirements::PostgresServer;
use limo_tests::{Daemon, MARK, Submitter, processes, until};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::proxy::Proxy;

/// The masters, their node and their database.
pub struct Pair {
    masters: Vec<Daemon>,
    nodes: Vec<Daemon>,
    pub submitter: Submitter,
    pub server: PostgresServer,
    /// The way of the first master to the database.
    pub proxy: Proxy,
    dir: TempDir,
}

impl Pair {
    /// Starts the first master, which gets the lease, then the second, then a node with `cores` cores. Skips the rest of
    /// the test if there is no PostgreSQL.
    pub fn start(cores: u32) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("limo-").tempdir().expect("a directory");
        // The server of root runs as another user.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let server = PostgresServer::for_test(&dir.path().join("pg"))?;
        let proxy = Proxy::start(&dir.path().join("proxy"), &dir.path().join("pg"));
        let path = |name: &str| dir.path().join(name);
        let text = |path: PathBuf| path.to_str().expect("text").to_owned();
        let socket = |name: &str| format!("unix:{}", text(path(&format!("{name}.sock"))));
        let address = format!("{},{}", socket("m1"), socket("m2"));
        let mark = text(dir.path().to_owned());
        let variables = vec![(MARK.to_owned(), mark.clone())];
        let daemon = |program, name: &str, more: &[String]| {
            let mut arguments = vec!["--state-dir".to_owned(), text(path(name))];
            arguments.extend(more.iter().cloned());
            Daemon::new(program, arguments, variables.clone(), path(&format!("{name}.log")))
        };
        let master = |name: &str, host: &str| {
            let journal = format!("postgres://postgres@localhost/postgres?host={}", text(path(host)));
            let options = ["--journal", &journal, "--socket", &text(path(&format!("{name}.sock")))];
            daemon("lmaster", name, &options.map(str::to_owned))
        };
        let masters = vec![master("m1", "proxy"), master("m2", "pg")];
        let cpus = cores.to_string();
        let node = daemon("lslave", "n1", &["--name", "n1", "--master", &address, "--cpus", &cpus].map(str::to_owned));
        fs::create_dir(path("work")).expect("made");
        let submitter = Submitter { address, directory: path("work"), mark };
        let mut pair = Self { masters, nodes: vec![node], submitter, server, proxy, dir };
        pair.start_master(0);
        until("the first master listens", || pair.socket(0).exists().then_some(()));
        pair.start_master(1);
        pair.await_log(1, "standing by");
        pair.nodes[0].start();
        pair.await_node();
        Some(pair)
    }

    pub fn start_master(&mut self, index: usize) {
        self.masters[index].start();
    }

    fn socket(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("m{}.sock", index + 1))
    }

    pub fn await_node(&self) {
        until("the node is up", || {
            let ran = self.submitter.lq(&["nodes", "--json"]);
            let report: serde_json::Value = serde_json::from_str(&ran.stdout).ok()?;
            (report["nodes"][0]["state"] == "up").then_some(())
        });
    }

    pub fn await_log(&self, index: usize, words: &str) {
        until(&format!("master {index} logs `{words}`"), || self.log(index).contains(words).then_some(()));
    }

    pub fn log(&self, index: usize) -> String {
        fs::read_to_string(&self.masters[index].log).unwrap_or_default()
    }

    /// Moves the journal from the database, which no master may use, to a file, for a third master in the place of the
    /// first one.
    pub fn move_to_a_file(&mut self) {
        let text = |name: &str| self.dir.path().join(name).to_str().expect("text").to_owned();
        let moved = self.submitter.lconf(&["journal", "move", &self.server.address("postgres"), &text("m3")]);
        assert!(moved.succeeded().starts_with("moved the journal: "), "the journal has rows");
        let arguments = ["--state-dir", &text("m3"), "--socket", &text("m1.sock")].map(str::to_owned);
        let variables = vec![(MARK.to_owned(), self.submitter.mark.clone())];
        let mut third = Daemon::new("lmaster", arguments.into(), variables, self.dir.path().join("m3.log"));
        third.start();
        self.masters.push(third);
    }

    pub fn signal(&self, index: usize, signal: Signal) {
        self.masters[index].signal(signal);
    }

    pub fn stop_node(&self) {
        self.nodes[0].signal(Signal::SIGSTOP);
    }

    pub fn continue_node(&self) {
        self.nodes[0].signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self, index: usize) {
        self.masters[index].kill();
    }

    /// Waits until a master has ended by itself.
    pub fn await_end(&mut self, index: usize) -> ExitStatus {
        until(&format!("master {index} ends"), || self.masters[index].ended())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if thread::panicking() {
            for daemon in self.masters.iter().chain(&self.nodes) {
                eprintln!("--- {}\n{}", daemon.log.display(), daemon.tail());
            }
        }
        for daemon in self.masters.iter_mut().chain(&mut self.nodes) {
            daemon.kill();
        }
        while let left = processes(MARK, &self.submitter.mark)
            && !left.is_empty()
        {
            left.iter().for_each(limo_tests::Process::kill);
            thread::yield_now();
        }
        let _ = self.server.stop();
    }
}

/// Submitters that work until they are told to stop. Each job appends a line to a file of its own.
pub struct Load {
    stop: Arc<AtomicBool>,
    accepted: Arc<Mutex<BTreeSet<u64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(submitter: &Submitter, threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let accepted = Arc::new(Mutex::new(BTreeSet::new()));
        let submit = |_| {
            let (submitter, stop, accepted) = (submitter.clone(), Arc::clone(&stop), Arc::clone(&accepted));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let ran = submitter.lrun(&["--detach", "sh", "-c", "echo ran >> job-$LIMO_JOB_ID"]);
                    // A submission may fail while no master leads; then its job is not counted, but it may exist.
                    if let Ok(job) = ran.stdout.trim().parse() {
                        accepted.lock().expect("no panic").insert(job);
                    }
                }
            })
        };
        Self { threads: (0..threads).map(submit).collect(), stop, accepted }
    }

    pub fn count(&self) -> usize {
        self.accepted.lock().expect("no panic").len()
    }

    /// Waits until `more` further jobs are accepted; returns the time that this took.
    pub fn await_more(&self, more: usize) -> Duration {
        let (begin, before) = (Instant::now(), self.count());
        until("further jobs are accepted", || (self.count() >= before + more).then_some(()));
        begin.elapsed()
    }

    /// Ends the load, waits for all accepted jobs, and checks that each has run exactly once, and that no job has run
    /// twice.
    pub fn check(self, submitter: &Submitter) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        let accepted = self.accepted.lock().expect("no panic").clone();
        until("all jobs are over", || {
            let ran = submitter.lq(&["--json"]);
            let report: serde_json::Value = serde_json::from_str(&ran.stdout).ok()?;
            report["jobs"].as_array()?.is_empty().then_some(())
        });
        for job in &accepted {
            assert_eq!(submitter.read(format!("job-{job}")), "ran\n", "job {job}");
        }
        for file in fs::read_dir(&submitter.directory).expect("readable").flatten() {
            if file.file_name().to_string_lossy().starts_with("job-") {
                let text = fs::read_to_string(file.path()).expect("readable");
                assert_eq!(text, "ran\n", "{}", file.path().display());
            }
        }
    }
}
