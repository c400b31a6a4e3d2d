//! PAM sessions of jobs. These tests need root and the usual modules, and add services to `/etc/pam.d`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Setup, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const SERVICES: &str = "/etc/pam.d";

/// A PAM service, removed on drop, and a directory for the files of its modules.
struct Service {
    name: String,
    directory: TempDir,
}

impl Service {
    /// Makes a service that lets all users in. Skips with `None` if this machine cannot have it.
    fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            skip(Requirement::Root, "only root can open PAM sessions");
            return None;
        }
        if !Path::new(SERVICES).is_dir() || !has_modules() {
            skip(Requirement::Program, "PAM or one of its modules is missing");
            return None;
        }
        let name = format!("limo-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::Builder::new().prefix("limo-").tempdir().expect("a directory");
        let service = Self { name, directory };
        service.set("account required pam_permit.so");
        Some(service)
    }

    /// Replaces the lines of the service after the first.
    fn set(&self, lines: &str) {
        let path = Path::new(SERVICES).join(&self.name);
        fs::write(path, format!("auth required pam_permit.so\n{lines}\n")).expect("root may");
    }

    fn with_session(&self, line: &str) {
        self.set(&format!("account required pam_permit.so\nsession required {line}"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("own file");
        path.display().to_string()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn cluster(&self) -> Cluster {
        Setup::default().node("n1", &["--cpus", "1", "--pam", &self.name]).start()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = fs::remove_file(Path::new(SERVICES).join(&self.name));
    }
}

/// Returns true if a directory of modules has all that these tests use.
fn has_modules() -> bool {
    let modules = ["pam_permit.so", "pam_deny.so", "pam_env.so", "pam_limits.so", "pam_exec.so"];
    let machine = std::env::consts::ARCH;
    let multiarch = format!("/lib/{machine}-linux-gnu/security");
    ["/lib/security", "/lib64/security", &multiarch]
        .iter()
        .any(|directory| modules.iter().all(|module| Path::new(directory).join(module).exists()))
}

#[test]
fn a_session_sets_variables_that_the_job_does_not_have() {
    let Some(service) = Service::new() else { return };
    let variables = service.write("variables", "FROM_PAM=session\nOWN=session\n");
    let rules = service.write("rules", "");
    service.with_session(&format!("pam_env.so conffile={rules} envfile={variables} readenv=1"));
    let cluster = service.cluster();
    let ran = cluster.submitter().shell("OWN=job $LRUN sh -c 'echo $FROM_PAM $OWN'");
    assert_eq!(ran.succeeded(), "session job\n");
}

#[test]
fn limits_of_a_session_are_those_of_one_job() {
    let Some(service) = Service::new() else { return };
    let limits = "root soft nofile 300\nroot hard nofile 400\nroot - cpu 77\n";
    let conf = service.write("limits", limits);
    service.with_session(&format!("pam_limits.so conf={conf}"));
    let cluster = service.cluster();
    let limits = || {
        let show = "echo $PPID; grep -c \"open files  *300 \" /proc/$PPID/limits; ulimit -Sn; ulimit -Hn; ulimit -Ht";
        let shown = cluster.submitter().lrun(&["sh", "-c", show]).succeeded();
        let lines: Vec<String> = shown.lines().map(str::to_owned).collect();
        let [shepherd, rest @ ..] = lines.as_slice() else { panic!("{shown}") };
        (shepherd.clone(), rest.to_vec())
    };
    let (first, limited) = limits();
    // `pam_limits` counts CPU time in minutes, the shell in seconds.
    assert_eq!(limited, ["0", "300", "400", "4620"], "with the number of such limits of the shepherd first");
    let begin = Instant::now();
    until("the shepherd has ended", || (!Path::new("/proc").join(&first).exists()).then_some(()));
    // `lslave` does not have to kill it.
    assert!(begin.elapsed() < Duration::from_secs(30));
    service.write("limits", "root - nofile 500\n");
    let (second, usual) = limits();
    assert_ne!(first, second);
    assert_eq!(usual[1..3], ["500", "500"]);
    assert_ne!(usual[3], "4620");
}

#[test]
fn a_job_that_a_service_refuses_does_not_start() {
    let Some(service) = Service::new() else { return };
    service.set("account required pam_deny.so");
    let cluster = service.cluster();
    let submitter = cluster.submitter();
    let ran = submitter.lrun(&["touch", "ran"]);
    let reason = format!("PAM service `{}` refuses user `root`: ", service.name);
    assert!(ran.code == Some(126) && ran.stderr.contains(&reason), "{ran:?}");
    service.with_session("pam_deny.so");
    let ran = submitter.lrun(&["touch", "ran"]);
    let reason = format!("PAM service `{}` opens no session for user `root`: ", service.name);
    assert!(ran.code == Some(126) && ran.stderr.contains(&reason), "{ran:?}");
    assert!(!submitter.path("ran").exists());
    service.set("account required pam_permit.so\nsession required pam_permit.so");
    assert_eq!(submitter.lrun(&["echo", "runs"]).succeeded(), "runs\n");
}

#[test]
fn a_session_surrounds_all_processes_of_its_job() {
    let Some(service) = Service::new() else { return };
    let directory = service.directory.path().display();
    let script = format!(
        "#!/bin/sh\ncd {directory}\n\
         if grep -q 1000 /proc/$(cat child)/cmdline; then child=runs; else child=none; fi 2> /dev/null\n\
         echo $PAM_TYPE $PAM_USER $child >> log\n"
    );
    let script = service.write("script", &script);
    service.with_session(&format!("pam_exec.so {script}"));
    let cluster = service.cluster();
    // The child leaves its process group, and outlives its parent.
    let job = format!("cd {directory}; setsid sleep 1000 > /dev/null 2>&1 & echo $! > {directory}/child; echo job");
    assert_eq!(cluster.submitter().lrun(&["sh", "-c", &job]).succeeded(), "job\n");
    let log = until("the session is closed", || Some(service.lines("log")).filter(|lines| lines.len() == 2));
    assert_eq!(log, ["open_session root none", "close_session root none"]);
}

#[test]
fn a_module_that_blocks_fails_the_launch() {
    let Some(service) = Service::new() else { return };
    let pid = service.path("pid");
    let script = service.write("script", &format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", pid.display()));
    service.with_session(&format!("pam_exec.so {script}"));
    let cluster = service.cluster();
    let ran = cluster.submitter().lrun(&["true"]);
    let blocked: i32 = fs::read_to_string(pid).expect("written").trim().parse().expect("a number");
    // It belongs to the module, and outlives it.
    let _ = kill(Pid::from_raw(blocked), Signal::SIGKILL);
    let reason = format!("PAM service `{}` opened no session within 40 s", service.name);
    assert!(ran.code == Some(126) && ran.stderr.contains(&reason), "{ran:?}");
    service.with_session("pam_permit.so");
    assert_eq!(cluster.submitter().lrun(&["echo", "runs"]).succeeded(), "runs\n");
}
