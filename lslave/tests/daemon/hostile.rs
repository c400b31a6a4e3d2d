//! Files and processes of one user block neither the daemon nor the jobs of other users.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use limo_model::{Outcome, Span};
use limo_proto::{Channel, DoExec};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;

use crate::kill::numbers;
use crate::master::{Daemon, Master, Session, exec, is_running, shell, shepherds, within};

/// Longest time of another user's job during an attack of the hostile user.
const PROMPT: Duration = Duration::from_secs(1);

/// Returns a user other than root that every Linux has.
fn other() -> nix::unistd::User {
    nix::unistd::User::from_name("daemon").expect("a look-up").expect("every Linux has it")
}

async fn node() -> (Session, Daemon) {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    fs::set_permissions(daemon.dir.path(), fs::Permissions::from_mode(0o711)).expect("set");
    (master.welcome().await.0, daemon)
}

/// Runs a job of this test's user, which ends promptly.
async fn prompt(node: &mut Session, job: u64) {
    let begin = Instant::now();
    node.run(shell(job, "exit 5")).await;
    assert_eq!(node.ended(job).await.0, Outcome::Exited(5));
    assert!(begin.elapsed() < PROMPT, "job {job} took {:?}", begin.elapsed());
}

/// Assigns a job and releases it, without waiting for it.
async fn as_other(node: &mut Session, mut job: DoExec) {
    let uid = if geteuid().is_root() { other().uid.as_raw() } else { geteuid().as_raw() };
    (job.launch.uid, job.user) = (uid, limo_proto::user_name(uid));
    node.run(job).await;
}

/// A write lease on a file. Another process that opens the file waits until the holder gives the lease up, 45 s at
/// most.
struct Lease(File);

impl Lease {
    fn on(path: &Path) -> Self {
        // The file is opened for reading, because a file that is open for writing cannot be executed. The lease ends
        // with the descriptor.
        let file = File::open(path).expect("an own file");
        // SAFETY: the descriptor is open. The signal about a waiting process must not end the holder.
        unsafe {
            libc::signal(libc::SIGIO, libc::SIG_IGN);
            assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK), 0, "a lease");
        }
        Self(file)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

fn owned_by_other(path: &Path) {
    if geteuid().is_root() {
        nix::unistd::chown(path, Some(other().uid), Some(other().gid)).expect("root may");
    }
}

/// Makes an executable file of the other user.
fn program(daemon: &Daemon, name: &str, text: &str) -> PathBuf {
    let path = daemon.path(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    owned_by_other(&path);
    path
}

#[tokio::test]
async fn a_lease_on_an_executable_blocks_no_other_job() {
    let (mut node, daemon) = node().await;
    let path = program(&daemon, "leased", "#!/bin/sh\nexit 7\n");
    let lease = Lease::on(&path);
    as_other(&mut node, exec(1, &[path.to_str().expect("UTF-8")])).await;
    for job in 2..5 {
        prompt(&mut node, job).await;
    }
    drop(lease);
    assert_eq!(node.ended(1).await.0, Outcome::Exited(7), "it is launched when its file responds");
}

#[tokio::test]
async fn a_launch_that_is_held_can_be_stopped() {
    let (mut node, daemon) = node().await;
    let path = program(&daemon, "leased", "#!/bin/sh\nexit 7\n");
    let lease = Lease::on(&path);
    as_other(&mut node, exec(1, &[path.to_str().expect("UTF-8")])).await;
    prompt(&mut node, 2).await;
    let begin = Instant::now();
    node.stop(1, Span::from_ms(1)).await;
    assert!(matches!(node.ended(1).await.0, Outcome::Signaled(_)), "stopped");
    assert!(begin.elapsed() < Duration::from_secs(20), "the file still does not respond: {:?}", begin.elapsed());
    drop(lease);
}

#[tokio::test]
async fn a_stopped_child_blocks_no_other_job() {
    let (mut node, daemon) = node().await;
    let path = program(&daemon, "leased", "#!/bin/sh\nexit 7\n");
    let lease = Lease::on(&path);
    as_other(&mut node, exec(1, &[path.to_str().expect("UTF-8")])).await;
    prompt(&mut node, 2).await;
    // The user stops the child between its change of user and the start of its program.
    let child = shepherds_children(&daemon).into_iter().find(|pid| !is_shell(*pid)).expect("the child that is held");
    kill(nix::unistd::Pid::from_raw(child), Signal::SIGSTOP).expect("an own process");
    drop(lease);
    for job in 3..6 {
        prompt(&mut node, job).await;
    }
    node.stop(1, Span::from_ms(1)).await;
    assert!(matches!(node.ended(1).await.0, Outcome::Signaled(_)));
}

fn is_shell(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == "sh")
}

fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn shepherds_children(daemon: &Daemon) -> Vec<i32> {
    shepherds(daemon.dir.path()).into_iter().flat_map(children).collect()
}

/// Returns the shepherd of a job's leader.
fn shepherd_of(leader: i32) -> nix::unistd::Pid {
    let status = fs::read_to_string(format!("/proc/{leader}/status")).expect("it runs");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
    nix::unistd::Pid::from_raw(parent.trim().parse().expect("a number"))
}

/// Runs a job that leaves many files next to the carried one.
#[tokio::test]
async fn removing_carried_files_blocks_no_job() {
    let (mut node, _daemon) = node().await;
    let mut job = exec(1, &["job.sh"]);
    let script =
        "#!/bin/sh\ndir=${0%/*}; echo $dir\ncd $dir && i=0; while [ $i -lt 200 ]; do mkdir $i; i=$((i+1)); done
        seq 50000 | sed 's|\\(.*\\)\\(..\\)|\\2/\\1\\2|; s|^0||' | xargs touch; echo made; read line; exit 3";
    job.launch.carried = Some(script.as_bytes().to_vec());
    as_other(&mut node, job).await;
    let mut output = String::new();
    while !output.ends_with("made\n") {
        let data = node.data(1, Channel::Stdout).await;
        output.push_str(std::str::from_utf8(&data.bytes).expect("text"));
    }
    let dir = PathBuf::from(output.lines().next().expect("the directory"));
    assert_eq!(fs::metadata(&dir).expect("there").permissions().mode() & 0o777, 0o700);
    // The job ends now, and other jobs run while its files are removed.
    node.write(1, 0, "").await;
    for job in 2..5 {
        prompt(&mut node, job).await;
    }
    assert_eq!(node.ended(1).await.0, Outcome::Exited(3));
    let gone = async {
        let mut between = tokio::time::interval(Duration::from_millis(20));
        while dir.exists() {
            between.tick().await;
        }
    };
    within(gone).await;
}

/// Checks that a job's environment is that of a login, and not that of the daemon.
#[tokio::test]
async fn a_job_inherits_nothing_of_its_daemon() {
    let master = Master::new().await;
    let (_read, write) = nix::unistd::pipe().expect("a pipe, open in every child");
    let leaked = write.as_raw_fd();
    let daemon = Daemon::start_changed(&master, &[], |command| {
        // SAFETY: the closure makes only system calls.
        unsafe {
            command.pre_exec(move || {
                libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGUSR2);
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                libc::umask(0o077);
                Ok(())
            });
        }
    });
    fs::set_permissions(daemon.dir.path(), fs::Permissions::from_mode(0o711)).expect("set");
    let (mut node, _) = master.welcome().await;
    let script =
        "ls -l /proc/$$/fd; echo; cat /proc/self/status; cat /proc/$$/oom_score_adj; ulimit -Sn; ulimit -Hn; umask";
    as_other(&mut node, shell(1, script)).await;
    let output = node.read_all(1, Channel::Stdout).await;
    let (descriptors, rest) = output.split_once("\n\n").expect("two parts");
    let open = descriptors.lines().filter_map(|line| line.split_whitespace().rev().nth(2)?.parse::<i32>().ok());
    assert_eq!(open.collect::<Vec<_>>(), [0, 1, 2], "descriptor {leaked} of the daemon: {descriptors}");
    for line in ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"] {
        assert!(rest.contains(line), "{line} in {rest}");
    }
    let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("a limit");
    let last: Vec<&str> = rest.lines().rev().take(4).collect();
    assert_eq!(last, ["0022", &hard.to_string(), &1024.min(hard).to_string(), "0"], "umask, limits, oom_score_adj");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
}

/// Waits until these processes have ended.
async fn gone(processes: &[i32]) {
    let end = async {
        let mut between = tokio::time::interval(Duration::from_millis(10));
        while processes.iter().any(|pid| is_running(*pid)) {
            between.tick().await;
        }
    };
    within(end).await;
}

#[tokio::test]
async fn a_killed_shepherd_loses_only_its_own_job() {
    let (mut node, _daemon) = node().await;
    as_other(&mut node, shell(1, "setsid sleep 1000 & env -i /usr/bin/setsid /bin/sleep 1001 & echo $$ $!; wait"))
        .await;
    let processes = numbers(&mut node, 1).await;
    as_other(&mut node, shell(2, "echo $$; read line; exit 3")).await;
    numbers(&mut node, 2).await;
    kill(shepherd_of(processes[0]), Signal::SIGKILL).expect("it runs");
    let lost = Outcome::Lost { reason: "lshepherd, which ran the job on its node, was killed".into() };
    assert_eq!(node.ended(1).await.0, lost);
    // The kernel ends a process some time after the signal.
    gone(&processes).await;
    node.run(shell(3, "exit 4")).await;
    assert_eq!(node.ended(3).await.0, Outcome::Exited(4), "another one launches");
    node.write(2, 0, "\n").await;
    assert_eq!(node.ended(2).await.0, Outcome::Exited(3), "the other job goes on");
}

#[tokio::test]
async fn output_of_a_killed_shepherd_is_delivered() {
    let (mut node, _daemon) = node().await;
    node.run(shell(1, "head -c 200000 /dev/zero; echo $$ >&2; sleep 1000")).await;
    let mut leader = String::new();
    while !leader.ends_with('\n') {
        leader.push_str(std::str::from_utf8(&node.data(1, Channel::Stderr).await.bytes).expect("text"));
    }
    kill(shepherd_of(leader.trim().parse().expect("a number")), Signal::SIGKILL).expect("it runs");
    assert_eq!(node.read_all(1, Channel::Stdout).await.len(), 200_000);
    assert!(matches!(node.ended(1).await.0, Outcome::Lost { .. }));
}

#[tokio::test]
async fn a_job_whose_daemon_and_shepherd_are_killed_is_lost() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    as_other(&mut node, shell(1, "setsid sleep 1000 & echo $$ $!; wait")).await;
    let processes = numbers(&mut node, 1).await;
    let shepherd = shepherd_of(processes[0]);
    daemon.kill();
    kill(shepherd, Signal::SIGKILL).expect("it runs");
    // The kernel ends the leader; the next daemon ends the others.
    gone(&processes[..1]).await;
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    let lost = Outcome::Lost { reason: "lshepherd, which ran the job on its node, was killed".into() };
    assert_eq!(node.ended(1).await.0, lost);
    assert!(processes.iter().all(|pid| !is_running(*pid)), "{processes:?}");
    node.acknowledge_end(1).await;
    node.run(shell(2, "exit 4")).await;
    assert_eq!(node.ended(2).await.0, Outcome::Exited(4));
    let left: Vec<String> = fs::read_dir(daemon.path("state/shepherds"))
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.starts_with("1."))
        .collect();
    assert!(left.is_empty(), "the socket of the lost job is removed: {left:?}");
}

/// A shepherd that does not answer is of no use to the next daemon.
#[tokio::test]
async fn a_stopped_shepherd_is_killed_by_the_next_daemon() {
    let master = Master::new().await;
    let mut daemon = Daemon::start(&master, &[]);
    let (mut node, _) = master.welcome().await;
    as_other(&mut node, shell(1, "echo $$; exec sleep 1000")).await;
    let processes = numbers(&mut node, 1).await;
    let shepherd = shepherd_of(processes[0]);
    kill(shepherd, Signal::SIGSTOP).expect("it runs");
    daemon.kill();
    daemon.restart(&master);
    let (mut node, _) = master.welcome().await;
    assert!(matches!(node.ended(1).await.0, Outcome::Lost { .. }));
    assert!(!is_running(processes[0]) && !is_running(shepherd.as_raw()));
}
