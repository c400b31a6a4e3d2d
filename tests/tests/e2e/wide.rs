//! Jobs over several nodes: three on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, NodeSetup, Setup, sorted_lines, until};
use serde_json::Value;

/// Starts three nodes with a policy that places jobs on several nodes.
fn three(cores: u32) -> Cluster {
    let cluster = Setup::nodes(3, cores).start();
    cluster.submitter().lconf(&["set", "policy", "easy"]).succeeded();
    cluster
}

fn pid_of(child: &std::process::Child) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process"))
}

#[test]
fn tasks_are_dealt_to_nodes_in_blocks() {
    let cluster = three(2);
    let submitter = cluster.submitter();
    let tell = "echo $LIMO_PROCID/$LIMO_LOCALID on $LIMO_NODE, $LIMO_NODEID of $LIMO_NNODES: $LIMO_NODELIST $LIMO_TASKS_PER_NODE";
    let tell = format!("echo \"{}\"", tell.trim_start_matches("echo "));
    let said = submitter.lrun(&["-N", "3", "-n", "5", "sh", "-c", &tell]).succeeded();
    let expected = "0/0 on n1, 0 of 3: n[1-3] 2(x2),1\n1/1 on n1, 0 of 3: n[1-3] 2(x2),1\n\
                    2/0 on n2, 1 of 3: n[1-3] 2(x2),1\n3/1 on n2, 1 of 3: n[1-3] 2(x2),1\n\
                    4/0 on n3, 2 of 3: n[1-3] 2(x2),1\n";
    assert_eq!(sorted_lines(&said), expected);
    // The tasks use one node each, or as few nodes as possible.
    let nodes = |options: &[&str]| {
        let all: Vec<&str> = [options, &["sh", "-c", "echo $LIMO_NODE"]].concat();
        sorted_lines(&submitter.lrun(&all).succeeded())
    };
    assert_eq!(nodes(&["-N", "2"]), "n1\nn2\n");
    assert_eq!(nodes(&["-n", "2"]), "n1\nn1\n");
    assert_eq!(nodes(&["-n", "3"]), "n1\nn1\nn2\n");
    assert_eq!(nodes(&["-n", "2", "--ntasks-per-node", "1"]), "n1\nn2\n");
    submitter.lrun(&["-N", "4", "true"]).failed("the job asks for 4 nodes: 3 could run a part of it");
    submitter
        .lrun(&["-n", "7", "true"])
        .failed("7 tasks of 1 cores do not fit: the 3 nodes that the job may use have 6 cores");
    submitter.lrun(&["-N", "3", "-n", "2", "true"]).failed("3 nodes for 2 tasks: each node needs one");
}

/// Three nodes of four cores, of which two and one are taken on the last two.
#[test]
fn packed_tasks_go_wherever_there_is_room() {
    let cluster = three(4);
    let submitter = cluster.submitter();
    let tell = "echo $LIMO_PROCID/$LIMO_LOCALID on $LIMO_NODE, $LIMO_NODEID of $LIMO_NNODES, $LIMO_TASKS_PER_NODE \
                on $LIMO_NODELIST, $LIMO_CPUS_ON_NODE cores";
    // `easy` takes the fullest nodes first, the others the first nodes.
    for (policy, dealt) in [("fifo", [4, 2, 2]), ("limo", [4, 2, 2]), ("conservative", [4, 2, 2]), ("easy", [3, 2, 3])]
    {
        submitter.lconf(&["set", "policy", policy]).succeeded();
        let others = [("n2", "2"), ("n3", "1")].map(|(node, cores)| {
            let job = submitter.detach(&["-w", node, "-c", cores, "sleep", "1000"]);
            until("it runs", || (submitter.state(job) == "running").then_some(()));
            job
        });
        let said = submitter.lrun(&["-n", "8", "--pack", "sh", "-c", tell]).succeeded();
        let per_node = if policy == "easy" { "3,2,3" } else { "4,2(x2)" };
        let (mut task, mut expected) = (0, String::new());
        for (index, count) in dealt.into_iter().enumerate() {
            for place in 0..count {
                expected +=
                    &format!("{task}/{place} on n{}, {index} of 3, {per_node} on n[1-3], {count} cores\n", index + 1);
                task += 1;
            }
        }
        assert_eq!(sorted_lines(&said), expected, "{policy}");
        others.iter().for_each(|job| drop(submitter.lq(&["cancel", &job.to_string()]).succeeded()));
        others.iter().for_each(|job| until("it is over", || (submitter.state(*job) == "cancelled").then_some(())));
    }
}

#[test]
fn a_packed_job_is_shown_and_fed_by_its_tasks() {
    let cluster = three(4);
    let submitter = cluster.submitter();
    submitter.lconf(&["set", "policy", "fifo"]).succeeded();
    // Tasks 4 to 7 are on n2; equal blocks would have 7 on n3.
    let count = "n=$(wc -l); echo $LIMO_PROCID $LIMO_NODE $n";
    let said = submitter.shell(&format!("echo one line | $LRUN -n 10 --pack -i 7 sh -c '{count}'")).succeeded();
    let expected = "0 n1 0\n1 n1 0\n2 n1 0\n3 n1 0\n4 n2 0\n5 n2 0\n6 n2 0\n7 n2 1\n8 n3 0\n9 n3 0\n";
    assert_eq!(sorted_lines(&said), expected);
    let job = submitter.detach(&["-n", "5", "-c", "2", "--pack", "--mem", "1M", "sleep", "1000"]);
    until("it runs", || (submitter.state(job) == "running").then_some(()));
    let report = submitter.job(job);
    let expected = serde_json::json!({ "tasks": 5, "tasks_per_node": [2, 2, 1] });
    assert_eq!((&report["packed"], &report["cores"]), (&expected, &serde_json::json!(2)));
    let shown = submitter.lq(&["show", &job.to_string()]).succeeded();
    for line in ["tasks        5, packed: n1 2, n2 2, n3 1", "cores        2 per task", "memory       1 MiB per task"] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    // Two cores are left, on n3.
    submitter.lrun(&["-I", "-n", "3", "--pack", "true"]).failed("refused because it could not start at once");
    submitter.lrun(&["-I", "-n", "2", "--pack", "true"]).succeeded();
    let too_many = "the job asks for 13 packed tasks: the nodes that it may use have room for 12";
    submitter.lrun(&["-n", "13", "--pack", "true"]).failed(too_many);
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
}

#[test]
fn output_of_all_nodes_comes_by_lines_and_to_files() {
    let cluster = three(2);
    let submitter = cluster.submitter();
    let script = "i=0; while [ $i -lt 300 ]; do printf '%s ' $LIMO_PROCID; printf '%s\n' $i; i=$((i+1)); done";
    let said = submitter.lrun(&["-l", "-N", "3", "-n", "6", "sh", "-c", script]).succeeded();
    let mut expected: Vec<String> =
        (0..6).flat_map(|task| (0..300).map(move |line| format!("{task}: {task} {line}"))).collect();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let script = ["sh", "-c", "echo $LIMO_PROCID; echo error $LIMO_PROCID >&2"];
    let run = |options: &[&str]| {
        let all: Vec<&str> = [&["-N", "3", "-n", "4"], options, &script[..]].concat();
        assert_eq!(submitter.lrun(&all).succeeded(), "");
    };
    std::fs::write(submitter.path("all"), "old\n").expect("written");
    run(&["-o", "all"]);
    let all = "0\n1\n2\n3\nerror 0\nerror 1\nerror 2\nerror 3\n";
    assert_eq!(sorted_lines(&submitter.read("all")), all, "the file is truncated once, before anybody writes");
    std::fs::write(submitter.path("out.n3"), "old\n").expect("written");
    run(&["-o", "out.%N", "-e", "err.%n.%t"]);
    assert_eq!(sorted_lines(&submitter.read("out.n1")), "0\n1\n");
    assert_eq!(submitter.read("out.n3"), "3\n");
    assert_eq!(submitter.read("err.1.2"), "error 2\n");
}

#[test]
fn stdin_of_some_megabytes_reaches_every_task() {
    let cluster = three(2);
    let submitter = cluster.submitter();
    let sum = "echo $(cat | sha256sum | cut -c1-16)";
    let numbers = "seq 1000000";
    let expected = submitter.shell(&format!("{numbers} | sha256sum | cut -c1-16")).succeeded();
    let said = submitter.shell(&format!("{numbers} | $LRUN -N 3 -n 4 sh -c '{sum}'")).succeeded();
    assert_eq!(said, expected.repeat(4));
    let only = "n=$(wc -l); echo $LIMO_PROCID $n";
    let said = submitter.shell(&format!("{numbers} | $LRUN -N 3 -n 4 -i 3 sh -c '{only}'")).succeeded();
    assert_eq!(sorted_lines(&said), "0 0\n1 0\n2 0\n3 1000000\n");
    // A node with finished tasks does not block the others.
    let script = "[ $LIMO_NODEID = 1 ] || { n=$(wc -l); echo $LIMO_PROCID $n; }";
    let said = submitter.shell(&format!("{numbers} | $LRUN -N 3 sh -c '{script}'")).succeeded();
    assert_eq!(sorted_lines(&said), "0 1000000\n2 1000000\n");
}

#[test]
fn the_highest_code_of_all_nodes_counts() {
    let cluster = three(1);
    let submitter = cluster.submitter();
    let ran = submitter.lrun(&["-N", "3", "sh", "-c", "[ $LIMO_PROCID = 1 ] && exit 9; exit $LIMO_PROCID"]);
    assert_eq!(ran.code, Some(9), "{ran:?}");
    assert_eq!(sorted_lines(&ran.stderr), "limo: n2: task 1: exit code 9\nlimo: n3: task 2: exit code 2\n");
    let job: Value = submitter.show(&[1])[0].clone();
    assert_eq!(job["nodes"], serde_json::json!(["n1", "n2", "n3"]), "{job}");
    // A failing task ends the others if requested, also on other nodes.
    let ran = submitter.lrun(&["-N", "3", "-K", "-Q", "sh", "-c", "[ $LIMO_PROCID = 2 ] && exit 3; exec sleep 1000"]);
    assert_eq!(ran.code, Some(143), "{ran:?}");
    let missing = submitter.lrun(&["-N", "3", "no-such-command"]);
    assert!(missing.code == Some(127) && missing.stderr.contains("command not found: no-such-command"), "{missing:?}");
}

#[test]
fn signals_reach_all_nodes_and_cancelling_ends_all() {
    let cluster = three(1);
    let submitter = cluster.submitter();
    let script = "trap 'echo got $LIMO_PROCID; exit 0' USR1; echo ready; while :; do sleep 0.1; done";
    let mut lrun = submitter.spawn_lrun(&["-N", "3", "sh", "-c", script]);
    let mut stdout = BufReader::new(lrun.stdout.take().expect("piped"));
    let mut said = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut said).expect("readable");
    }
    assert_eq!(said, "ready\nready\nready\n");
    nix::sys::signal::kill(pid_of(&lrun), nix::sys::signal::Signal::SIGUSR1).expect("it runs");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("readable");
    assert_eq!(sorted_lines(&rest), "got 0\ngot 1\ngot 2\n");
    assert_eq!(lrun.wait().expect("a child").code(), Some(0));
    let job = submitter.detach(&["-N", "3", "sleep", "1000"]);
    until("it runs", || (cluster.job_processes().len() >= 6).then_some(()));
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    assert_eq!(submitter.wait(job), Some(143));
    until("nothing is left", || cluster.job_processes().is_empty().then_some(()));
}

#[test]
fn a_part_whose_shepherd_is_killed_ends_the_job_everywhere() {
    let cluster = three(1);
    let submitter = cluster.submitter().clone();
    let mut lrun = submitter.spawn_lrun(&["-N", "3", "sh", "-c", "echo ready; exec sleep 1000"]);
    let mut stdout = BufReader::new(lrun.stdout.take().expect("piped"));
    let mut said = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut said).expect("readable");
    }
    cluster.kill_shepherds("n2");
    assert_eq!(lrun.wait().expect("a child").code(), Some(125), "lost");
    until("nothing is left", || cluster.job_processes().is_empty().then_some(()));
    let job = &submitter.show(&[1])[0];
    assert_eq!(job["state"], "lost", "{job}");
    // The nodes are free again.
    assert_eq!(submitter.lrun(&["-N", "3", "echo", "a"]).succeeded(), "a\na\na\n");
}

#[test]
fn a_job_outlives_a_master_that_is_killed() {
    let mut cluster = three(1);
    let submitter = cluster.submitter().clone();
    let mut lrun = submitter.spawn_lrun(&["-Q", "-l", "-N", "3", "cat"]);
    let mut stdin = lrun.stdin.take().expect("piped");
    let mut stdout = BufReader::new(lrun.stdout.take().expect("piped"));
    stdin.write_all(b"before\n").expect("writable");
    let mut said = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut said).expect("readable");
    }
    cluster.kill_master();
    stdin.write_all(b"meanwhile\n").expect("writable");
    cluster.start_master();
    stdin.write_all(b"after\n").expect("writable");
    drop(stdin);
    stdout.read_to_string(&mut said).expect("readable");
    let line = |task| format!("{task}: after\n{task}: before\n{task}: meanwhile\n");
    assert_eq!(sorted_lines(&said), (0..3).map(line).collect::<String>());
    assert_eq!(lrun.wait().expect("a child").code(), Some(0));
}

/// Checks that the ends of parts survive the master, and count once.
#[test]
fn a_part_that_ended_before_the_master_was_killed_is_not_forgotten() {
    let mut cluster = three(1);
    let submitter = cluster.submitter().clone();
    let script = "[ $LIMO_PROCID = 1 ] && exit 7; while [ ! -e go ]; do sleep 0.1; done; echo $LIMO_PROCID";
    let mut lrun = submitter.spawn_lrun(&["-Q", "-N", "3", "sh", "-c", script]);
    until("one has ended", || {
        (cluster.job_processes().iter().filter(|process| process.is_called("sh")).count() == 2).then_some(())
    });
    cluster.kill_master();
    std::fs::write(submitter.path("go"), "").expect("written");
    until("all have ended", || cluster.job_processes().is_empty().then_some(()));
    cluster.start_master();
    let mut said = String::new();
    lrun.stdout.take().expect("piped").read_to_string(&mut said).expect("readable");
    assert_eq!(sorted_lines(&said), "0\n2\n");
    assert_eq!(lrun.wait().expect("a child").code(), Some(7));
    let ended = submitter.show(&[1])[0]["exit_code"].clone();
    assert_eq!(ended, 7);
}

#[test]
fn a_node_that_refuses_takes_the_whole_attempt_back() {
    let mut cluster = Setup::nodes(1, 1).start();
    cluster.submitter().lconf(&["set", "policy", "easy"]).succeeded();
    let disk = cluster.state_dir().parent().expect("the cluster's").join("small");
    std::fs::create_dir(&disk).expect("made");
    let options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"];
    let mount = Command::new("mount").args(options).arg(&disk).output().expect("mount runs");
    if !mount.status.success() {
        let why = String::from_utf8_lossy(&mount.stderr).into_owned();
        return skip(Requirement::SmallDisk, &why);
    }
    let state = disk.join("state").display().to_string();
    for (name, options) in [("n2", vec!["--cpus", "1", "--state-dir", &state]), ("n3", vec!["--cpus", "1"])] {
        let options = options.into_iter().map(str::to_owned).collect();
        cluster.add_node(&NodeSetup { name: name.into(), options });
        cluster.await_node(name);
    }
    // Records of jobs can no longer be written: a job as large as this one does not fit into the remaining part of a
    // page.
    let mut filler = Vec::new();
    while std::fs::write(disk.join("filler"), &filler).is_ok() {
        filler.extend([0; 4096]);
    }
    let submitter = cluster.submitter();
    let script = format!("echo $LIMO_NODE #{}", "x".repeat(8_192));
    // The other two nodes are not suspect, and the job fits on them.
    assert_eq!(submitter.lrun(&["-N", "2", "sh", "-c", &script]).succeeded().lines().count(), 2);
    let job = &submitter.show(&[1])[0];
    assert_eq!(job["nodes"], serde_json::json!(["n1", "n3"]), "{job}");
    until("nothing is left", || cluster.job_processes().is_empty().then_some(()));
    let unmount = Command::new("umount").arg("-l").arg(&disk).status().expect("umount runs");
    assert!(unmount.success());
}
