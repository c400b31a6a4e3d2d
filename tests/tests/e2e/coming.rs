//! The pages for users of another workload manager: the test types every command of Limo in their tables as written.
//! `JOB` is the number of a suitable job, and `ARRAY` that of an array with running tasks.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Ran, Setup, Submitter, programs, until};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/newcomer.toml");

/// Commands that run until interrupted; the test interrupts them after some seconds.
const ENDLESS: [&str; 3] = ["lq top", "--watch", "logs -f"];

/// Returns the commands in the last column but one, with their line numbers.
fn commands(page: &str) -> Vec<(usize, String)> {
    let text = fs::read_to_string(Path::new(DOCS).join(page)).expect("a page");
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A cell may be empty, and `\|` is a character of a command.
        let line = line.replace("\\|", "\0");
        let Some(ours) = line.strip_prefix('|').and_then(|cells| cells.split('|').nth(1)) else { continue };
        found.extend(ours.split('`').skip(1).step_by(2).map(|command| (number, command.replace('\0', "|"))));
    }
    found
}

/// Starts three nodes, one with two GPUs, with the queue `short` and licences, and writes the files for the commands into the user's
/// directory.
fn cluster() -> Cluster {
    let node = ["--hardware", HARDWARE];
    let dir = tempfile::tempdir().expect("a directory");
    let settings = dir.path().join("lmaster.toml");
    fs::write(&settings, "[queue.short]\ndefault = true\n[licence.matlab]\ncount = 2\n").expect("written");
    let master = ["--config", settings.to_str().expect("UTF-8")];
    let setup = Setup::default().master(&master).node("n1", &node).node("n2", &node).node("n3", &node);
    let cluster = setup.start();
    let submitter = cluster.submitter();
    let executable = |name: &str, text: &str| {
        fs::write(submitter.path(name), text).expect("written");
        fs::set_permissions(submitter.path(name), fs::Permissions::from_mode(0o755)).expect("an own file");
    };
    executable("job.sh", "#!/bin/sh\n#LIMO -t 10min\necho \"$@\"\n");
    fs::create_dir(submitter.path("run1")).expect("made");
    for step in ["step", "run1/step"] {
        executable(step, "#!/bin/sh\necho $LIMO_ARRAY_TASK_ID $LIMO_PROCID\n");
    }
    fs::write(submitter.path("lines.txt"), "a\nb\n").expect("written");
    fs::write(submitter.path("data.txt"), "one\ntwo\n").expect("written");
    cluster
}

/// Input that a reader types next, such as the end of a shell, or a line and the end of the input.
const TYPED: [(&str, &str); 2] = [("--pty", "exit\n"), ("attach", "one\n\u{4}")];

/// Runs a command on a terminal, as a reader of the page would.
fn run(submitter: &Submitter, command: &str) -> Ran {
    let endless = ENDLESS.iter().any(|words| command.contains(words));
    let command = if endless { format!("timeout --foreground 3 {command}; [ $? = 124 ]") } else { command.to_owned() };
    let path = programs::path("lrun");
    let programs = path.parent().expect("a directory").display();
    let typed = format!("export PATH={programs}:$PATH; {command}");
    let mut shell = submitter.command_of(Path::new("script"), &["-qec", &typed, "/dev/null"]);
    shell.env("SHELL", "/bin/sh").env("TERM", "xterm").stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("script is there");
    let keys = TYPED.iter().find(|(words, _)| command.contains(words)).map_or("", |(_, keys)| keys);
    shell.stdin.take().expect("piped").write_all(keys.as_bytes()).expect("script reads");
    limo_tests::finish(shell)
}

fn type_all(page: &str) {
    if !Path::new("/usr/bin/script").exists() {
        return skip(Requirement::Platform, "there is no `script` (bsdutils) that gives commands a terminal");
    }
    let cluster = cluster();
    let submitter = cluster.submitter();
    let commands = commands(page);
    assert!(commands.len() > 30, "{page}: {commands:?}");
    let mut wrong = Vec::new();
    for (line, command) in commands {
        assert!(
            !["; ", "&&", "||"].iter().any(|more| command.contains(more)),
            "{page}:{line}: more than one command: {command}"
        );
        let mut typed = command.clone();
        let mut waiting = None;
        if typed.contains("JOB") {
            let attached = typed.contains("attach");
            let sleep = ["--requeue", "-c", "1", "-t", "1h", "-J", "train", "sh", "-c", "echo hello; sleep 1000"];
            let waits = typed.contains("hold") || typed.contains("release") || typed.contains("explain");
            let ends = typed.contains("lq wait");
            let job = match (attached, waits) {
                _ if ends => submitter.detach(&["sleep", "1"]),
                (true, _) => {
                    // The job of this client is taken over.
                    waiting = Some(submitter.spawn_lrun(&["sh", "-c", "while read line; do echo $line; done"]));
                    until("the job is there", || submitter.jobs().last().and_then(|job| job["id"].as_u64()))
                }
                (_, true) => submitter.detach(&[&["--hold"], &sleep[..]].concat()),
                _ => submitter.detach(&sleep),
            };
            if !waits && !ends {
                until("the job runs", || (submitter.state(job) == "running").then_some(()));
            }
            if typed.contains("lq resume") {
                submitter.lq(&["suspend", &job.to_string()]).succeeded();
                until("the job is suspended", || (submitter.state(job) == "suspended").then_some(()));
            }
            typed = typed.replace("JOB", &job.to_string());
        }
        if typed.contains("ARRAY") {
            let array = submitter.detach(&["-a", "0-9", "sleep", "1000"]);
            until("a task runs", || submitter.jobs().iter().any(|job| job["state"] == "running").then_some(()));
            typed = typed.replace("ARRAY", &array.to_string());
        }
        if typed.contains("last") {
            submitter.detach(&["true"]);
        }
        let ran = run(submitter, &typed);
        if ran.code != Some(0) {
            wrong.push(format!("{page}:{line}: {command}: {ran:?}"));
        }
        // The jobs are cancelled one by one, because a job that has just ended keeps `lq` from cancelling the others
        // in the same command.
        let clear = || {
            let jobs = submitter.jobs();
            for job in &jobs {
                submitter.lq(&["cancel", &job["id"].to_string()]);
            }
            jobs.is_empty().then_some(())
        };
        clear();
        drop(waiting.map(limo_tests::finish));
        until("nothing is left", clear);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_line_for_slurm_users_works() {
    type_all("coming-from-slurm.md");
}

#[test]
fn every_line_for_hyperqueue_users_works() {
    type_all("coming-from-hyperqueue.md");
}
