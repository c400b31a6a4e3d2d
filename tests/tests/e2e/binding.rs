//! Jobs that are bound to cores, by control groups and without them, and their tasks.

use std::collections::BTreeSet;
use std::fs;

use limo_containment::{Controller, Mounts, Place, Subtree};
use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Setup, programs, until};

/// Returns the number of CPUs of this machine, or skips the test.
fn several_cpus() -> Option<String> {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if count < 2 {
        skip(Requirement::Platform, "the machine has one CPU");
        return None;
    }
    Some(count.to_string())
}

#[test]
fn jobs_have_cores_of_their_own_in_control_groups() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Requirement::Root, "only root can make control groups");
    }
    let all = match Subtree::open(&Mounts::find().expect("a list"), Place::Own("/limo"), "test-bound", &Controller::ALL)
    {
        Ok(subtree) => {
            let cores = subtree.cores().expect("readable");
            subtree.leave();
            cores
        }
        Err(_) => None,
    };
    let Some(all) = all.filter(|cores| cores.count() >= 2) else {
        return skip(Requirement::ControlGroups, "jobs cannot be bound to one of two cores");
    };
    let count = all.count().to_string();
    let setup = Setup::default().node("n1", &["--cpus", &count, "--bind-cores", "true"]).with_groups();
    jobs_have_cores_of_their_own(setup.start());
}

#[test]
fn jobs_have_cores_of_their_own_without_control_groups() {
    let Some(count) = several_cpus() else { return };
    jobs_have_cores_of_their_own(Setup::default().node("n1", &["--cpus", &count, "--bind-cores", "true"]).start());
}

#[test]
fn jobs_are_bound_by_default_only_where_nothing_else_limits_their_cores() {
    let Some(count) = several_cpus() else { return };
    let allowed = ["sed", "-n", "s/Cpus_allowed_list:\\t//p", "/proc/self/status"];
    let is_one_core = |options: &[&str]| {
        let cluster = Setup::default().node("n1", options).start();
        cluster.submitter().lrun(&allowed).succeeded().trim().parse::<u32>().is_ok()
    };
    assert!(is_one_core(&[]));
    assert!(!is_one_core(&["--bind-cores", "false"]));
    assert!(!is_one_core(&["--cpus", &count]), "several such nodes may share a machine");
}

/// Starts and ends jobs on a node that binds them, also after a restart of the node.
fn jobs_have_cores_of_their_own(mut cluster: Cluster) {
    let submitter = cluster.submitter().clone();
    // Each job writes the cores that it may use, and waits.
    let script =
        |name: &str| format!("sed -n 's/Cpus_allowed_list:\\t//p' /proc/self/status > {name}; exec sleep 1000");
    let start = |name: &str| submitter.detach(&["sh", "-c", &script(name)]);
    let cores = |name: &str| {
        let path = submitter.path(name);
        let read = || fs::read_to_string(&path).ok()?.strip_suffix('\n')?.parse::<u32>().ok();
        until(&format!("{name} is bound to one core"), read)
    };
    let first = start("first");
    let on_first = cores("first");
    let second = start("second");
    let on_second = cores("second");
    assert_ne!(on_first, on_second);
    submitter.lq(&["cancel", &second.to_string()]).succeeded();
    submitter.wait(second);
    cluster.kill_node("n1");
    cluster.start_node("n1");
    for name in ["third", "fourth"] {
        let job = start(name);
        assert_eq!(cores(name), on_second, "the core of the job that ended, not that of the job that runs");
        submitter.lq(&["cancel", &job.to_string()]).succeeded();
        submitter.wait(job);
    }
    submitter.lq(&["cancel", &first.to_string()]).succeeded();
    submitter.wait(first);
}

#[test]
fn a_node_does_not_start_if_it_has_too_few_cores_to_bind_jobs_to() {
    let arguments =
        ["--state-dir", "state", "--master", "unix:/none", "--name", "n1", "--cpus", "65536", "--bind-cores", "true"];
    let directory = tempfile::tempdir().expect("a directory");
    let command = &mut programs::command("lslave");
    let ran = command.args(arguments).current_dir(directory.path()).output().expect("a program");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    assert!(told.contains("`bind_cores` of [containment] is not possible: "), "{told}");
}

#[test]
fn tasks_and_steps_are_bound_to_cores_of_their_own_if_they_ask_for_it() {
    let Some(count) = several_cpus() else { return };
    let cluster = Setup::default().node("n1", &["--cpus", &count]).start();
    let submitter = cluster.submitter();
    let allowed = "sed -n 's/Cpus_allowed_list:\\t//p' /proc/self/status";
    let printed = |options: &[&str], script: &str| {
        let printed = submitter.lrun(&[options, &["sh", "-c", script]].concat()).succeeded();
        printed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let unbound = printed(&[], allowed);
    assert_eq!(printed(&["-n", "2"], allowed), [unbound.clone(), unbound].concat());
    let are_two_cores = |lines: &[String]| {
        let cores: BTreeSet<u32> = lines.iter().map(|line| line.parse().expect("one core")).collect();
        assert_eq!((lines.len(), cores.len()), (2, 2), "{lines:?}");
    };
    are_two_cores(&printed(&["-n", "2", "--cpu-bind", "cores"], allowed));
    // Each step gets one of the cores of its job while the other one runs.
    let lrun = programs::path("lrun").display().to_string();
    let step = |number: u32| {
        let waits = format!("{allowed} > core{number}; until [ -s core{} ]; do sleep 0.02; done", 3 - number);
        format!("{lrun} -n 1 --cpu-bind cores sh -c '{}'", waits.replace('\'', "'\\''"))
    };
    let script = format!("{} & {}; wait; cat core1 core2", step(1), step(2));
    are_two_cores(&printed(&["-c", "2", "--cpu-bind", "cores"], &script));
}
