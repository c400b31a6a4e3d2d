//! Calls of Slurm's commands by real clients, with the bytes of Slurm's answers: those that were recorded, and Nextflow's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use limo_requirements::slurm_calls;
use limo_tests::{Setup, Submitter, until};
use serde_json::Value;

use crate::slurm::{slurm, write_script};

/// The recordings. Each of them is replayed.
const RECORDED: [&str; 3] = ["dask-jobqueue.jsonl", "snakemake-slurm-array.jsonl", "snakemake-slurm.jsonl"];

/// Keys of the configuration that clients read.
const READ_SETTINGS: [&str; 2] = ["MinJobAge ", "MaxArraySize "];

/// A difference from Slurm's bytes that is intended, with its sentence in docs/coming-from-slurm.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    Configuration,
    Accounting,
}

impl Difference {
    const ALL: [(Self, &'static str); 2] = [
        (Self::Configuration, "`scontrol show config` has the settings that clients read"),
        (Self::Accounting, "A new job is in `sacct` at once; Slurm's database learns of it later."),
    ];
}

/// Exit code, stdout and stderr.
type Answer = (i64, String, String);

/// Replays the calls of one client.
struct Replay<'a> {
    submitter: &'a Submitter,
    /// Numbers of the jobs, by those of the recording.
    numbers: BTreeMap<String, String>,
    /// Differences that were seen.
    differences: BTreeSet<Difference>,
}

impl<'a> Replay<'a> {
    fn new(submitter: &'a Submitter) -> Self {
        Self { submitter, numbers: BTreeMap::new(), differences: BTreeSet::new() }
    }

    fn file(&mut self, path: &Path) {
        for line in fs::read_to_string(path).expect("readable").lines() {
            self.call(&serde_json::from_str(line).expect("JSON"));
        }
    }

    /// Replaces the number at the start of a text if it is that of a recorded job.
    fn with_own_number(&self, text: &str) -> String {
        let digits = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let (number, rest) = text.split_at(text.len() - digits.len());
        self.numbers.get(number).map_or_else(|| text.to_owned(), |own| format!("{own}{rest}"))
    }

    /// Replaces numbers of jobs, directories and the user of the recording.
    fn own(&self, word: &str) -> String {
        let directory = self.submitter.directory.display().to_string();
        match word {
            "USER" => nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().expect("a user").name,
            _ if word.contains('-') => word.replace("/home/user", &directory),
            _ => self.with_own_number(word).replace("/home/user", &directory),
        }
    }

    /// Makes the script and the directories that a call of sbatch needs.
    fn prepare(&self, call: &Value, argv: &[String]) {
        if let Some(at) = argv.iter().position(|word| word == "-D") {
            fs::create_dir_all(&argv[at + 1]).expect("a directory");
        }
        let last = argv.last().expect("arguments");
        let lines: Vec<&str> = call["script"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let text = match lines.as_slice() {
            _ if last.starts_with("--wrap") => return,
            // The commands were not recorded.
            [] => "true".to_owned(),
            // A worker, which runs until its job is cancelled.
            [options @ .., command] if command.contains("dask_worker") => {
                format!("{}\nsleep 1000", options.join("\n").replace("dlog/", ""))
            }
            all => all.join("\n").replace("/home/user", &self.submitter.directory.display().to_string()),
        };
        let path = self.submitter.path(last);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        write_script(self.submitter, last, &format!("#!/bin/sh\n{text}\n"));
    }

    fn call(&mut self, call: &Value) {
        let tool = call["tool"].as_str().expect("a tool");
        let recorded: Vec<&str> = call["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // The call was still running when the recording ended: the step of a job.
        let Some(code) = call["rc"].as_i64() else { return };
        let argv: Vec<String> = recorded.iter().map(|word| self.own(word)).collect();
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        if tool == "sbatch" {
            self.prepare(call, &argv);
        }
        if tool == "sacct" && !text("out").is_empty() {
            self.numbers.values().for_each(|number| drop(self.submitter.lq(&["wait", number])));
        }
        let line: Vec<&str> = [tool].into_iter().chain(argv.iter().map(String::as_str)).collect();
        let ask = || -> Answer {
            let ran = slurm(self.submitter, &line);
            let path = self.submitter.path("bin").display().to_string();
            (ran.code.map_or(-1, i64::from), ran.stdout, ran.stderr.replace(&path, "/usr/bin"))
        };
        let answer = ask();
        if tool == "sbatch" {
            let number = |text: &str| text.trim().rsplit(' ').next().unwrap_or_default().to_owned();
            self.numbers.insert(number(&text("out")), number(&answer.1));
        }
        let expected = text("out").split_inclusive('\n').map(|line| self.with_own_number(line)).collect::<String>();
        let last = |line: &str| match line.rsplit_once(' ') {
            Some((words, number)) if tool == "sbatch" => format!("{words} {}", self.with_own_number(number)),
            _ => line.to_owned(),
        };
        let expected = (code, last(&expected), text("err"));
        match difference(&line, &answer, &expected) {
            _ if answer == expected => {}
            Some(difference) => drop(self.differences.insert(difference)),
            // The jobs may not have changed yet.
            None if tool == "squeue" => {
                until(&format!("{line:?} answers {expected:?}, first it was {answer:?}"), || {
                    (ask() == expected).then_some(())
                })
            }
            None => assert_eq!(answer, expected, "{line:?}"),
        }
    }
}

/// Returns the intended difference between two answers to a call, if it is the only one.
fn difference(line: &[&str], own: &Answer, slurm: &Answer) -> Option<Difference> {
    let has_title = |answer: &Answer| answer.1.starts_with("Configuration data as of ");
    let has = |key: &&str| own.1.lines().any(|line| line.starts_with(*key));
    match line {
        ["scontrol", "show", "config"] => {
            let is_read = has_title(own) && has_title(slurm) && READ_SETTINGS.iter().all(has);
            ((own.0, &own.2) == (slurm.0, &slurm.2) && is_read).then_some(Difference::Configuration)
        }
        ["sacct", .., "--name", _] => {
            ((own.0, &own.2) == (slurm.0, &slurm.2) && slurm.1.is_empty()).then_some(Difference::Accounting)
        }
        _ => None,
    }
}

#[test]
fn calls_of_clients_get_the_answers_of_slurm() {
    let Some(folder) = slurm_calls() else { return };
    let cluster = Setup::nodes(2, 2).start();
    let entries = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut files: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    files.retain(|name| name.ends_with(".jsonl"));
    files.sort();
    assert_eq!(files, RECORDED);
    let mut seen = BTreeSet::new();
    for file in files {
        let mut replay = Replay::new(cluster.submitter());
        replay.file(&folder.join(file));
        seen.extend(replay.differences);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), Difference::ALL.map(|(difference, _)| difference));
}

#[test]
fn each_difference_from_the_recorded_answers_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs/coming-from-slurm.md");
    let documented = fs::read_to_string(path).expect("readable").replace("\n  ", " ");
    for (difference, sentence) in Difference::ALL {
        assert!(documented.contains(sentence), "{difference:?}: no `{sentence}`");
    }
}

#[test]
fn calls_of_nextflow_get_the_answers_of_slurm() {
    let cluster = Setup::nodes(2, 2).start();
    let mut replay = Replay::new(cluster.submitter());
    replay.file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/nextflow.jsonl"));
    assert_eq!(replay.differences, BTreeSet::new());
}
