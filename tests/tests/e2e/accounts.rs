//! Accounts and QOS of the master's settings: `lrun --account`, `--qos`, `lconf account list`, limits and their reasons, and
//! Slurm's words for them.

use std::fs;
use std::path::PathBuf;

use limo_tests::{Cluster, Person, Setup, Submitter, until};
use serde_json::Value;
use tempfile::TempDir;

use crate::slurm::slurm;

fn await_reason(submitter: &Submitter, job: u64, expected: &str) {
    until(&format!("job {job} waits: {expected}"), || (submitter.job(job)["wait_reason"] == expected).then_some(()));
}

fn await_running(submitter: &Submitter, job: u64) {
    until(&format!("job {job} runs"), || (submitter.state(job) == "running").then_some(()));
}

/// A cluster of two nodes with two cores each, and the file of its settings.
fn start(text: &str) -> (Cluster, PathBuf, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("lmaster.toml");
    fs::write(&settings, text).expect("written");
    let cluster = Setup::nodes(2, 2).master(&["--config", settings.to_str().expect("text")]).start();
    (cluster, settings, directory)
}

#[test]
fn an_account_limits_the_jobs_of_its_tree_across_a_crash() {
    let guests = "[account.guests]\ndefault = true\n";
    let (mut cluster, settings, _directory) = start(guests);
    let submitter = cluster.submitter().clone();
    let first = submitter.detach(&["true"]);
    let user = submitter.job(first)["user"].as_str().expect("a user").to_owned();
    assert_eq!(submitter.job(first)["account"], "guests");
    let tree = format!(
        "{guests}[account.physics]\nmax_cores = 3\ndescription = \"all labs\"\n\
         [account.optics]\nparent = \"physics\"\nusers = [\"{user}\"]\nmax_submit_jobs = 3\nshare = 2\n"
    );
    fs::write(&settings, &tree).expect("written");
    cluster.reload_master();
    let holder = submitter.detach(&["-c", "2", "sleep", "1000"]);
    await_running(&submitter, holder);
    let waiting = submitter.detach(&["--account", "optics", "-c", "2", "true"]);
    let reason = "account: physics: needs 2 cores, jobs that run or may start have 2 of 3";
    await_reason(&submitter, waiting, reason);
    // Jobs of other accounts pass.
    submitter.lrun(&["-A", "guests", "true"]).succeeded();
    let explained = submitter.lq(&["explain", &waiting.to_string()]).succeeded();
    assert!(explained.contains(reason), "{explained}");
    assert!(submitter.lq(&["show", &holder.to_string()]).succeeded().contains("account      optics\n"));
    let listed = submitter.lq(&["--noheader", "--format", "account,qos", "-t", "running"]).succeeded();
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["optics", "-"]);
    let physics = format!("the account `physics` is not for user {user}: use `optics`");
    submitter.lrun(&["-A", "physics", "true"]).failed(&physics);
    submitter.lrun(&["-A", "bio", "true"]).failed("there is no account `bio` (accounts: guests, optics, physics)");
    submitter.detach(&["--hold", "true"]);
    submitter
        .lrun(&["true"])
        .failed("account optics has 3 jobs that are not over, 1 more would be above the quota of 3");
    let listed = submitter.lconf(&["account", "list"]).succeeded();
    let lines: Vec<Vec<&str>> = listed.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["guests*", "1", "0", "0", "0", "-", "-", "-", "-"]);
    assert_eq!(lines[1], ["physics", "1", "1", "2", "2", "cores=3", "-", "-", "all", "labs"]);
    assert_eq!(lines[2], ["optics", "2", "1", "2", "2", "submitted=3", &user, "-", "-"]);
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    await_reason(&submitter, waiting, reason);
    fs::write(&settings, tree.replace("max_cores = 3", "max_cores = 4")).expect("written");
    cluster.reload_master();
    assert_eq!(submitter.wait(waiting), Some(0));
    let told: Value = serde_json::from_str(&submitter.lconf(&["account", "list", "--json"]).succeeded()).expect("JSON");
    assert_eq!((&told["accounts"][2]["max_cores"], &told["accounts"][2]["running"]), (&4.into(), &1.into()));
}

#[test]
fn a_qos_has_a_priority_and_limits_for_each_user() {
    let text = "[qos.normal]\ndefault = true\n[qos.urgent]\npriority = 1000\nmax_running_jobs_per_user = 1\n\
                max_time = \"1h\"\n[qos.closed]\nusers = [\"nobody\"]\n";
    let (cluster, _settings, _directory) = start(text);
    let submitter = cluster.submitter();
    let running = submitter.detach(&["--qos", "urgent", "sleep", "1000"]);
    await_running(submitter, running);
    assert_eq!(
        (&submitter.job(running)["qos"], &submitter.job(running)["time_limit_s"]),
        (&"urgent".into(), &3600.0.into())
    );
    let waiting = submitter.detach(&["--qos", "urgent", "true"]);
    await_reason(submitter, waiting, "qos: urgent: 1 of 1 jobs run or may start");
    let [plain, urgent] =
        [&["--hold", "true"][..], &["--hold", "--qos", "urgent", "true"]].map(|line| submitter.detach(line));
    assert_eq!((&submitter.job(plain)["qos"], &submitter.job(plain)["priority"]), (&"normal".into(), &0.into()));
    assert_eq!(submitter.job(urgent)["priority"], 1000);
    submitter.lrun(&["--qos", "closed", "true"]).failed("the QOS `closed` is not for user");
    submitter.lrun(&["--qos", "x", "true"]).failed("there is no QOS `x` (QOS: closed, normal, urgent)");
    let long = "the time limit of 2h is longer than the QOS `urgent` allows: at most 1h";
    submitter.lrun(&["--qos", "urgent", "-t", "2h", "true"]).failed(long);
    let listed = submitter.lconf(&["qos", "list"]).succeeded();
    let last: Vec<&str> = listed.lines().last().expect("a line").split_whitespace().collect();
    assert_eq!(last, ["urgent", "1000", "1h", "jobs=1", "all", "-", "-"]);
}

#[test]
fn commands_of_slurm_name_accounts_and_qos() {
    let text = "[account.physics]\ndefault = true\nmax_running_jobs = 1\n[account.closed]\n[qos.urgent]\n\
                max_cores_per_user = 1\n[qos.normal]\ndefault = true\n";
    let (cluster, _settings, _directory) = start(text);
    let submitter = cluster.submitter();
    let run = |line: &[&str]| slurm(submitter, line).succeeded();
    let submit = |options: &[&str]| {
        let line = [&["sbatch", "--parsable"], options, &["--wrap", "sleep 1000"]].concat();
        let ran = slurm(submitter, &line);
        assert_eq!(ran.stderr, "", "no option is ignored");
        ran.succeeded().trim().to_owned()
    };
    let running = submit(&["-A", "physics", "-q", "urgent"]);
    await_running(submitter, running.parse().expect("a number"));
    let by_qos = submit(&["--qos=urgent"]);
    let by_account = submit(&[]);
    let reason = |job: &str| run(&["squeue", "-h", "-o", "%r %a %q", "-j", job]);
    let await_words = |job: &str, words: &str| until(words, || (reason(job) == format!("{words}\n")).then_some(()));
    await_words(&by_qos, "QOSMaxCpuPerUserLimit physics urgent");
    await_words(&by_account, "AssocGrpJobsLimit physics normal");
    assert!(run(&["scontrol", "show", "job", &running]).contains(" Account=physics QOS=urgent\n"));
    assert_eq!(run(&["sacct", "-X", "-n", "-P", "-o", "Account,QOS", "-j", &running]), "physics|urgent\n");
    let refused = |options: &[&str], words: &str| {
        let line = [&["sbatch"], options, &["--wrap", "true"]].concat();
        let told = slurm(submitter, &line);
        assert_ne!(told.code, Some(0));
        let expected = format!("sbatch: error: Batch job submission failed: {words}\n");
        assert!(told.stderr.contains(&expected), "{}", told.stderr);
    };
    refused(&["-A", "closed"], "Invalid account or account/partition combination specified");
    refused(&["-A", "unknown"], "Invalid account or account/partition combination specified");
    refused(&["-q", "unknown"], "Invalid qos specification");
    let numbers = |options: &[&str]| run(&[&["squeue", "-h", "-o", "%i"], options].concat());
    let [all, urgent] = [[&running, &by_qos, &by_account].as_slice(), &[&running, &by_qos]].map(|jobs| {
        let mut lines: Vec<String> = jobs.iter().map(|job| format!("{job}\n")).collect();
        lines.sort();
        lines
    });
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(numbers(&["-A", "physics,other"])), all);
    assert_eq!(sorted(numbers(&["-A", "physics", "-q", "urgent"])), urgent);
    assert_eq!(numbers(&["-A", "closed"]), "");
    assert_eq!(sorted(run(&["sacct", "-X", "-n", "-P", "-o", "JobID", "-a", "-q", "urgent"])), urgent);
    // One number stands for all jobs of a user in an account, and is that of `sacctmgr`.
    let association = run(&["sacct", "-X", "-n", "-P", "-o", "AssocID", "-j", &running]);
    let user = submitter.job(running.parse().expect("a number"))["user"].as_str().expect("a user").to_owned();
    let shown =
        run(&["sacctmgr", "-n", "-P", "show", "assoc", "account=physics", &format!("user={user}"), "format=id"]);
    assert_eq!(association, shown);
    assert!(association.trim().parse::<u32>().is_ok_and(|number| number > 0), "{association}");
    run(&["scancel", "-A", "closed"]);
    run(&["scancel", "-q", "urgent", &by_account]);
    assert_eq!(sorted(numbers(&[])), all, "no job is both");
    if let Some(other) = Person::of(submitter, "daemon", &["lslurm"]) {
        let ran = other.run("lslurm", &["scancel", "-A", "physics"]);
        let told = |job: &String| ran.stderr.contains(&format!("scancel: error: Kill job error on job id {job}: "));
        assert!(ran.code == Some(1) && [&running, &by_qos, &by_account].into_iter().all(told), "{ran:?}");
        assert_eq!(sorted(numbers(&[])), all, "jobs of another user stay");
    }
    run(&["scancel", "-q", "urgent"]);
    until("only the job of the other QOS is left", || (numbers(&[]) == format!("{by_account}\n")).then_some(()));
    run(&["scancel", "-A", "physics"]);
    until("none is left", || numbers(&[]).is_empty().then_some(()));
}

#[test]
fn refusals_have_the_words_of_slurm() {
    let text = "[account.closed]\n[account.open]\ndefault = true\n[queue.short]\ndefault = true\nmax_time = \"1h\"\n\
                default_time = \"10min\"\n[qos.normal]\ndefault = true\n[qos.brief]\nmax_time = \"1min\"\n";
    let (cluster, _settings, _directory) = start(text);
    let submitter = cluster.submitter();
    let account = "Invalid account or account/partition combination specified";
    let configuration = "Requested node configuration is not available";
    let policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
    for (options, words) in [
        (&["-A", "closed"][..], account),
        (&["-q", "none"], "Invalid qos specification"),
        (&["-p", "none"], "Invalid partition name specified"),
        (&["-c", "64"], configuration),
        (&["-C", "a100"], configuration),
        (&["-C", "cpu&a100"], configuration),
        (&["-w", "n9"], "Invalid node name specified"),
        (&["-t", "2:00:00"], "Requested time limit is invalid (missing or exceeds some limit)"),
        (&["-q", "brief", "-t", "5"], policy),
    ] {
        for (command, action, work) in [
            ("srun", "Unable to allocate resources", &["true"][..]),
            ("sbatch", "Batch job submission failed", &["--wrap", "true"]),
            ("salloc", "Job submit/allocate failed", &["true"]),
        ] {
            let ran = slurm(submitter, &[&[command], options, work].concat());
            let line = format!("{command}: error: {action}: {words}\n");
            assert!(ran.code == Some(1) && ran.stderr.contains(&line), "{command} {options:?}: {ran:?}");
        }
    }
    assert!(submitter.jobs().is_empty());
}
