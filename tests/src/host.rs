//! Hosts with their own systemd, network and files, on this machine: what a package and a service meet on a real one.
//!
//! A host sees the root file system of this machine through an overlay, so what it changes is lost with it. The hosts of
//! a test are connected to one switch, and reach nothing else.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use limo_requirements::{Requirement, skip};
use tempfile::TempDir;

use crate::submitter::{Ran, finish};
use crate::until;

const BOOT: &str = include_str!("boot.sh");

/// Tries the mounts of a host.
const TRIAL: &str = "mount -t tmpfs limo-host /mnt; cd /mnt; mkdir upper work root cgroups; \
                     mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work limo-host root; \
                     mount -t cgroup2 limo-host cgroups; mkdir cgroups/limo-host-$$; rmdir cgroups/limo-host-$$";

/// Programs without which no host can be made.
const NEEDED: [&str; 6] = ["unshare", "nsenter", "ip", "mount", "pivot_root", "/lib/systemd/systemd"];

/// A bridge in a network namespace of its own.
pub struct Switch {
    /// Holds the namespace.
    holder: Child,
}

/// A host with its own systemd. It ends when dropped, with all its processes.
pub struct Host {
    name: String,
    address: Ipv4Addr,
    boot: Child,
    /// Process number of systemd, as this machine counts.
    init: u32,
    _dir: TempDir,
}

impl Switch {
    /// Makes a switch. Skips the rest of the test with `None` if this machine cannot have hosts.
    ///
    /// # Panics
    /// If the namespace can be made, but not the bridge.
    pub fn new() -> Option<Self> {
        if let Some(reason) = missing() {
            skip(Requirement::Hosts, &reason);
            return None;
        }
        let holder = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn().expect("unshare is there");
        let switch = Self { holder };
        until("the network of the switch", || {
            let own = fs::read_link("/proc/self/ns/net").expect("a network");
            fs::read_link(format!("/proc/{}/ns/net", switch.pid())).ok().filter(|net| *net != own)
        });
        switch.ip("link add name switch type bridge");
        switch.ip("link set switch up");
        Some(switch)
    }

    fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn ip(&self, arguments: &str) {
        ip(self.pid(), arguments);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        end(&mut self.holder);
    }
}

/// Returns the reason why this machine cannot have hosts, if there is one.
fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("only root can make hosts".to_owned());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&paths).any(|directory| directory.join(name).is_file());
    if let Some(name) = NEEDED.iter().find(|name| !is_there(name)) {
        return Some(format!("{name} is missing"));
    }
    let systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let knows = |name: &&str| systems.lines().any(|line| line.split_whitespace().last() == Some(name));
    if let Some(name) = ["overlay", "cgroup2"].iter().find(|name| !knows(name)) {
        return Some(format!("the kernel has no {name}"));
    }
    let mut trial = Command::new("unshare");
    trial.args(["--mount", "--net", "--pid", "--uts", "--cgroup", "--fork", "--propagation", "private"]);
    let tried = trial.args(["sh", "-ec", TRIAL]).output();
    match tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(format!("unshare: {}", String::from_utf8_lossy(&tried.stderr).trim())),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// Runs `ip` in the network namespace of a process.
fn ip(pid: u32, arguments: &str) {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &pid.to_string(), "ip"]).args(arguments.split(' '));
    let output = command.output().expect("nsenter is there");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

impl Host {
    /// Boots a host, and waits until its systemd is ready.
    ///
    /// # Panics
    /// If that fails.
    pub fn boot(switch: &Switch, name: &str, address: Ipv4Addr) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut boot = Command::new("unshare");
        boot.args(["--mount", "--net", "--uts", "--propagation", "private", "bash", "-c", BOOT]);
        boot.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("NAME", name).env("DIR", dir.path());
        let boot = boot.stdin(Stdio::null()).spawn().expect("unshare is there");
        let (name, init) = (name.to_owned(), 0);
        let mut host = Self { name, address, boot, init, _dir: dir };
        host.init = until("the first process of a host", || {
            assert!(host.boot.try_wait().expect("a child").is_none(), "{} did not boot", host.name);
            let children = format!("/proc/{0}/task/{0}/children", host.boot.id());
            let first = fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()?;
            let comm = fs::read_to_string(format!("/proc/{first}/comm")).ok()?;
            (comm.trim_end() == "systemd").then_some(first)
        });
        host.connect(switch);
        until("systemd of a host", || {
            let ran = host.run("systemctl is-system-running");
            (ran.stdout.trim() == "running").then_some(())
        });
        host
    }

    /// Connects the host to the switch.
    fn connect(&self, switch: &Switch) {
        let (name, init) = (&self.name, self.init);
        switch.ip(&format!("link add name {name} type veth peer name eth0 netns {init}"));
        switch.ip(&format!("link set {name} master switch up"));
        ip(init, "link set lo up");
        ip(init, &format!("address add {}/24 dev eth0", self.address));
        ip(init, "link set eth0 up");
    }

    /// Returns the process number of the host's systemd, as this machine counts.
    pub fn init(&self) -> u32 {
        self.init
    }

    /// Returns a file of the host as a path of this machine.
    pub fn file(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.init)).join(path.trim_start_matches('/'))
    }

    /// Runs a script of bash as root, in a new login.
    pub fn run(&self, script: &str) -> Ran {
        finish(
            self.command(script)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("nsenter is there"),
        )
    }

    /// Runs a script that must succeed, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn done(&self, script: &str) -> String {
        let ran = self.run(script);
        assert!(ran.code == Some(0), "{}: {script}\n{ran:?}", self.name);
        ran.stdout
    }

    /// Returns a command that runs a script of bash as root, in a new login.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]);
        command.args(["--wdns=/srv", "env", "-i", "HOME=/root", "bash", "--login", "-c", script]);
        command
    }

    /// Returns the end of the log of Limo's services.
    fn log(&self) -> String {
        let script = "journalctl --no-pager --lines 40 --output cat -u lmaster -u lslave -u limo-jobs -u limo-relay";
        let output = self.command(script).output().expect("nsenter is there");
        format!("log of {}:\n{}", self.name, String::from_utf8_lossy(&output.stdout))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
        let init = self.init;
        end(&mut self.boot);
        until("the end of a host", || (!Path::new(&format!("/proc/{init}")).exists()).then_some(()));
        remove_group(&format!("limo-host-{}-{}", self.name, self.boot.id()));
    }
}

/// Removes a cgroup of version 2 and those below it.
fn remove_group(group: &str) {
    let script = "mount -t cgroup2 limo-host /mnt && find \"/mnt/$0\" -depth -type d -exec rmdir {} +";
    let mut removal = Command::new("unshare");
    removal.args(["--mount", "--propagation", "private", "sh", "-c", script, group]);
    let output = removal.output().expect("unshare is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
