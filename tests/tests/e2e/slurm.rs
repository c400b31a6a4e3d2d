//! Slurm's commands on a cluster, beyond the calls of `recorded`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use limo_tests::{Cluster, Ran, Setup, Submitter, finish, until};
use serde_json::Value;

/// Runs a command of Slurm by a link of its name.
pub fn slurm(submitter: &Submitter, line: &[&str]) -> Ran {
    let link = submitter.path("bin").join(line[0]);
    if !link.exists() {
        fs::create_dir_all(submitter.path("bin")).expect("a directory");
        symlink(limo_tests::programs::path("lslurm"), &link).expect("a link");
    }
    finish(submitter.command_of(&link, &line[1..]).spawn().expect("a program that is built"))
}

fn cluster() -> Cluster {
    Setup::nodes(2, 2).start()
}

pub fn write_script(submitter: &Submitter, name: &str, text: &str) {
    fs::write(submitter.path(name), text).expect("written");
    fs::set_permissions(submitter.path(name), fs::Permissions::from_mode(0o755)).expect("own file");
}

#[test]
fn a_batch_script_runs_once_with_the_variables_of_slurm() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    write_script(
        submitter,
        "job.sh",
        "#!/bin/bash\n#SBATCH -N 2 --ntasks=4 -J 'a name' # as it is\n#SBATCH --output=\"new/dir/%x-%J.out\"\n\
         echo $SLURM_JOB_ID $SLURM_JOBID $SLURM_NTASKS $SLURM_JOB_NODELIST $SLURM_PROCID \"$1\" $SLURM_ARRAY_TASK_ID\n\
         exit 3\n",
    );
    let mut command = submitter.command_of(&submitter.path("bin").join("sbatch"), &["-W", "job.sh", "x  y"]);
    slurm(submitter, &["sbatch", "--version"]).succeeded();
    // The variables of the job that submits this one do not come along.
    command.env("SLURM_ARRAY_TASK_ID", "7").env("SBATCH_JOB_NAME", "other");
    let ran = finish(command.spawn().expect("a program that is built"));
    let number: u64 = ran.stdout.trim().rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert_eq!((ran.code, ran.stdout), (Some(3), format!("Submitted batch job {number}\n")));
    assert_eq!(submitter.read(format!("new/dir/other-{number}.out")), format!("{number} {number} 4 n[1-2] 0 x  y\n"));
    let state = slurm(submitter, &["sacct", "-nXP", "-j", &number.to_string(), "-o", "State,ExitCode,NCPUS,NodeList"]);
    assert_eq!(state.succeeded(), "FAILED|3:0|4|n[1-2]\n");
    let wrong = slurm(submitter, &["sbatch", "-p", "none", "--wrap", "true"]);
    let words = "sbatch: error: invalid partition specified: none\n\
                 sbatch: error: Batch job submission failed: Invalid partition name specified\n";
    assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(1), words));
}

#[test]
fn jobs_are_listed_held_released_and_cancelled_as_by_slurm() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let number =
        |line: &[&str]| slurm(submitter, &[&["sbatch", "--parsable"], line].concat()).succeeded().trim().to_owned();
    let runs = number(&["-n", "4", "-J", "runs", "--wrap", "sleep 1000"]);
    let array = number(&["-a", "1-3", "-t", "90", "-J", "array", "--wrap", "exit $SLURM_ARRAY_TASK_ID"]);
    until("it runs", || (submitter.state(runs.parse().ok()?) == "running").then_some(()));
    let list = |line: &[&str]| slurm(submitter, &[&["squeue"], line].concat()).succeeded();
    let title = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n";
    let waiting = format!("{:>18}      main    array ", format!("{array}_[1-3]"));
    let text = list(&["--name", "array"]);
    assert!(
        text.starts_with(&format!("{title}{waiting}")) && text.ends_with(" PD       0:00      1 (Resources)\n"),
        "{text}"
    );
    assert_eq!(list(&["-h", "-r", "-j", &array, "-o", "%i|%t|%l"]).lines().count(), 3);
    assert_eq!(list(&["-h", "-j", &runs, "-O", "JobID:4|,StateCompact:.4"]), format!("{runs:<4}|   R\n"));
    let nodes = slurm(submitter, &["sinfo", "-h", "-o", "%P %t %D %C %N"]).succeeded();
    assert_eq!(nodes, "main* alloc 2 4/0/0/4 n[1-2]\n");
    slurm(submitter, &["scontrol", "hold", &array]).succeeded();
    assert_eq!(list(&["-h", "-j", &array, "-o", "%r"]), "JobHeldUser\n");
    slurm(submitter, &["scontrol", "release", &array]).succeeded();
    slurm(submitter, &["scancel", &runs, &format!("{array}_3")]).succeeded();
    submitter.wait(array.parse().expect("a number"));
    let ended = slurm(submitter, &["sacct", "-nXP", "-j", &format!("{runs},{array}"), "-o", "JobID,State,ExitCode"]);
    let by = format!("CANCELLED by {}", nix::unistd::getuid());
    let expected = format!(
        "{runs}|{by}|0:0\n{array}|FAILED|2:0\n{array}_1|FAILED|1:0\n{array}_2|FAILED|2:0\n{array}_3|{by}|0:0\n"
    );
    assert_eq!(ended.succeeded(), expected);
    // Jobs that are over or unknown are no error.
    slurm(submitter, &["scancel", &runs, "999"]).succeeded();
    let unknown = slurm(submitter, &["scontrol", "release", "999"]);
    let words = "Invalid job id specified for job 999\nslurm_suspend error: Invalid job id specified\n";
    assert_eq!((unknown.code, unknown.stderr.as_str()), (Some(1), words));
    let unknown = slurm(submitter, &["squeue", "-j", "999"]);
    assert_eq!((unknown.code, unknown.stderr.as_str()), (Some(1), "slurm_load_jobs error: Invalid job id specified\n"));
}

#[test]
fn sacct_finds_tasks_by_their_raw_numbers() {
    let cluster = Setup::nodes(1, 1).start();
    let submitter = cluster.submitter();
    let array = slurm(submitter, &["sbatch", "--parsable", "-a", "3,5", "--wrap", "sleep 1000"]).succeeded();
    let array: u64 = array.trim().parse().expect("a number");
    let (first, second) = (array + 1, array + 2);
    until("the first task runs", || (submitter.state(first) == "running").then_some(()));
    let shown = |job: u64| {
        let line = ["sacct", "-nXP", "-j", &job.to_string(), "-o", "JobID,JobIDRaw,State"];
        slurm(submitter, &line).succeeded()
    };
    assert_eq!(shown(first), format!("{array}_3|{first}|RUNNING\n"));
    assert_eq!(shown(second), format!("{array}_5|{second}|PENDING\n"));
    assert_eq!(shown(array + 3), "", "the array has two tasks");
    slurm(submitter, &["scancel", &array.to_string()]).succeeded();
    submitter.wait(array);
    let by = format!("CANCELLED by {}", nix::unistd::getuid());
    assert_eq!(shown(first), format!("{array}_3|{first}|{by}\n"));
}

#[test]
fn time_limits_of_running_jobs_are_changed_also_after_restarts() {
    let mut cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter().clone();
    let runs = |job: u64| until("it runs", || (submitter.state(job) == "running").then_some(()));
    // The job outlives the limit of its submission.
    let long = submitter.detach(&["-t", "3s", "sh", "-c", "sleep 5; exit 7"]);
    submitter.lq(&["time-limit", &long.to_string(), "1h"]).succeeded();
    let job = submitter.detach(&["-t", "1h", "sleep", "1000"]);
    runs(job);
    let id = job.to_string();
    let update = |value: &str| slurm(&submitter, &["scontrol", "update", &format!("JobId={id}"), value]);
    let shown = || slurm(&submitter, &["squeue", "-h", "-j", &id, "-o", "%l %D %C"]).succeeded();
    update("TimeLimit=2:00:00").succeeded();
    assert_eq!(shown(), "2:00:00 1 1\n");
    update("TimeLimit-=30").succeeded();
    assert_eq!(shown(), "1:30:00 1 1\n");
    let wrong = update("TimeLimit=soon");
    assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(1), "scontrol: error: Invalid TimeLimit value: soon\n"));
    cluster.kill_node("n1");
    cluster.kill_master();
    cluster.start_master();
    cluster.start_node("n1");
    cluster.await_node("n1");
    assert_eq!(shown(), "1:30:00 1 1\n");
    submitter.lq(&["time-limit", &id, "1s"]).succeeded();
    submitter.wait(job);
    assert_eq!(submitter.state(job), "timed_out");
    let text = slurm(&submitter, &["sacct", "-nPX", "-j", &id, "-o", "State,Timelimit"]).succeeded();
    assert_eq!(text, "TIMEOUT|00:00:01\n");
    assert_eq!(submitter.wait(long), Some(7));
}

#[test]
fn jobs_are_json_in_the_form_of_slurms_data_parser() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let json = |line: &[&str]| -> Value { serde_json::from_str(&slurm(submitter, line).succeeded()).expect("JSON") };
    let held = submitter.detach(&["-H", "-N", "2", "-t", "90min", "-J", "held", "true"]);
    let failed = submitter.detach(&["-J", "failed", "sh", "-c", "exit 3"]);
    submitter.wait(failed);
    let all = json(&["squeue", "--json"]);
    assert_eq!(all["meta"]["plugin"]["data_parser"], "v0.0.39");
    let set = |number: u64| serde_json::json!({ "set": true, "infinite": false, "number": number });
    let job = all["jobs"].as_array().expect("jobs").iter().find(|job| job["job_id"] == held).expect("it waits");
    assert_eq!(
        (&job["name"], &job["job_state"], &job["state_reason"]),
        (&"held".into(), &"PENDING".into(), &"JobHeldUser".into())
    );
    assert_eq!((&job["time_limit"], &job["node_count"], &job["cpus"]), (&set(90), &set(2), &set(2)));
    let directory = submitter.path("").display().to_string();
    assert_eq!(job["current_working_directory"], directory.trim_end_matches('/'));
    let ended = json(&["sacct", "--json", "-j", &failed.to_string()]);
    assert_eq!(ended["jobs"].as_array().map(Vec::len), Some(1));
    let job = &ended["jobs"][0];
    assert_eq!((&job["state"]["current"], &job["exit_code"]["return_code"]), (&"FAILED".into(), &3.into()));
    assert!(job["time"]["end"].as_u64() >= job["time"]["start"].as_u64(), "{job}");
}

#[test]
fn comments_and_constraints_of_jobs_are_kept_and_obeyed() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let sbatch = |line: &[&str]| slurm(submitter, &[&["sbatch", "--parsable", "--wrap", "true"], line].concat());
    let ran = sbatch(&["-H", "--comment", "rule one", "--wckey=k", "--switches=1"]);
    assert_eq!(ran.stderr, "sbatch: warning: Limo ignores --switches\n");
    let number = ran.succeeded().trim().to_owned();
    let shown = slurm(submitter, &["squeue", "-h", "-j", &number, "-o", "%k|%w"]).succeeded();
    assert_eq!(shown, "rule one|k\n");
    let shown = slurm(submitter, &["sacct", "-nXP", "-j", &number, "-o", "Comment,WCKey"]).succeeded();
    assert_eq!(shown, "rule one|k\n");
    let shown = slurm(submitter, &["scontrol", "show", "job", &number]).succeeded();
    assert!(shown.contains("\n   Comment=rule one\n"), "{shown}");
    let plain = sbatch(&["-H"]).succeeded().trim().to_owned();
    assert_eq!(slurm(submitter, &["squeue", "-h", "-j", &plain, "-o", "%k|%w"]).succeeded(), "(null)|(null)\n");
    let long = sbatch(&["--comment", &"x".repeat(1025)]);
    assert!(long.code == Some(1) && long.stderr.contains("1025 bytes; the limit is 1024"), "{long:?}");
    let counted = sbatch(&["-C", "a*2"]);
    assert!(counted.code == Some(1) && counted.stderr.contains("Invalid feature specification: a*2"), "{counted:?}");
    let both = sbatch(&["-C", "a&b"]);
    assert!(both.code == Some(1) && both.stderr.contains("no node has the hardware a&b"), "{both:?}");
    let unknown = sbatch(&["-C", "quantum"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("quantum"), "{unknown:?}");
}
