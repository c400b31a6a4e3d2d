//! A machine with systemd as its first process, in namespaces of this one. It has the units of `deploy/` and the programs
//! under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use limo_containment::Mounts;
use limo_requirements::{Requirement, skip};
use tempfile::TempDir;

use crate::programs;
use crate::submitter::{Ran, finish};
use crate::until::until;

/// Program of the service manager.
const MANAGER: &str = "/lib/systemd/systemd";

/// Variables of commands on the machine.
const VARIABLES: [(&str, &str); 3] =
    [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/root"), ("LIMO_MASTER_USER", "limo")];

/// A running machine, which ends when it is dropped.
pub struct Booted {
    /// The process that keeps the namespaces.
    keeper: Child,
    /// The service manager.
    pid: String,
    /// Control group of all of its processes.
    group: PathBuf,
    _dir: TempDir,
}

impl Booted {
    /// Boots the machine, or skips the rest of the test.
    ///
    /// # Panics
    /// If the service manager does not come up.
    pub fn start() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            skip(Requirement::Root, "only root can boot a service manager in namespaces");
            return None;
        }
        let unified = Mounts::find().expect("a list of mounts").unified;
        let Some(unified) = unified.filter(|_| Path::new(MANAGER).exists()) else {
            skip(Requirement::Program, "systemd or version 2 of control groups is missing");
            return None;
        };
        let dir = tempfile::Builder::new().prefix("limo-boot-").tempdir().expect("a directory");
        let group = unified.join(dir.path().file_name().expect("a name"));
        fs::create_dir_all(group.join("boot")).expect("a control group");
        let script = "echo $$ > $0/boot/cgroup.procs && exec unshare --fork --pid --mount --cgroup --uts --ipc --net \
                      --kill-child=SIGKILL bash -c \"$1\" boot \"$2\" \"$3\" \"$4\"";
        let mut command = Command::new("bash");
        command.args(["-c", script]).arg(&group).arg(include_str!("booted.sh")).arg(dir.path());
        command.arg(programs::path("lslave").parent().expect("its directory"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy"));
        let log = fs::File::create(dir.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let keeper = command.spawn().expect("bash");
        let mut booted = Self { keeper, pid: String::new(), group, _dir: dir };
        let id = booted.keeper.id();
        until("the service manager is up", || {
            let pid = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
            booted.pid = pid.trim().to_owned();
            let is_manager =
                fs::read_to_string(format!("/proc/{}/comm", booted.pid)).is_ok_and(|name| name == "systemd\n");
            let state = is_manager.then(|| booted.run("systemctl is-system-running"))?;
            ["running\n", "degraded\n"].contains(&state.stdout.as_str()).then_some(())
        });
        Some(booted)
    }

    /// Runs a script of the shell in root's directory of the machine.
    pub fn run(&self, script: &str) -> Ran {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.pid, "--all", "--wd=/", "bash", "-c", &format!("cd /root; {script}")])
            .env_clear()
            .envs(VARIABLES);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("nsenter"))
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- journal\n{}", self.run("journalctl --no-pager -n 60 -u 'l*'").stdout);
        }
        // With the first process of its namespace, the kernel kills all others.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        let group =
            limo_containment::Group::of([[b"unified=", self.group.as_os_str().as_encoded_bytes()].concat().as_slice()]);
        if let Ok(Some(group)) = group {
            let _ = group.kill(crate::until::LIMIT);
            let _ = group.close();
        }
    }
}
