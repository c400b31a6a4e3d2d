//! A master that serves over TLS, for tests of certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use limo_proto::user_name;
use limo_tests::{Cluster, MARK, Ran, Setup, finish, programs, until};
use tempfile::TempDir;

/// A master that serves over TLS, its authority, and certificates in directories beside it.
pub struct Secured {
    pub cluster: Cluster,
    pub dir: TempDir,
}

/// A node, which is killed when dropped.
pub struct SecuredNode(Child);

impl Drop for SecuredNode {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the name of this user.
pub fn own_name() -> String {
    user_name(nix::unistd::geteuid().as_raw())
}

impl Secured {
    /// Starts a master.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a master with further options.
    pub fn start_with(options: &[&str]) -> Self {
        Self::of_authority(&[], options)
    }

    /// Makes an authority with options of `lconf cluster init`, and starts a master with further options.
    pub fn of_authority(init: &[&str], options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = dir.path().join("tls").display().to_string();
        let mut command = programs::command("lconf");
        command.args(["cluster", "init", "--dir", &authority]).args(init).stdout(Stdio::piped()).stderr(Stdio::piped());
        let made = finish(command.spawn().expect("a program that is built")).succeeded();
        assert!(made.contains("fingerprint"), "{made}");
        let own = ["--tls-listen", "127.0.0.1:0", "--tls-dir", &authority];
        let options: Vec<&str> = own.iter().chain(options).copied().collect();
        let cluster = Setup::default().master(&options).start();
        Self { cluster, dir }
    }

    /// Returns the directory of the authority.
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("tls")
    }

    /// Returns the address as `tls://HOST:PORT`.
    pub fn address(&self) -> String {
        // The master writes it after its other address.
        let path = self.cluster.state_dir().join("tls-address");
        let text = until("the master listens over TLS", || fs::read_to_string(&path).ok());
        text.trim().to_owned()
    }

    /// Returns the address as `HOST:PORT`.
    pub fn host(&self) -> String {
        self.address().trim_start_matches("tls://").to_owned()
    }

    /// Runs `lconf cert` on the machine of the master.
    pub fn cert(&self, arguments: &[&str]) -> String {
        let mut command = programs::command("lconf");
        command.arg("cert").args(arguments).arg("--dir").arg(self.authority());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("a program that is built")).succeeded()
    }

    /// Issues a certificate into a directory, which it returns.
    pub fn issue(&self, role: &str, name: &str, life: &str) -> PathBuf {
        let out = self.dir.path().join(format!("{role}-{name}-{life}"));
        self.cert(&["issue", role, name, "--life", life, "--out", &out.display().to_string()]);
        out
    }

    /// Starts a node with a certificate, and a state directory and a log of this name.
    pub fn node(&self, name: &str, certificate: &Path, state: &str) -> SecuredNode {
        self.node_at(&self.address(), name, certificate, state)
    }

    /// Starts such a node, which looks for the master at these addresses.
    pub fn node_at(&self, addresses: &str, name: &str, certificate: &Path, state: &str) -> SecuredNode {
        let mut command: Command = programs::command("lslave");
        command.args(["--master", addresses, "--name", name, "--cpus", "2", "--state-dir"]);
        command.arg(self.dir.path().join(state)).env("LIMO_TLS_DIR", certificate);
        // These tests run as root.
        command.env("LIMO_ROOT_JOBS", "true");
        // Its shepherds end with the cluster.
        command.env(MARK, &self.cluster.submitter().mark);
        let log = fs::File::create(self.dir.path().join(format!("{state}.log"))).expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        SecuredNode(command.spawn().expect("a program that is built"))
    }

    /// Returns a command of a client with a certificate.
    pub fn client(&self, program: &str, certificate: &Path, arguments: &[&str]) -> Command {
        let mut command = programs::command(program);
        command.args(arguments).env("LIMO_MASTER", self.address()).env("LIMO_TLS_DIR", certificate);
        command.current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a client with a certificate.
    pub fn run(&self, program: &str, certificate: &Path, arguments: &[&str]) -> Ran {
        finish(self.client(program, certificate, arguments).spawn().expect("a program that is built"))
    }

    /// Waits for a line of the audit log with all of `words`.
    pub fn audits(&self, words: &[&str]) {
        until(&format!("the audit log has {words:?}"), || {
            let mut command = programs::command("lconf");
            command.args(["audit", "--last", "100000", "--state-dir"]).arg(self.cluster.state_dir());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let shown = finish(command.spawn().expect("a program that is built")).succeeded();
            shown.lines().any(|line| words.iter().all(|word| line.contains(word))).then_some(())
        });
    }
}
