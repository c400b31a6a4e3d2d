//! Real control groups, in each version that the machine has.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use limo_containment::{ContainError, Controller, Cores, Group, Limits, Mounts, Place, Subtree};
use limo_requirements::{Requirement, skip};

const PATIENCE: Duration = Duration::from_secs(20);

/// A subtree for one test, which is removed at its end.
struct Bench {
    subtree: Subtree,
    place: String,
    mounts: Mounts,
}

impl Drop for Bench {
    fn drop(&mut self) {
        for name in self.subtree.names().unwrap_or_default() {
            if let Some(group) = self.subtree.find(&name) {
                let _ = group.kill(PATIENCE);
                let _ = group.close();
            }
        }
        self.subtree.leave();
    }
}

/// The hierarchies that groups may use.
#[derive(Clone, Copy)]
enum Only {
    Both,
    V1,
    V2,
}

fn bench(test: &str, only: Only) -> Option<Bench> {
    let found = Mounts::find().expect("a list of mounts");
    let mounts = match only {
        Only::Both => found,
        Only::V1 => Mounts { unified: None, ..found },
        Only::V2 => Mounts { v1: Default::default(), ..found },
    };
    let place = format!("/limo-test-{}-{test}", std::process::id());
    match Subtree::open(&mounts, Place::Own(&place), "node", &Controller::ALL) {
        Ok(subtree) => Some(Bench { subtree, place, mounts }),
        Err(error) => {
            skip(Requirement::ControlGroups, &error.to_string());
            None
        }
    }
}

/// Starts a shell with this script in the group. It begins when it is in the group.
fn shell(group: &Group, script: &str) -> Child {
    let mut command = Command::new("sh");
    let mut child = command.args(["-c", &format!("read go; {script}")]).stdin(Stdio::piped()).spawn().expect("a shell");
    for directory in group.directories() {
        let directory = String::from_utf8(directory).expect("UTF-8");
        let path = PathBuf::from(directory.split_once('=').expect("a path").1);
        fs::write(path.join("cgroup.procs"), child.id().to_string()).expect("the shell enters");
    }
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("the shell reads");
    child
}

/// Waits until a condition holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < end, "not in time: {what}");
        std::thread::yield_now();
    }
}

fn all_kinds(test: &str, check: impl Fn(Bench)) {
    for (name, only) in [("both", Only::Both), ("v1", Only::V1), ("v2", Only::V2)] {
        if let Some(bench) = bench(&format!("{test}-{name}"), only) {
            check(bench);
        }
    }
}

#[test]
fn a_killed_group_leaves_no_process_even_in_other_sessions() {
    all_kinds("kill", |bench| {
        let group = bench.subtree.make("7.1", &Limits::default()).expect("made");
        assert!(group.is_empty().expect("readable"));
        let mut child = shell(&group, "setsid sh -c '(sleep 1000 &) ; sleep 1000' & env -i setsid sleep 1000 & wait");
        until("a process is in the group", || !group.is_empty().expect("readable"));
        assert!(matches!(group.close(), Err(ContainError::Busy { .. })), "{}", bench.place);
        assert_eq!(group.kill(PATIENCE).expect("killed"), 0);
        assert!(group.is_empty().expect("readable"));
        assert_eq!(child.wait().expect("a child").signal(), Some(9));
        group.close().expect("removed");
        assert_eq!(bench.subtree.find("7.1"), None);
    });
}

#[test]
fn a_frozen_group_stands_still_and_continues() {
    all_kinds("freeze", |bench| {
        let group = bench.subtree.make("7.1", &Limits::default()).expect("made");
        if !group.can_freeze() {
            return skip(Requirement::ControlGroups, "no control group can be frozen");
        }
        let mut child = shell(&group, "while :; do :; done");
        until("it uses the CPU", || {
            let usage = group.usage().expect("readable");
            usage.is_none_or(|usage| usage.user_cpu > 0)
        });
        assert!(group.freeze(true).expect("frozen"));
        // The kernel freezes a process at its next instruction in user mode: then its CPU time stands still.
        let ticks = || fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("readable");
        until("it stands still", || {
            let (before, end) = (ticks(), std::time::Instant::now() + Duration::from_millis(100));
            while std::time::Instant::now() < end {
                std::thread::yield_now();
            }
            ticks() == before
        });
        let frozen = ticks();
        assert!(group.freeze(false).expect("thawed"));
        until("it continues", || ticks() != frozen);
        group.freeze(true).expect("frozen");
        assert_eq!(group.kill(PATIENCE).expect("killed, though frozen"), 0);
        assert_eq!(child.wait().expect("a child").signal(), Some(9));
    });
}

#[test]
fn limits_of_the_request_are_written() {
    all_kinds("limits", |bench| {
        let limits = Limits { memory: Some(64 << 20), cpus: Some(1), processes: Some(20), cores: None };
        let group = bench.subtree.make("7.1", &limits).expect("made");
        let read = |controller: Controller, v1: &str, v2: &str| {
            let below = format!("{}/node/7.1", bench.place);
            let v1 = bench.mounts.v1.get(&controller).map(|mount| format!("{}{below}/{v1}", mount.display()));
            let v2 = bench.mounts.unified.as_ref().map(|mount| format!("{}{below}/{v2}", mount.display()));
            v2.into_iter().chain(v1).find_map(|path| fs::read_to_string(path).ok()).map(|text| text.trim().to_owned())
        };
        let strength = bench.subtree.strength();
        let check = |found: Option<String>, is_limited: bool, expected: &[&str]| match is_limited {
            true => assert!(found.as_deref().is_some_and(|found| expected.contains(&found)), "{found:?}"),
            false => skip(Requirement::ControlGroups, &format!("no hierarchy of this kind limits {expected:?}")),
        };
        check(read(Controller::Memory, "memory.limit_in_bytes", "memory.max"), strength.memory, &["67108864"]);
        check(read(Controller::Cpu, "cpu.cfs_quota_us", "cpu.max"), strength.cpu, &["100000", "100000 100000"]);
        check(read(Controller::Pids, "pids.max", "pids.max"), strength.processes, &["20"]);
        group.close().expect("removed");
    });
}

#[test]
fn a_group_above_its_memory_is_known_and_its_neighbour_is_not_touched() {
    let Some(bench) = bench("memory", Only::Both) else { return };
    if !bench.subtree.strength().memory {
        return skip(Requirement::ControlGroups, "no hierarchy limits memory");
    }
    let limits = Limits { memory: Some(32 << 20), ..Limits::default() };
    let [group, neighbour] = ["7.1", "8.1"].map(|name| bench.subtree.make(name, &limits).expect("made"));
    let mut other = shell(&neighbour, "sleep 1000");
    let hungry = "exec perl -e '$x = \"x\" x (256 << 20); sleep 1000'";
    let mut child = shell(&group, hungry);
    assert_eq!(child.wait().expect("a child").signal(), Some(9));
    assert_eq!(group.exceeded_memory().expect("readable"), Some(32 << 20));
    assert_eq!(neighbour.exceeded_memory().expect("readable"), None);
    // Kernels before 5.19 do not count it in version 2.
    if let Some(peak) = group.peak_memory().expect("readable") {
        assert!((31 << 20..=33 << 20).contains(&peak), "{peak}");
        let peak = neighbour.peak_memory().expect("readable").expect("counted, too");
        assert!((1..16 << 20).contains(&peak), "{peak}");
    }
    assert!(other.try_wait().expect("a child").is_none(), "the neighbour runs");
    assert_eq!(neighbour.kill(PATIENCE).expect("killed"), 0);
    other.wait().expect("a child");
}

#[test]
fn a_process_that_is_killed_below_the_limit_has_not_exceeded_it() {
    let Some(bench) = bench("below-limit", Only::Both) else { return };
    if !bench.subtree.strength().memory {
        return skip(Requirement::ControlGroups, "no hierarchy limits memory");
    }
    // The kernel kills the process because of the limit of the group above, not of its own one.
    let limits = |mib: u64| Limits { memory: Some(mib << 20), ..Limits::default() };
    let above = bench.subtree.make("7.1", &limits(32)).expect("made");
    let own: Vec<Vec<u8>> = above.directories().into_iter().map(|path| [path, b"/own".to_vec()].concat()).collect();
    let own = Group::of(own.iter().map(Vec::as_slice)).expect("valid").expect("directories");
    for directory in own.directories() {
        let directory = String::from_utf8(directory).expect("UTF-8");
        let path = PathBuf::from(directory.split_once('=').expect("a path").1);
        fs::create_dir(&path).expect("made");
        for file in
            ["memory.limit_in_bytes", "memory.max"].map(|name| path.join(name)).iter().filter(|file| file.exists())
        {
            fs::write(file, (128 << 20).to_string()).expect("a higher limit");
        }
    }
    let mut child = shell(&own, "exec perl -e '$x = \"x\" x (256 << 20); sleep 1000'");
    assert_eq!(child.wait().expect("a child").signal(), Some(9));
    assert_eq!(own.exceeded_memory().expect("readable"), None);
}

#[test]
fn a_script_and_a_step_have_together_the_memory_of_their_job() {
    let Some(bench) = bench("together", Only::Both) else { return };
    if !bench.subtree.strength().memory {
        return skip(Requirement::ControlGroups, "no hierarchy limits memory");
    }
    let limits = |mib: u64| Limits { memory: Some(mib << 20), ..Limits::default() };
    let script = bench.subtree.make_job("7.1", &limits(64)).expect("made");
    let step = bench.subtree.make_step("7.1", "8.1", &limits(60)).expect("made");
    assert_eq!(bench.subtree.find("7.1"), Some(script.clone()));
    assert!(bench.subtree.find("8.1").is_some());
    assert_eq!(bench.subtree.names().expect("readable").into_iter().collect::<Vec<_>>(), ["7.1", "8.1"]);
    let take = "exec perl -e '$x = \"x\" x (20 << 20); sleep 1000'";
    let mut first = shell(&script, take);
    until("the script has its memory", || {
        script.present_memory().expect("readable").is_none_or(|bytes| bytes >= 40 << 20)
    });
    // Alone it would fit.
    let mut second = shell(&step, "exec perl -e '$x = \"x\" x (25 << 20); sleep 1000'");
    let mut ended = None;
    until("one of them is killed", || {
        let over = [(&mut first, &script), (&mut second, &step)].into_iter().find_map(|(child, group)| {
            let status = child.try_wait().expect("a child")?;
            Some((status.signal(), group.exceeded_memory().expect("readable")))
        });
        ended = over;
        over.is_some()
    });
    assert_eq!(ended, Some((Some(9), Some(64 << 20))), "the limit of the job ended it");
    for (child, group) in [(&mut first, &script), (&mut second, &step)] {
        assert_eq!(group.kill(PATIENCE).expect("killed"), 0);
        child.wait().expect("a child");
    }
    script.close().expect("removed");
    assert!(bench.subtree.names().expect("readable").contains("8.1"), "the step is still there");
    assert_eq!(bench.subtree.find("7.1"), None, "its own processes are gone");
    step.close().expect("removed");
    assert!(bench.subtree.names().expect("readable").is_empty(), "the group of the job is removed with its last one");
}

#[test]
fn steps_of_a_job_of_an_earlier_version_are_beside_it() {
    all_kinds("earlier", |bench| {
        let job = bench.subtree.make("7.1", &Limits::default()).expect("made");
        assert_eq!(bench.subtree.find("7.1").as_ref(), Some(&job));
        let step = bench.subtree.make_step("7.1", "8.1", &Limits::default()).expect("made");
        assert_eq!(bench.subtree.find("8.1").as_ref(), Some(&step));
        job.close().expect("removed");
        assert_eq!(bench.subtree.find("8.1"), Some(step), "it needs no group above it");
    });
}

#[test]
fn a_step_is_bound_within_the_cores_of_its_job() {
    all_kinds("bound-step", |bench| {
        let Some(all) = bench.subtree.cores().expect("readable") else {
            return skip(Requirement::ControlGroups, "no hierarchy of this kind binds to cores");
        };
        let limits = Limits { cores: Some(all.numbers().take(1).collect()), ..Limits::default() };
        let script = bench.subtree.make_job("7.1", &limits).expect("made");
        assert_eq!(script.cores().expect("readable"), limits.cores);
        let step = bench.subtree.make_step("7.1", "8.1", &limits).expect("made");
        assert_eq!(step.cores().expect("readable"), limits.cores);
        for group in [&script, &step] {
            let mut child = shell(group, "true");
            assert!(child.wait().expect("a child").success());
        }
    });
}

#[test]
fn a_bound_group_has_its_own_cores() {
    all_kinds("bound", |bench| {
        let Some(all) = bench.subtree.cores().expect("readable") else {
            return skip(Requirement::ControlGroups, "no hierarchy of this kind binds to cores");
        };
        let first = all.numbers().take(1).collect();
        let limits = |cores: &Cores| Limits { cores: Some(cores.clone()), ..Limits::default() };
        let group = bench.subtree.make("7.1", &limits(&first)).expect("made");
        assert_eq!(group.cores().expect("readable"), Some(first.clone()));
        let allowed = |group: &Group| {
            let mut child = shell(group, "sleep 1000");
            let text = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("readable");
            let list = text.lines().find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()));
            assert_eq!(group.kill(PATIENCE).expect("killed"), 0);
            child.wait().expect("a child");
            list.expect("a list")
        };
        assert_eq!(allowed(&group), first.to_string());
        let unbound = bench.subtree.make("8.1", &Limits::default()).expect("made");
        assert_eq!((unbound.cores().expect("readable"), allowed(&unbound)), (None, all.to_string()));
    });
}

#[test]
fn cpu_time_of_all_processes_is_counted() {
    all_kinds("usage", |bench| {
        let group = bench.subtree.make("7.1", &Limits::default()).expect("made");
        // The process that uses the CPU is not awaited by the shell.
        let mut child = shell(&group, "setsid sh -c 'while :; do :; done' & ");
        child.wait().expect("a child");
        until("200 ms of CPU time", || match group.usage().expect("readable") {
            Some(usage) => usage.user_cpu + usage.system_cpu > 200,
            None => true,
        });
        assert_eq!(group.kill(PATIENCE).expect("killed"), 0);
    });
}

#[test]
fn a_name_is_used_again_only_without_processes_and_with_new_counters() {
    all_kinds("again", |bench| {
        let make = || bench.subtree.make("7.1", &Limits { processes: Some(5), ..Limits::default() });
        let group = make().expect("made");
        let mut child = shell(&group, "sleep 1000");
        let busy = make().expect_err("it has a process");
        assert!(matches!(&busy, ContainError::Busy { .. }), "{busy}");
        assert_eq!(bench.subtree.names().expect("readable").into_iter().collect::<Vec<_>>(), ["7.1"]);
        assert_eq!(group.kill(PATIENCE).expect("killed"), 0);
        child.wait().expect("a child");
        let again = make().expect("made again");
        if let Some(usage) = again.usage().expect("readable") {
            assert_eq!(usage.user_cpu, 0, "the counters are new");
        }
    });
}

#[test]
fn groups_that_a_job_made_below_its_own_are_killed_and_removed() {
    all_kinds("below", |bench| {
        let group = bench.subtree.make("7.1", &Limits::default()).expect("made");
        let mut child = shell(&group, "sleep 1000");
        for directory in group.directories() {
            let directory = String::from_utf8(directory).expect("UTF-8");
            let path = PathBuf::from(directory.split_once('=').expect("a path").1).join("a").join("b");
            fs::create_dir_all(&path).expect("made");
            fs::write(path.join("cgroup.procs"), child.id().to_string()).expect("it moves");
        }
        assert!(!group.is_empty().expect("readable"));
        assert_eq!(group.kill(PATIENCE).expect("killed"), 0);
        child.wait().expect("a child");
        group.close().expect("removed");
        assert_eq!(bench.subtree.find("7.1"), None);
    });
}

#[test]
fn refused_limits_name_file_and_value_and_leave_nothing_behind() {
    let Some(bench) = bench("refused", Only::Both) else { return };
    if !bench.subtree.strength().cpu {
        return skip(Requirement::ControlGroups, "no hierarchy limits CPU time");
    }
    // The kernel allows quotas up to some 203 days.
    let limits = Limits { cpus: Some(u32::MAX), ..Limits::default() };
    let error = bench.subtree.make("7.1", &limits).expect_err("too many CPUs").to_string();
    assert!(error.contains("429496729500000") && error.contains("/7.1/cpu."), "{error}");
    assert_eq!(bench.subtree.find("7.1"), None);
    let wrong = Subtree::open(&bench.mounts, Place::Delegated("limo"), "node", &[]).expect_err("no path").to_string();
    assert_eq!(wrong, "`limo` is not the path of a control group as in /proc/PID/cgroup, for example `/limo`");
    let none = Subtree::open(&Mounts::default(), Place::Own("/limo"), "node", &[]).expect_err("no mounts");
    assert!(matches!(none, ContainError::NotMounted), "{none}");
}
