//! Steps: commands in the allocation of a job, on several nodes, and their end with the job.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Ran, Setup, Submitter, finish, sorted_lines, until};

/// A job's script, which finds `lrun` and Slurm's commands in its `PATH`.
fn script(submitter: &Submitter, name: &str, text: &str) {
    let bin = submitter.path("bin");
    fs::create_dir_all(&bin).expect("a directory");
    for (name, program) in [
        ("lrun", "lrun"),
        ("srun", "lslurm"),
        ("sbatch", "lslurm"),
        ("salloc", "lslurm"),
        ("squeue", "lslurm"),
        ("scancel", "lslurm"),
        ("sattach", "lslurm"),
    ] {
        if !bin.join(name).exists() {
            symlink(limo_tests::programs::path(program), bin.join(name)).expect("a link");
        }
    }
    let text = format!("#!/bin/bash\nexport PATH={}:$PATH\n{text}", bin.display());
    fs::write(submitter.path(name), text).expect("written");
    fs::set_permissions(submitter.path(name), fs::Permissions::from_mode(0o755)).expect("own file");
}

fn slurm(submitter: &Submitter, line: &[&str]) -> Ran {
    finish(submitter.command_of(&submitter.path("bin").join(line[0]), &line[1..]).spawn().expect("a link"))
}

#[test]
fn a_batch_job_runs_steps_on_its_nodes() {
    let cluster = Setup::nodes(2, 4).start();
    let submitter = cluster.submitter();
    script(
        submitter,
        "job.sh",
        "lrun -l sh -c 'echo $LIMO_JOB_ID.$LIMO_STEP_ID $LIMO_PROCID of $LIMO_NTASKS on $LIMO_NODE' | sort\n\
         echo from stdin | lrun -n 1 cat\n\
         lrun -w n2 sh -c 'echo on $LIMO_NODE; exit 7'; echo code $?\n\
         lrun -N 3 true 2>&1; echo code $?\n\
         lrun -n 1 sh -c 'kill -9 $$'; echo code $?\n",
    );
    let ran = submitter.lrun(&["-N", "2", "-n", "4", "--batch", "./job.sh"]);
    let job: u64 = 1;
    let expected = format!(
        "0: {job}.0 0 of 4 on n1\n1: {job}.0 1 of 4 on n1\n2: {job}.0 2 of 4 on n2\n3: {job}.0 3 of 4 on n2\n\
         from stdin\non n2\ncode 7\n\
         lrun: error: the step asks for 3 nodes with 1 core each: the allocation of job {job} has 2 such nodes\ncode 125\n\
         code 137\n"
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected.as_str()), "{}", ran.stderr);
    let shown = submitter.lq(&["show", &job.to_string()]).succeeded();
    let steps: Vec<Vec<&str>> = shown
        .lines()
        .filter(|line| line.starts_with(&format!("{job}.")))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let ends: Vec<(&str, &str)> = steps.iter().map(|step| (step[0], step[2])).collect();
    let failed = [("1.0", "completed"), ("1.1", "completed"), ("1.2", "failed"), ("1.3", "failed")];
    assert_eq!(ends, failed, "{shown}");
    let reports = submitter.show(&[job]);
    assert_eq!(reports.len(), 5, "the job and its steps");
    assert_eq!((reports[0]["steps"].as_u64(), reports[3]["step"].as_u64()), (Some(4), Some(2)));
    assert_eq!(reports[3]["nodes"][0], "n2");
    let listed = submitter.lq(&["-a", "--json"]).succeeded();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(1), "steps are not in lists of jobs");
}

#[test]
fn steps_wait_for_cores_and_end_with_their_job() {
    let cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter();
    script(
        submitter,
        "job.sh",
        "lrun -c 2 sh -c 'echo first >&2; until [ -e go ]; do sleep 0.01; done; echo first' &\n\
         until [ -n \"$(ls started 2>/dev/null)\" ]; do lrun -n 1 --overlap touch started; done\n\
         lrun -n 1 echo second &\n\
         touch waiting; wait\n\
         lrun sh -c 'touch running; trap \"\" TERM; sleep 1000' &\n\
         until [ -e running ]; do sleep 0.01; done\n",
    );
    let child = submitter.spawn_lrun(&["-c", "2", "--kill-grace", "1s", "--batch", "./job.sh"]);
    until("the other steps wait", || submitter.path("waiting").exists().then_some(()));
    let state = |number: &str| {
        let listed = submitter.lq(&["show", "1"]).stdout;
        let line = listed.lines().find(|line| line.starts_with(number)).map(str::to_owned)?;
        line.split_whitespace().nth(2).map(str::to_owned)
    };
    until("the second waits", || (state("1.2").as_deref() == Some("waiting")).then_some(()));
    fs::write(submitter.path("go"), "").expect("written");
    let ran = finish(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "first\nsecond\n"), "{}", ran.stderr);
    assert_eq!(cluster.job_processes().len(), 0, "nothing of its last step is left");
    let end = submitter.lq(&["show", "1"]).succeeded();
    assert_eq!(state("1.3").as_deref(), Some("cancelled"), "its node has ended it: {end}");
    assert!(end.contains("cancelled because its job had ended"), "{end}");
    let free = submitter.lrun(&["-c", "2", "-I", "echo", "free"]);
    assert_eq!(free.succeeded(), "free\n");
}

#[test]
fn an_allocation_keeps_nodes_for_steps() {
    let cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter();
    let job = submitter.lrun(&["--no-shell", "-N", "2", "-c", "2"]).succeeded().trim().to_owned();
    until("it runs", || (submitter.state(job.parse().ok()?) == "running").then_some(()));
    let step = |line: &[&str]| {
        let mut command = submitter.command("lrun", line);
        command.env("LIMO_JOB_ID", &job).env("LIMO_NNODES", "2").env("LIMO_NTASKS", "2").env("LIMO_CPUS_PER_TASK", "2");
        command
    };
    let ran = finish(step(&["sh", "-c", "echo $LIMO_NODE"]).spawn().expect("lrun"));
    assert_eq!(sorted_lines(&ran.succeeded()), "n1\nn2\n");
    assert_ne!(submitter.lrun(&["-I", "true"]).code, Some(0), "its cores are taken");
    let endless = step(&["sh", "-c", "echo begun; exec sleep 1000"]).spawn().expect("lrun");
    until("both tasks run", || {
        let is_task = |process: &limo_tests::Process| process.is_called("sleep");
        (cluster.job_processes().iter().filter(|process| is_task(process)).count() == 2).then_some(())
    });
    submitter.lq(&["cancel", &job]).succeeded();
    let ran = finish(endless);
    assert_eq!(ran.code, Some(143), "{}", ran.stderr);
    assert_eq!(submitter.wait(job.parse().expect("a number")), Some(0), "it has ended as it should");
    assert_eq!(submitter.state(job.parse().expect("a number")), "cancelled");
    assert_eq!(cluster.job_processes().len(), 0);
    let late = finish(step(&["true"]).spawn().expect("lrun"));
    assert!(late.stderr.contains(&format!("job {job} has no allocation for steps")), "{}", late.stderr);
}

#[test]
fn steps_survive_their_daemons() {
    let mut cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter();
    script(
        submitter,
        "job.sh",
        "lrun -l sh -c 'touch $LIMO_NODE; until [ -e go ]; do sleep 0.01; done; echo done' | sort\n",
    );
    let child = submitter.spawn_lrun(&["-N", "2", "--batch", "./job.sh"]);
    let both = || ["n1", "n2"].iter().all(|node| submitter.path(node).exists());
    until("the step runs", || both().then_some(()));
    let go = submitter.path("go");
    cluster.kill_node("n1");
    cluster.kill_master();
    cluster.start_master();
    cluster.start_node("n1");
    cluster.await_node("n1");
    cluster.await_node("n2");
    fs::write(go, "").expect("written");
    let ran = finish(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "0: done\n1: done\n"), "{}", ran.stderr);
    cluster.kill_master();
    cluster.start_master();
    let ends: Vec<_> = cluster.submitter().show(&[1]).iter().map(|job| job["state"].clone()).collect();
    assert_eq!(ends, ["completed", "completed"]);
}

#[test]
fn a_step_is_suspended_with_its_job() {
    let cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter();
    script(submitter, "job.sh", "lrun -n 1 sh -c 'touch begun; while :; do echo x >>count; sleep 0.01; done'\n");
    let job = submitter.detach(&["-c", "2", "--batch", "./job.sh"]);
    until("the step runs", || submitter.path("begun").exists().then_some(()));
    let stopped = |expected: bool| {
        let is_task = |process: &&limo_tests::Process| process.variable("LIMO_STEP_ID").is_some();
        let processes = cluster.job_processes();
        let all: Vec<bool> = processes.iter().filter(is_task).map(limo_tests::Process::is_stopped).collect();
        (!all.is_empty() && all.iter().all(|stopped| *stopped == expected)).then_some(())
    };
    submitter.lq(&["suspend", &job.to_string()]).succeeded();
    until("its processes are stopped", || stopped(true));
    submitter.lq(&["resume", &job.to_string()]).succeeded();
    until("they go on", || stopped(false));
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    submitter.wait(job);
    assert_eq!(cluster.job_processes().len(), 0);
}

#[test]
fn srun_and_salloc_run_steps() {
    let cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter();
    script(
        submitter,
        "job.sh",
        "echo batch $SLURM_PROCID\nsrun -l sh -c 'echo $SLURM_STEP_ID $SLURM_PROCID' | sort\n\
         srun -N1 -n1 --cpu-bind=q --exact sh -c 'exit 3'\n",
    );
    let ran = slurm(submitter, &["sbatch", "-W", "-N", "2", "-n", "4", "-o", "out.txt", "job.sh"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "Submitted batch job 1\n"), "{}", ran.stderr);
    assert_eq!(submitter.read("out.txt"), "batch 0\n0: 0 0\n1: 0 1\n2: 0 2\n3: 0 3\n");
    let link = submitter.path("bin").join("sacct");
    symlink(limo_tests::programs::path("lslurm"), link).expect("a link");
    let listed = slurm(submitter, &["sacct", "-nP", "-j", "1", "-o", "JobID,State,ExitCode"]).succeeded();
    assert_eq!(listed, "1|FAILED|3:0\n1.0|COMPLETED|0:0\n1.1|FAILED|3:0\n");
    let ran = slurm(
        submitter,
        &["salloc", "-N", "2", "sh", "-c", "echo here $SLURM_JOB_NODELIST; bin/srun hostname; exit 5"],
    );
    assert_eq!(ran.code, Some(5), "{}", ran.stderr);
    let host = Command::new("hostname").output().expect("hostname").stdout;
    let host = String::from_utf8_lossy(&host);
    assert_eq!(ran.stdout, format!("here n[1-2]\n{host}{host}"));
    let words = "salloc: Granted job allocation 4\nsalloc: Relinquishing job allocation 4\n";
    assert!(ran.stderr.ends_with(words), "{}", ran.stderr);
    assert_eq!(submitter.wait(4), Some(0));
    assert_eq!(submitter.state(4), "cancelled");
    let shell = slurm(submitter, &["salloc", "--no-shell", "-n", "1"]);
    assert_eq!((shell.code, shell.stderr.as_str()), (Some(0), "salloc: Granted job allocation 6\n"));
    let outside = slurm(submitter, &["srun", "--jobid", "6", "-n", "1", "sh", "-c", "echo $LIMO_JOB_ID"]);
    assert_eq!(outside.succeeded(), "6\n");
    submitter.lq(&["cancel", "6"]).succeeded();
}

#[test]
fn running_steps_are_listed_and_taken_over() {
    let cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter();
    let step = "touch begun; until [ -e go ]; do sleep 0.01; done; echo out; exit 5";
    let job = format!("lrun -n 1 -J named sh -c '{step}'; echo $? >code; until [ -e over ]; do sleep 0.01; done\n");
    script(submitter, "job.sh", &job);
    let job = submitter.detach(&["-c", "2", "-J", "of", "--batch", "./job.sh"]);
    until("the step runs", || submitter.path("begun").exists().then_some(()));
    let list = |line: &[&str]| slurm(submitter, &[&["squeue", "-s"], line].concat());
    let title = "         STEPID     NAME PARTITION     USER      TIME NODELIST\n";
    let text = list(&[]).succeeded();
    assert!(
        text.starts_with(&format!("{title}            1.0    named      main")) && text.ends_with(" n1\n"),
        "{text}"
    );
    assert_eq!(list(&["-h", "-o", "%i|%j|%N", "-j", "1"]).succeeded(), "1.0|named|n1\n");
    assert_eq!(list(&["-h", "-O", "StepID:", "1.0,1.1"]).succeeded(), "1.0\n");
    assert_eq!(list(&["-h", "1.1"]).succeeded(), "");
    let wrong = list(&["1"]);
    assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(1), "squeue: error: Invalid job_step id: 1\n"));
    let none = slurm(submitter, &["sattach", "1.7"]);
    assert!(none.code == Some(1) && none.stderr.contains("job 1 has no step 7: it has had 1"), "{none:?}");
    let refused = submitter.lq(&["attach", "1.0"]);
    assert!(refused.stderr.contains("its lrun is connected"), "{refused:?}");
    let mut attach = submitter.command_of(&submitter.path("bin").join("sattach"), &["1.0"]);
    let attached = attach.spawn().expect("a link");
    until("the first client is told", || submitter.path("code").exists().then_some(()));
    fs::write(submitter.path("go"), "").expect("written");
    let ran = finish(attached);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "out\n"), "{}", ran.stderr);
    assert_eq!(list(&["-h"]).succeeded(), "");
    fs::write(submitter.path("over"), "").expect("written");
    assert_eq!(submitter.wait(job), Some(0));
}

#[test]
fn a_step_is_ended_and_not_its_job() {
    let cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter();
    let steps =
        "for step in 0 1; do lrun -n 1 sleep 1000; echo $? >code.$step; done; until [ -e over ]; do sleep 0.01; done\n";
    script(submitter, "job.sh", steps);
    let job = submitter.detach(&["--batch", "./job.sh"]);
    let runs = |step: &str| {
        let list = slurm(submitter, &["squeue", "-s", "-h", "-o", "%i"]);
        (list.stdout.trim_end() == step).then_some(())
    };
    until("the first step runs", || runs("1.0"));
    let none = slurm(submitter, &["scancel", "1.7"]);
    assert_eq!((none.code, none.stderr.as_str()), (Some(1), "scancel: error: Invalid job id 1.7\n"));
    submitter.lq(&["cancel", "1.7"]).failed("job 1 has no step 7: it has had 1");
    slurm(submitter, &["scancel", "1.0"]).succeeded();
    until("the script goes on", || submitter.path("code.0").exists().then_some(()));
    until("the second step runs", || runs("1.1"));
    let shown = submitter.lq(&["show", "1.1"]).succeeded();
    assert!(shown.contains("1.1") && shown.contains("sleep 1000"), "{shown}");
    submitter.lq(&["cancel", "1.1"]).succeeded();
    until("the script goes on", || submitter.path("code.1").exists().then_some(()));
    assert_eq!(submitter.state(job), "running");
    assert!(submitter.lq(&["show", "1.0"]).succeeded().contains("cancelled"));
    fs::write(submitter.path("over"), "").expect("written");
    assert_eq!(submitter.wait(job), Some(0));
}

#[test]
fn each_task_of_srun_may_have_its_own_program() {
    let cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter();
    script(submitter, "job.sh", "");
    fs::write(submitter.path("tasks.conf"), "# programs\n0 echo first %t\n1-2 sh -c 'echo \"other $0 $1\"' %t %o\n")
        .expect("written");
    let ran = slurm(submitter, &["srun", "-N", "2", "-n", "3", "-l", "--multi-prog", "tasks.conf"]);
    assert_eq!(sorted_lines(&ran.succeeded()), "0: first 0\n1: other 1 0\n2: other 2 1\n");
    let ran = slurm(submitter, &["srun", "-n", "4", "--multi-prog", "tasks.conf"]);
    let words = "srun: fatal: tasks.conf: no record for task id 3\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), words));
}

#[test]
fn a_step_knows_the_task_of_its_array() {
    let cluster = Setup::nodes(1, 2).start();
    let submitter = cluster.submitter();
    script(submitter, "job.sh", "srun -n 1 printenv SLURM_ARRAY_TASK_ID LIMO_ARRAY_TASK_ID SLURM_STEP_ID\n");
    slurm(submitter, &["sbatch", "-W", "-a", "1-2", "-o", "out-%a.txt", "job.sh"]).succeeded();
    assert_eq!([1, 2].map(|task| submitter.read(format!("out-{task}.txt"))), ["1\n1\n0\n", "2\n2\n0\n"]);
}

const RING: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* The node of the daemon that started this rank: MPICH gives ranks the variables of mpirun. */
static const char *node(void) {
    static char text[1 << 20];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)getppid());
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (!strncmp(text + at, "LIMO_NODE=", 10)) return text + at + 10;
    return "?";
}
int main(int argc, char **argv) {
    int rank, size, token = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token += rank;
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("ring of %d: %d\n", size, token);
    } else {
        printf("rank %d on %s\n", rank, node());
    }
    MPI_Finalize();
    return 0;
}
"#;

/// Runs a ring of eight ranks over four nodes.
fn ring(family: &str, run: &str) {
    let compiler = format!("mpicc.{family}");
    if Command::new(&compiler).arg("--version").output().is_err() {
        return skip(Requirement::Program, &format!("{compiler} is missing"));
    }
    let cluster: Cluster = Setup::nodes(4, 2).start();
    let submitter = cluster.submitter();
    script(submitter, "job.sh", &format!("{run} ./ring\n"));
    fs::write(submitter.path("ring.c"), RING).expect("written");
    let built = Command::new(&compiler).args(["-o", "ring", "ring.c"]).current_dir(submitter.path(".")).output();
    assert!(built.as_ref().is_ok_and(|built| built.status.success()), "{built:?}");
    let ran = slurm(submitter, &["sbatch", "-W", "-N", "4", "-n", "8", "-o", "out.txt", "job.sh"]);
    let text = submitter.read("out.txt");
    assert_eq!(ran.code, Some(0), "{ran:?}\n{text}");
    // 1 and the sum of 0 to 7.
    assert!(text.lines().any(|line| line == "ring of 8: 29"), "{text}");
    for (rank, node) in [(1, "n1"), (3, "n2"), (5, "n3"), (7, "n4")] {
        assert!(text.lines().any(|line| line == format!("rank {rank} on {node}")), "{text}");
    }
}

#[test]
fn open_mpi_starts_its_ranks_by_steps() {
    // The nodes are one machine, so its shared memory would be taken for that of each.
    ring("openmpi", "mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl self,tcp");
}

#[test]
fn mpich_starts_its_ranks_by_steps() {
    ring("mpich", "mpirun.mpich");
}
