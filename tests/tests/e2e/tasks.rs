//! Jobs of several tasks on one node: their environment, their streams, their signals and their end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Instant;

use limo_tests::{Cluster, Ran, sorted_lines};
use nix::sys::signal::Signal;

#[test]
fn each_task_knows_which_it_is() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let tell = "echo $LIMO_PROCID/$LIMO_LOCALID of $LIMO_NTASKS on $LIMO_NODELIST ($LIMO_NODEID of $LIMO_NNODES), \
                $LIMO_TASKS_PER_NODE a node, $LIMO_CPUS_PER_TASK of $LIMO_CPUS_ON_NODE cores";
    let tell = format!("echo \"{}\"", tell.trim_start_matches("echo "));
    let said = submitter.lrun(&["-n", "2", "-c", "2", "sh", "-c", &tell]).succeeded();
    let expected = "0/0 of 2 on n1 (0 of 1), 2 a node, 2 of 4 cores\n1/1 of 2 on n1 (0 of 1), 2 a node, 2 of 4 cores\n";
    assert_eq!(sorted_lines(&said), expected);
    let one = submitter.lrun(&["sh", "-c", &tell]).succeeded();
    assert_eq!(one, "0/0 of 1 on n1 (0 of 1), 1 a node, 1 of 1 cores\n");
}

#[test]
fn lines_stay_whole_and_bear_their_labels() {
    let cluster = Cluster::of_one_node(12);
    let submitter = cluster.submitter();
    // Each line takes two writes, so lines would mix if they were not joined.
    let script =
        "i=0; while [ $i -lt 200 ]; do printf 'task %s ' $LIMO_PROCID; printf 'line %s\n' $i; i=$((i+1)); done";
    let said = submitter.lrun(&["-n", "4", "sh", "-c", script]).succeeded();
    let mut expected: Vec<String> =
        (0..4).flat_map(|task| (0..200).map(move |line| format!("task {task} line {line}"))).collect();
    let mut lines: Vec<&str> = said.lines().collect();
    for task in 0..4 {
        let own: Vec<&&str> = lines.iter().filter(|line| line.starts_with(&format!("task {task}"))).collect();
        assert!(own.iter().enumerate().all(|(at, line)| line.ends_with(&format!(" {at}"))), "in order");
    }
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let ran =
        submitter.lrun(&["-l", "-n", "12", "sh", "-c", "echo out; [ $LIMO_PROCID = 7 ] && printf 'no end' >&2; :"]);
    let labels: String = (0..12).map(|task| format!("{task:>2}: out\n")).collect();
    assert_eq!(
        (ran.code, sorted_lines(&ran.stdout), ran.stderr.as_str()),
        (Some(0), sorted_lines(&labels), " 7: no end\n")
    );
    assert_eq!(submitter.lrun(&["-l", "echo", "one"]).succeeded(), "0: one\n");
    assert_eq!(submitter.lrun(&["-n", "2", "printf", "x"]).succeeded(), "xx", "nothing is added without a label");
}

#[test]
fn stdin_is_for_all_or_for_one() {
    let cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter();
    let with = |options: &str, command: &str| {
        submitter.shell(&format!("seq 200000 | $LRUN -n 3 {options} sh -c '{command}'")).succeeded()
    };
    let sum = "echo $LIMO_PROCID $(cat | sha256sum | cut -c1-8)";
    let of_all = submitter.shell("seq 200000 | sha256sum | cut -c1-8").succeeded();
    let of_none = submitter.shell("sha256sum < /dev/null | cut -c1-8").succeeded();
    let expected = |readers: [bool; 3]| -> String {
        let line = |(task, reads)| format!("{task} {}", if reads { &of_all } else { &of_none });
        readers.into_iter().enumerate().map(line).collect()
    };
    assert_eq!(sorted_lines(&with("", sum)), expected([true, true, true]));
    assert_eq!(sorted_lines(&with("-i all", sum)), expected([true, true, true]));
    assert_eq!(sorted_lines(&with("-i 1", sum)), expected([false, true, false]));
    assert_eq!(sorted_lines(&with("-i none", sum)), expected([false, false, false]));
    // A task that does not read its stdin does not block the others.
    assert_eq!(sorted_lines(&with("", &format!("[ $LIMO_PROCID = 1 ] || {sum}"))), { format!("0 {of_all}2 {of_all}") });
    fs::write(submitter.path("in"), "from a file\n").expect("written");
    let said = submitter.lrun(&["-n", "3", "-i", "in", "cat"]).succeeded();
    assert_eq!(said, "from a file\n".repeat(3), "each reads it from its beginning");
    submitter.lrun(&["-n", "3", "-i", "3", "cat"]).failed("--input 3: the tasks are 0 to 2");
}

#[test]
fn files_are_shared_or_each_tasks_own() {
    let cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter();
    let script = ["sh", "-c", "echo out $LIMO_PROCID; echo err $LIMO_PROCID >&2"];
    let run = |options: &[&str]| {
        let all: Vec<&str> = [&["-n", "3"], options, &script[..]].concat();
        let ran = submitter.lrun(&all);
        assert_eq!(ran, Ran { code: Some(0), stdout: String::new(), stderr: String::new() }, "{options:?}");
    };
    fs::write(submitter.path("all"), "old\n").expect("written");
    run(&["-l", "-o", "all"]);
    let shared = "0: err 0\n0: out 0\n1: err 1\n1: out 1\n2: err 2\n2: out 2\n";
    assert_eq!(sorted_lines(&submitter.read("all")), shared);
    run(&["-o", "out.%t", "-e", "err.%n.%2t"]);
    for task in 0..3 {
        assert_eq!(submitter.read(format!("out.{task}")), format!("out {task}\n"));
        assert_eq!(submitter.read(format!("err.0.0{task}")), format!("err {task}\n"));
    }
    run(&["-o", "both.%t"]);
    assert_eq!(submitter.read("both.2"), "out 2\nerr 2\n");
    run(&["-o", "both.%t", "--open-mode", "append"]);
    assert_eq!(submitter.read("both.1"), "out 1\nerr 1\nout 1\nerr 1\n");
    let job = submitter.detach(&["-n", "2", "sh", "-c", "echo $LIMO_PROCID"]);
    assert_eq!(submitter.wait(job), Some(0));
    assert_eq!(sorted_lines(&submitter.read(format!("limo-{job}.out"))), "0\n1\n");
}

#[test]
fn the_highest_code_is_the_jobs() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let check = |options: &[&str], script: &str, code: i32, stdout: &str, stderr: &str| {
        let all: Vec<&str> = [&["-n", "4"], options, &["sh", "-c", script]].concat();
        let ran = submitter.lrun(&all);
        let ran = (ran.code, sorted_lines(&ran.stdout), ran.stderr);
        assert_eq!(ran, (Some(code), stdout.to_owned(), stderr.to_owned()), "{script}");
    };
    check(
        &[],
        "exit $LIMO_PROCID",
        3,
        "",
        "limo: n1: task 1: exit code 1\nlimo: n1: task 2: exit code 2\nlimo: n1: task 3: exit code 3\n",
    );
    // The failure of a task does not affect the others.
    check(&["-Q"], "[ $LIMO_PROCID = 1 ] && exit 9; echo $LIMO_PROCID", 9, "0\n2\n3\n", "");
    check(&["-Q"], "[ $LIMO_PROCID = 1 ] && kill -USR1 $$; [ $LIMO_PROCID = 2 ] && exit 7; :", 138, "", "");
    let missing = submitter.lrun(&["-n", "2", "no-such-command"]);
    assert!(
        missing.code == Some(127) && missing.stderr.contains("task 1: command not found: no-such-command"),
        "{missing:?}"
    );
}

#[test]
fn one_that_fails_ends_the_others_where_that_is_asked_for() {
    let cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter();
    let begun = Instant::now();
    let script = "[ $LIMO_PROCID = 1 ] && exit 3; exec sleep 1000";
    let ran = submitter.lrun(&["-n", "3", "-K", "sh", "-c", script]);
    assert_eq!(ran.code, Some(143), "{ran:?}");
    assert!(
        ran.stderr.contains("task 1: exit code 3") && ran.stderr.contains("tasks 0,2: ended by SIGTERM"),
        "{ran:?}"
    );
    // A task that ignores TERM is killed after the grace.
    let script = "[ $LIMO_PROCID = 1 ] && { until [ -e ready.0 ] && [ -e ready.2 ]; do sleep 0.05; done; exit 3; }
                  trap '' TERM; touch ready.$LIMO_PROCID; while :; do sleep 1000; done";
    let ran = submitter.lrun(&["-n", "3", "-K", "--kill-grace", "1s", "sh", "-c", script]);
    assert_eq!(ran.code, Some(137), "{ran:?}");
    assert!(begun.elapsed().as_secs() < 300, "nothing waited for the sleeps");
}

#[test]
fn an_interrupt_asks_then_reaches_all_then_kills() {
    let cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter();
    let script = "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.1; done";
    let mut lrun = submitter
        .command("lrun", &["-n", "3", "--kill-grace", "1s", "sh", "-c", script])
        .stdin(Stdio::null())
        .spawn()
        .expect("a program that is built");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(lrun.id()).expect("a process"));
    let mut stdout = BufReader::new(lrun.stdout.take().expect("piped"));
    let mut stderr = BufReader::new(lrun.stderr.take().expect("piped"));
    let mut lines = |count: usize, expected: &str| {
        for _ in 0..count {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("readable");
            assert_eq!(line, expected);
        }
    };
    lines(3, "ready\n");
    let interrupt = || nix::sys::signal::kill(pid, Signal::SIGINT).expect("it runs");
    let mut asked = || {
        let mut line = String::new();
        stderr.read_line(&mut line).expect("readable");
        assert_eq!(line, "lrun: 3 tasks run on n1: interrupt again within 1 s to signal them\n");
    };
    // On a busy machine the second signal may come too late, and then counts as a first one.
    let mut tries = 0;
    loop {
        interrupt();
        asked();
        let begun = Instant::now();
        interrupt();
        if begun.elapsed().as_millis() < 300 {
            break;
        }
        tries += 1;
        assert!(tries < 20, "the machine is too slow");
    }
    lines(3, "interrupted\n");
    // The signals come one after the other, until the third comes within a second.
    let status = limo_tests::until("it ends", || {
        interrupt();
        lrun.try_wait().expect("a child")
    });
    assert_eq!(status.code(), Some(143));
}

#[test]
fn a_signal_reaches_every_task_and_cancelling_ends_them() {
    let cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter();
    let script = "trap 'echo got $LIMO_PROCID; exit 0' USR1; echo ready; while :; do sleep 0.1; done";
    let mut lrun = submitter.spawn_lrun(&["-n", "3", "sh", "-c", script]);
    let mut stdout = BufReader::new(lrun.stdout.take().expect("piped"));
    let mut line = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut line).expect("readable");
    }
    assert_eq!(line, "ready\nready\nready\n");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(lrun.id()).expect("a process"));
    nix::sys::signal::kill(pid, Signal::SIGUSR1).expect("it runs");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).expect("readable");
    assert_eq!(sorted_lines(&rest), "got 0\ngot 1\ngot 2\n");
    assert_eq!(lrun.wait().expect("a child").code(), Some(0));
    let job = submitter.detach(&["-n", "3", "sleep", "1000"]);
    limo_tests::until("it runs", || (cluster.job_processes().len() >= 4).then_some(()));
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    assert_eq!(submitter.wait(job), Some(143));
    limo_tests::until("nothing is left", || cluster.job_processes().is_empty().then_some(()));
}

#[test]
fn what_cannot_be_is_refused() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let no_room = "5 tasks of 1 cores do not fit: the 1 nodes that the job may use have 4 cores";
    submitter.lrun(&["-n", "5", "true"]).failed(no_room);
    submitter.lrun(&["-n", "3", "-c", "2", "--dry-run", "true"]).failed("3 tasks of 2 cores do not fit");
    let ran = submitter.lrun(&["-n", "0", "true"]);
    assert!(ran.code == Some(125) && ran.stderr.contains("'0' for '--ntasks <N>'"), "{ran:?}");
    let ran = submitter.lrun(&["-n", "3", "-c", "1", "--dry-run", "true"]);
    assert!(ran.stdout.starts_with("would start now on n1"), "{ran:?}");
}

#[test]
fn the_streams_of_many_tasks_survive_a_master_that_is_killed() {
    let mut cluster = Cluster::of_one_node(3);
    let submitter = cluster.submitter().clone();
    let mut lrun = submitter.spawn_lrun(&["-n", "3", "-Q", "cat"]);
    let mut stdin = lrun.stdin.take().expect("piped");
    let stdout = lrun.stdout.take().expect("piped");
    stdin.write_all(b"before\n").expect("writable");
    let mut stdout = BufReader::new(stdout);
    let mut said = String::new();
    for _ in 0..3 {
        stdout.read_line(&mut said).expect("readable");
    }
    cluster.kill_master();
    cluster.start_master();
    stdin.write_all(b"after\n").expect("writable");
    drop(stdin);
    std::io::Read::read_to_string(&mut stdout, &mut said).expect("readable");
    assert_eq!(sorted_lines(&said), "after\nafter\nafter\nbefore\nbefore\nbefore\n");
    assert_eq!(lrun.wait().expect("a child").code(), Some(0));
}
