//! A job runs as if its submitter ran it: command, environment, directory, umask, user, exit code.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use limo_model::{Outcome, Span};
use limo_proto::Channel;
use limo_requirements::{Requirement, skip};
use nix::unistd::geteuid;

use crate::master::{Daemon, Master, Session, detached, exec, shell, shepherds};

async fn node() -> (Session, Daemon) {
    let master = Master::new().await;
    let daemon = Daemon::start(&master, &[]);
    (master.welcome().await.0, daemon)
}

#[tokio::test]
async fn exit_codes_signals_and_usage() {
    let (mut node, _daemon) = node().await;
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7";
    for (job, script, expected) in [
        (1, "exit 0", Outcome::Exited(0)),
        (2, spin, Outcome::Exited(7)),
        (3, "kill -TERM $$", Outcome::Signaled(15)),
        (4, "kill -KILL $$", Outcome::Signaled(9)),
        (5, "kill -35 $$", Outcome::Signaled(35)),
    ] {
        node.run(shell(job, script)).await;
        node.started(job).await;
        let (outcome, usage) = node.ended(job).await;
        assert_eq!(outcome, expected, "{script}");
        assert!(usage.max_rss.bytes() > 0 && usage.energy.is_none(), "{usage:?}");
        if job == 2 {
            assert!(usage.user_cpu > Span::ZERO && usage.elapsed > Span::ZERO, "{usage:?}");
        }
        node.acknowledge_end(job).await;
    }
}

#[tokio::test]
async fn environment_and_directory() {
    let (mut node, daemon) = node().await;
    let mut job = shell(9, "env; pwd; umask; cat /proc/self/stat");
    job.name = "named".into();
    job.launch.cwd = daemon.path("").to_str().expect("UTF-8").trim_end_matches('/').into();
    job.launch.umask = 0o027;
    job.launch.env.extend([(b"OWN".to_vec(), b"a b=c".to_vec()), (b"LIMO_ATTEMPT".to_vec(), b"outer".to_vec())]);
    let cwd = String::from_utf8(job.launch.cwd.clone()).expect("UTF-8");
    node.run(job).await;
    let output = node.read_all(9, Channel::Stdout).await;
    let lines: Vec<&str> = output.lines().collect();
    for line in [
        "OWN=a b=c",
        "PATH=/usr/bin:/bin",
        "LIMO_JOB_ID=9",
        "LIMO_JOB_NAME=named",
        "LIMO_NODE=n1",
        "LIMO_UNIT=cpu",
        "LIMO_CPUS=1",
        &format!("LIMO_SUBMIT_DIR={cwd}"),
        &cwd,
        "0027",
    ] {
        assert!(lines.contains(&line), "{line} in\n{output}");
    }
    let cookie = lines.iter().find_map(|line| line.strip_prefix("LIMO_ATTEMPT=")).expect("a cookie");
    assert_eq!(cookie.len(), 32, "a new one, although the submitter had one: {cookie}");
    assert!(!output.contains("LIMO_EMULATED_WORK_FD"), "this machine is real");
    // The process group and the session are the shell's, not the daemon's.
    let stat: Vec<&str> = lines.last().and_then(|line| line.split_once(") ")).expect("stat").1.split(' ').collect();
    assert_eq!(stat[2], stat[3], "group and session");
    assert_ne!(stat[3], daemon.pid().to_string());
}

/// Expects that the command does not start, with this code and text.
async fn check(node: &mut Session, job: limo_proto::DoExec, code: u8, text: &str) {
    let id = job.job.0;
    node.run(job).await;
    match node.ended(id).await.0 {
        Outcome::NotStarted { code: found, reason } => {
            assert_eq!(found, code, "{reason}");
            assert!(reason.contains(text), "`{text}` in `{reason}`");
        }
        other => panic!("{other:?} instead of {code}"),
    }
    node.acknowledge_end(id).await;
}

#[tokio::test]
async fn failed_launches_are_reported() {
    let (mut node, daemon) = node().await;
    let plain = daemon.path("plain");
    fs::write(&plain, "not a program").expect("written");
    check(&mut node, exec(1, &["no-such-command"]), 127, "command not found: no-such-command").await;
    check(&mut node, exec(2, &["/no/such/path"]), 127, "command not found: /no/such/path").await;
    check(&mut node, exec(3, &[plain.to_str().expect("UTF-8")]), 126, "Permission denied").await;
    let mut nowhere = shell(4, "true");
    nowhere.launch.cwd = b"/no/such/directory".to_vec();
    check(&mut node, nowhere, 126, "cannot enter the directory /no/such/directory: No such file").await;
    let mut nul = shell(5, "true");
    nul.launch.argv.push(b"a\0b".to_vec());
    check(&mut node, nul, 126, "NUL").await;
    // The output file cannot be created, because a directory has its name.
    fs::create_dir(daemon.path("limo-6.err")).expect("made");
    check(&mut node, detached(6, "true", daemon.dir.path()), 126, "limo-6.err: Is a directory").await;
    // A pipe without a reader must not block the daemon.
    nix::unistd::mkfifo(&daemon.path("limo-7.out"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    check(&mut node, detached(7, "true", daemon.dir.path()), 126, "limo-7.out").await;
    let mut unknown = shell(8, "true");
    unknown.launch.uid = 3_999_999_999;
    check(&mut node, unknown, 126, "3999999999").await;
    // A daemon that cannot become another user asks no name service.
    if geteuid().is_root() {
        let renamed = limo_proto::DoExec { user: "somebody".into(), ..shell(9, "true") };
        check(&mut node, renamed, 126, "user id 0 is `root` on this node, but `somebody` on the machine").await;
    }
}

/// Searches the submitter's PATH. A relative entry is relative to the job's directory.
#[tokio::test]
async fn commands_are_found_as_the_submitter_would() {
    let (mut node, daemon) = node().await;
    fs::create_dir(daemon.path("bin")).expect("made");
    let tool = daemon.path("bin/limo-test-tool");
    fs::write(&tool, "#!/bin/sh\necho found $1\n").expect("written");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("set");
    let mut job = exec(1, &["limo-test-tool", "me"]);
    job.launch.cwd = daemon.dir.path().to_str().expect("UTF-8").into();
    job.launch.env = vec![(b"PATH".to_vec(), b"bin:/usr/bin:/bin".to_vec())];
    node.run(job).await;
    assert_eq!(node.read_all(1, Channel::Stdout).await, "found me\n");
}

/// Expects the behaviour of `execvp(3)`.
#[tokio::test]
async fn a_file_that_cannot_be_executed_is_passed_over_and_one_without_an_interpreter_is_for_the_shell() {
    let (mut node, daemon) = node().await;
    for (dir, mode) in [("first", 0o644), ("second", 0o755)] {
        fs::create_dir(daemon.path(dir)).expect("made");
        let tool = daemon.path(&format!("{dir}/limo-test-tool"));
        fs::write(&tool, format!("echo {dir} $0 $1\n")).expect("written");
        fs::set_permissions(&tool, fs::Permissions::from_mode(mode)).expect("set");
    }
    let job = |job: u64, path: &str| {
        let mut exec = exec(job, &["limo-test-tool", "me"]);
        exec.launch.cwd = daemon.dir.path().to_str().expect("UTF-8").into();
        exec.launch.env = vec![(b"PATH".to_vec(), path.into())];
        exec
    };
    node.run(job(1, "first:second")).await;
    assert_eq!(node.read_all(1, Channel::Stdout).await, "second second/limo-test-tool me\n");
    check(&mut node, job(2, "first"), 126, "cannot execute limo-test-tool: Permission denied").await;
}

#[tokio::test]
async fn a_variant_replaces_the_command_on_its_hardware() {
    let master = Master::new().await;
    let _daemon = Daemon::start(&master, &[]);
    let (mut node, new) = master.welcome().await;
    let mut job = exec(1, &["echo", "main"]);
    let hardware = new.spec.units[0].hardware.clone();
    let other = ("other".to_owned(), vec![b"echo".to_vec(), b"other".to_vec()]);
    job.launch.variants = vec![other, (hardware, vec![b"echo".to_vec(), b"variant".to_vec()])];
    node.run(job).await;
    assert_eq!(node.read_all(1, Channel::Stdout).await, "variant\n");
}

#[tokio::test]
async fn detached_jobs_write_files_with_the_umask() {
    let (mut node, daemon) = node().await;
    let mut job = detached(5, "cat; echo out; echo err >&2; exit 3", daemon.dir.path());
    job.launch.umask = 0o027;
    node.run(job).await;
    assert_eq!(node.ended(5).await.0, Outcome::Exited(3), "stdin is empty, so cat ends");
    for (name, text) in [("limo-5.out", "out\n"), ("limo-5.err", "err\n")] {
        let path = daemon.path(name);
        assert_eq!(fs::read_to_string(&path).expect("written"), text);
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o640, "{name}");
    }
}

/// Tests a node that runs as root. It becomes the submitter before it accesses any of the submitter's files.
#[tokio::test]
async fn jobs_run_as_their_submitter() {
    if !geteuid().is_root() {
        return skip(Requirement::Root, "only root can become another user");
    }
    let nobody = nix::unistd::User::from_name("nobody").expect("a lookup").expect("nobody is known");
    let master = Master::new().await;
    let daemon = Daemon::start_changed(&master, &[], |command| {
        let groups = [4, 20].map(nix::unistd::Gid::from_raw);
        // SAFETY: the closure makes one system call.
        unsafe { command.pre_exec(move || Ok(nix::unistd::setgroups(&groups)?)) };
    });
    let (mut node, _) = master.welcome().await;
    let mine = daemon.path("mine");
    fs::create_dir(&mine).expect("made");
    nix::unistd::chown(&mine, Some(nobody.uid), Some(nobody.gid)).expect("root may");
    fs::set_permissions(daemon.dir.path(), fs::Permissions::from_mode(0o711)).expect("set");
    let mut job = detached(1, "id -u; id -g; id -G; cat /proc/self/status", &mine);
    (job.launch.uid, job.user) = (nobody.uid.as_raw(), nobody.name.clone());
    node.run(job).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
    let output = fs::read_to_string(mine.join("limo-1.out")).expect("written");
    let (uid, gid) = (nobody.uid.to_string(), nobody.gid.to_string());
    assert_eq!(
        output.lines().take(3).collect::<Vec<_>>(),
        [uid.as_str(), &gid, &gid],
        "none of the daemon's groups is left"
    );
    let uids = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}");
    assert!(output.contains(&uids), "real, effective, saved and file system user: {output}");
    assert_eq!(fs::metadata(mine.join("limo-1.err")).expect("there").uid(), nobody.uid.as_raw(), "its owner");
    // Only root may enter this directory.
    let closed = daemon.path("closed");
    fs::create_dir(&closed).expect("made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("set");
    let mut job = detached(2, "true", &closed);
    (job.launch.uid, job.user) = (nobody.uid.as_raw(), nobody.name.clone());
    check(&mut node, job, 126, "Permission denied").await;
}

/// A shepherd that becomes free gets the next job, and few others wait.
#[tokio::test]
async fn few_shepherds_serve_many_jobs() {
    let (mut node, daemon) = node().await;
    let mut used = std::collections::BTreeSet::new();
    for job in 1..=20 {
        node.run(shell(job, "echo $PPID")).await;
        used.insert(node.read_all(job, Channel::Stdout).await);
        node.read_all(job, Channel::Stderr).await;
        node.ended(job).await;
        node.acknowledge_end(job).await;
    }
    assert!(used.len() <= 4, "{used:?}");
    let all = shepherds(daemon.dir.path());
    assert!((2..=8).contains(&all.len()), "{all:?}");
}
