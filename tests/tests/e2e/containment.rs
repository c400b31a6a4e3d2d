//! Jobs in control groups, and what holds without them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use limo_containment::{Group, Limits};
use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Setup, finish, groups, programs, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Starts a cluster of one node whose jobs have control groups with these limits, or skips the test.
fn cluster(cores: u32, limits: &[&str]) -> Option<Cluster> {
    if !nix::unistd::geteuid().is_root() {
        skip(Requirement::Root, "only root can make control groups");
        return None;
    }
    let cluster = Setup::nodes(1, cores).with_groups().start();
    let found = cluster.node_report("n1")?["containment"].clone();
    if let Some(missing) = ["groups"].iter().chain(limits).find(|limit| found[**limit] != true) {
        skip(Requirement::ControlGroups, &format!("the control groups of this machine have no {missing}"));
        return None;
    }
    Some(cluster)
}

fn names(cluster: &Cluster) -> Vec<String> {
    let subtree = groups::of(&cluster.node_state("n1")).expect("a place for groups");
    subtree.names().expect("readable").into_iter().collect()
}

/// Returns the number in a file that a job writes, such as that of a process.
fn number_in(cluster: &Cluster, name: &str) -> i32 {
    number_at(&cluster.submitter().path(name))
}

fn number_at(path: &Path) -> i32 {
    until(&format!("{} is written", path.display()), || fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok())
}

fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// A job that hides a process: without its environment, in a session of its own, with parents that have ended.
const HIDES: &str = "env -i setsid sh -c '(sleep 1000 & echo $! > hidden) &' & until [ -s hidden ]; do :; done";

#[test]
fn a_job_leaves_no_hidden_process_behind() {
    let Some(cluster) = cluster(2, &[]) else { return };
    let submitter = cluster.submitter();
    submitter.lrun(&["sh", "-c", HIDES]).succeeded();
    let hidden = number_in(&cluster, "hidden");
    // The end of the job is reported when its processes have ended.
    assert!(!runs(hidden), "process {hidden} is left");
    until("the group is removed", || names(&cluster).is_empty().then_some(()));
}

#[test]
fn a_cancelled_job_leaves_no_hidden_process_behind() {
    let Some(cluster) = cluster(2, &[]) else { return };
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sh", "-c", &format!("{HIDES}; sleep 1000")]);
    let hidden = number_in(&cluster, "hidden");
    assert!(runs(hidden));
    assert_eq!(names(&cluster), [format!("{job}.1")]);
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    submitter.wait(job);
    assert!(!runs(hidden), "process {hidden} is left");
}

/// Without control groups a hidden process is a child of the job's shepherd, which kills what has the environment of the
/// job only.
#[test]
fn without_control_groups_a_hidden_process_stays_and_the_node_says_so() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let shown = submitter.lq(&["nodes"]).succeeded();
    let expected = "n1: weak containment: jobs can leave processes behind; memory and cores are not enforced\n";
    assert!(shown.ends_with(expected), "{shown}");
    submitter.lrun(&["sh", "-c", HIDES]).succeeded();
    let hidden = number_in(&cluster, "hidden");
    assert!(runs(hidden));
    kill(Pid::from_raw(hidden), Signal::SIGKILL).expect("an own process");
}

#[test]
fn a_job_above_its_memory_is_ended_with_the_reason_and_its_neighbour_continues() {
    let Some(cluster) = cluster(2, &["memory"]) else { return };
    let submitter = cluster.submitter();
    let neighbour = submitter.spawn_lrun(&["--mem", "64MiB", "sh", "-c", "echo $$ > runs; read word; echo $word"]);
    let pid = number_in(&cluster, "runs");
    let hungry = "$x = 'x' x (300 << 20); sleep 1000";
    let ran = submitter.lrun(&["--mem", "50M", "perl", "-e", hungry]);
    assert_eq!(ran.code, Some(137), "{ran:?}");
    assert!(ran.stderr.contains("n1: ended by the kernel: exceeded its memory of 50 MiB"), "{ran:?}");
    let shown = submitter.lq(&["show", "2"]).succeeded();
    assert!(shown.contains("ended by the kernel: exceeded its memory of 50 MiB"), "{shown}");
    assert!(shown.contains("\npeak memory  50 MiB, 100 % of 50 MiB\n"), "{shown}");
    assert_eq!((submitter.state(2).as_str(), &submitter.job(2)["exit_code"]), ("failed", &137.into()));
    let line = ["sacct", "-nPX", "-j", "2", "-o", "State,ExitCode,MaxRSS"];
    let accounted = finish(submitter.command_of(&programs::path("lslurm"), &line).spawn().expect("it is built"));
    assert_eq!(accounted.succeeded(), "OUT_OF_MEMORY|0:125|50M\n");
    assert!(runs(pid));
    let mut neighbour = neighbour;
    std::io::Write::write_all(&mut neighbour.stdin.take().expect("piped"), b"well\n").expect("it reads");
    let ran = finish(neighbour);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "well\n"), "{ran:?}");
}

#[test]
fn a_step_and_the_script_share_the_memory_of_their_job() {
    let Some(cluster) = cluster(2, &["memory"]) else { return };
    let submitter = cluster.submitter();
    let lrun = programs::path("lrun").display().to_string();
    // Each of them is below 100 MiB, and both together are above. The kernel kills the larger one, or both.
    let script = format!(
        "perl -e '$x = \"x\" x (30 << 20); open F, \">taken\"; sleep 1000' & until [ -e taken ]; do sleep 0.01; done\n\
         {lrun} -n 1 perl -e '$x = \"x\" x (40 << 20)'; kill $!; wait $!"
    );
    let ran = submitter.lrun(&["-c", "2", "--mem", "100M", "--batch", "sh", "-c", &script]);
    assert!(ran.stderr.contains("ended by the kernel: exceeded its memory of 100 MiB"), "{ran:?}");
    let alone = format!("{lrun} -n 1 perl -e '$x = \"x\" x (40 << 20)' && echo done");
    let ran = submitter.lrun(&["-c", "2", "--mem", "100M", "--batch", "sh", "-c", &alone]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "done\n"), "{ran:?}");
}

/// Reads the first of these files that exists, in each hierarchy of the group of the job's processes, or of the job, which
/// is above it.
fn files(job: u64, cluster: &Cluster, names: &[&str], of_job: bool) -> Vec<String> {
    let subtree = groups::of(&cluster.node_state("n1")).expect("a place for groups");
    let directories = subtree.find(&format!("{job}.1")).map(|group| group.directories()).unwrap_or_default();
    let read = |directory: Vec<u8>| {
        let directory = String::from_utf8(directory).expect("UTF-8");
        let path = Path::new(directory.split_once('=').expect("a path").1);
        let path = if of_job { path.parent().expect("the group of the job") } else { path };
        let file = names.iter().find_map(|name| fs::read_to_string(path.join(name)).ok());
        file.map(|text| text.trim().to_owned())
    };
    directories.into_iter().filter_map(read).collect()
}

/// Reads a file of the job's group, of version 1 or 2.
fn in_group(job: u64, cluster: &Cluster, v1: &str, v2: &str) -> Option<String> {
    files(job, cluster, &[v1, v2], true).into_iter().next()
}

#[test]
fn a_job_of_one_core_gets_no_more_than_its_time() {
    let Some(cluster) = cluster(2, &["cores"]) else { return };
    if std::thread::available_parallelism().expect("known").get() < 2 {
        return skip(Requirement::ControlGroups, "a job of one core has all cores of this machine");
    }
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sh", "-c", "(while :; do :; done) & while :; do :; done"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    let quota = in_group(job, &cluster, "cpu.cfs_quota_us", "cpu.max").expect("a quota");
    assert!(["100000", "100000 100000"].contains(&quota.as_str()), "{quota}");
    // Two processes that never wait want two cores. The kernel counts the periods of 100 ms in which they run.
    let group = groups::of(&cluster.node_state("n1")).expect("a place for groups").find(&format!("{job}.1"));
    let group = group.expect("the job runs");
    let periods = || {
        let all = files(job, &cluster, &["cpu.stat"], true);
        let count = all.iter().flat_map(|text| text.lines()).find_map(|line| line.strip_prefix("nr_periods "));
        count.expect("a count").parse::<u64>().expect("a number")
    };
    until("they run for 5 periods", || (periods() >= 5).then_some(()));
    let used = group.usage().expect("readable").expect("counted");
    let most = 100 * (periods() + 2);
    assert!(used.user_cpu + used.system_cpu <= most, "{used:?} is more than {most} ms");
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    submitter.wait(job);
    assert_eq!(submitter.state(job), "cancelled");
    let used = submitter.job(job)["cpu_efficiency"].as_f64().expect("it ran");
    // A period may begin before the job and end after it.
    assert!(used > 0.0 && used < 1.5, "{used}");
}

#[test]
fn cores_of_the_whole_machine_need_no_quota() {
    let Some(cluster) = cluster(1000, &["cores"]) else { return };
    let submitter = cluster.submitter();
    let job = submitter.detach(&["--cores", "1000", "sleep", "1000"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    let quota = in_group(job, &cluster, "cpu.cfs_quota_us", "cpu.max");
    assert!(quota.is_none_or(|quota| quota.starts_with("max")));
}

#[test]
fn a_job_cannot_have_more_processes_than_allowed() {
    let Some(cluster) = cluster(2, &["processes"]) else { return };
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sleep", "1000"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    assert_eq!(in_group(job, &cluster, "pids.max", "pids.max").as_deref(), Some("16384"));
}

#[test]
fn a_suspended_job_is_frozen_as_a_whole() {
    let Some(cluster) = cluster(2, &[]) else { return };
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sh", "-c", &format!("{HIDES}; sleep 1000")]);
    number_in(&cluster, "hidden");
    let frozen = |expected: &'static str| {
        until(&format!("frozen is {expected}"), || {
            let text = files(job, &cluster, &["freezer.state", "cgroup.events"], false).into_iter().next()?;
            (text.contains(expected)).then_some(())
        });
    };
    let (stands, goes) = if has_v2(job, &cluster) { ("frozen 1", "frozen 0") } else { ("FROZEN", "THAWED") };
    let id = job.to_string();
    for (order, expected) in [("suspend", stands), ("resume", goes), ("suspend", stands)] {
        submitter.lq(&[order, &id]).succeeded();
        frozen(expected);
    }
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    submitter.wait(job);
    assert_eq!(submitter.state(job), "cancelled");
    until("the group is removed", || names(&cluster).is_empty().then_some(()));
}

fn has_v2(job: u64, cluster: &Cluster) -> bool {
    in_group(job, cluster, "no such file", "cgroup.events").is_some()
}

#[test]
fn a_group_survives_the_daemon_and_is_cleared_by_the_next_one() {
    let Some(mut cluster) = cluster(2, &[]) else { return };
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["sh", "-c", &format!("{HIDES}; until [ -e go ]; do sleep 0.02; done; exit 6")]);
    let hidden = number_in(&cluster, "hidden");
    cluster.kill_node("n1");
    assert!(runs(hidden));
    assert_eq!(names(&cluster), [format!("{job}.1")]);
    cluster.start_node("n1");
    fs::write(submitter.path("go"), "").expect("written");
    assert_eq!(submitter.wait(job), Some(6));
    assert!(!runs(hidden), "process {hidden} is left");
    until("the group is removed", || names(&cluster).is_empty().then_some(()));
}

#[test]
fn groups_of_killed_shepherds_are_killed_even_if_the_daemon_was_killed_too() {
    let Some(mut cluster) = cluster(2, &[]) else { return };
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["sh", "-c", &format!("{HIDES}; sleep 1000")]);
    let hidden = number_in(&cluster, "hidden");
    cluster.kill_node("n1");
    cluster.kill_shepherds("n1");
    cluster.start_node("n1");
    assert_eq!(submitter.wait(job), Some(125));
    assert!(!runs(hidden), "process {hidden} is left");
    assert_eq!(names(&cluster), Vec::<String>::new());
}

/// Makes a group of this name, with a process.
fn occupied(cluster: &Cluster, name: &str) -> (Group, Child) {
    let subtree = groups::of(&cluster.node_state("n1")).expect("a place for groups");
    let group = subtree.make(name, &Limits::default()).expect("made");
    let child = Command::new("sleep").arg("1000").spawn().expect("a program");
    for directory in group.directories() {
        let directory = String::from_utf8(directory).expect("UTF-8");
        let procs = format!("{}/cgroup.procs", directory.split_once('=').expect("a path").1);
        fs::write(procs, child.id().to_string()).expect("it moves");
    }
    (group, child)
}

#[test]
fn the_next_daemon_kills_and_removes_groups_that_no_shepherd_holds() {
    let Some(mut cluster) = cluster(2, &[]) else { return };
    cluster.kill_node("n1");
    let (_, mut child) = occupied(&cluster, "99.1");
    cluster.start_node("n1");
    let status = until("the process is killed", || child.try_wait().expect("a child"));
    assert_eq!(status.signal(), Some(9));
    cluster.await_node("n1");
    assert_eq!(names(&cluster), Vec::<String>::new());
}

#[test]
fn a_job_whose_group_cannot_be_made_is_not_started() {
    let Some(cluster) = cluster(2, &[]) else { return };
    let submitter = cluster.submitter();
    let (taken, mut child) = occupied(&cluster, "1.1");
    let ran = submitter.lrun(&["true"]);
    assert_eq!(ran.code, Some(126), "{ran:?}");
    let reason = "could not be started: cannot make the control group of the job: ";
    assert!(ran.stderr.contains(reason) && ran.stderr.contains("still has processes"), "{ran:?}");
    taken.kill(Duration::from_secs(20)).expect("killed");
    child.wait().expect("a child");
    submitter.lrun(&["true"]).succeeded();
}

#[test]
fn the_place_of_the_groups_is_made_again_if_it_was_removed() {
    let Some(cluster) = cluster(2, &[]) else { return };
    groups::of(&cluster.node_state("n1")).expect("a place for groups").leave();
    let place = cluster.submitter().lrun(&["cat", "/proc/self/cgroup"]).succeeded();
    assert!(place.contains("/limo/") && place.contains("/1.1/script\n"), "{place}");
}
