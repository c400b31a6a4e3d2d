//! Clients of Slurm that were written elsewhere, unmodified, on a master and two nodes through `lslurm`: each has a job that
//! ends, one that fails, and, if it can cancel, one that is cancelled. `tests/clients/install.sh` installs them.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Ran, Setup, finish_within, programs, sorted_lines, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Variable with the virtual environment of the clients.
const CLIENTS: &str = "LIMO_CLIENTS";

/// Longest time of a client. Python and its packages start slowly on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

const COMMANDS: [&str; 8] = ["sbatch", "srun", "squeue", "scancel", "sacct", "sinfo", "scontrol", "sacctmgr"];

struct Site {
    cluster: Cluster,
    environment: PathBuf,
}

impl Site {
    /// Starts a cluster, or skips the test if one of these modules of Python is not installed.
    fn with(modules: &[&str]) -> Option<Self> {
        let Some(environment) = env::var_os(CLIENTS).map(PathBuf::from) else {
            skip(Requirement::Program, &format!("{CLIENTS} is not set: tests/clients/install.sh installs the clients"));
            return None;
        };
        for module in modules {
            let mut python = Command::new(environment.join("bin/python"));
            let found = python.args(["-c", &format!("import {module}")]).output();
            if !found.is_ok_and(|output| output.status.success()) {
                skip(Requirement::Program, &format!("{} has no module {module}", environment.display()));
                return None;
            }
        }
        let cluster = Setup::nodes(2, 2).start();
        let bin = cluster.submitter().path("bin");
        fs::create_dir(&bin).expect("made");
        for name in COMMANDS.iter().chain(&["lslurm"]) {
            symlink(programs::path("lslurm"), bin.join(name)).expect("a link");
        }
        Some(Self { cluster, environment })
    }

    /// Makes a command that finds Slurm's commands and the programs of the environment.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let submitter = self.cluster.submitter();
        let mut command = submitter.command_of(&self.environment.join("bin").join(program), arguments);
        let own = [submitter.path("bin"), self.environment.join("bin")];
        let before = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(own.into_iter().chain(env::split_paths(&before))).expect("no colons");
        command.env("PATH", path).env("HOME", submitter.path("")).env("PYTHONUNBUFFERED", "1");
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Ran {
        finish_within(LIMIT, self.command(program, arguments).spawn().expect("it is installed"))
    }

    /// Runs a script of `tests/clients`, and returns its lines.
    fn script(&self, name: &str, arguments: &[&str]) -> String {
        let path = script(name);
        self.run("python", &[&[path.as_str()], arguments].concat()).succeeded()
    }

    /// Interrupts a client while its job runs, and checks that the client has cancelled the job.
    fn interrupts(&self, program: &str, arguments: &[&str]) {
        let submitter = self.cluster.submitter();
        let client = self.command(program, arguments).spawn().expect("it is installed");
        let job = until("the job runs", || submitter.read("running.txt").trim().parse::<u64>().ok());
        kill(Pid::from_raw(i32::try_from(client.id()).expect("a number")), Signal::SIGINT).expect("an own child");
        let ran = finish_within(LIMIT, client);
        // Some clients end by the signal itself.
        assert_ne!(ran.code, Some(0), "{ran:?}");
        submitter.wait(job);
        assert_eq!(submitter.state(job), "cancelled");
    }
}

fn script(name: &str) -> String {
    format!("{}/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn psij_runs_jobs() {
    let Some(site) = Site::with(&["psij"]) else { return };
    assert_eq!(site.script("run_psij.py", &[]), "success COMPLETED\nfailure FAILED 3\ncancelled CANCELED\n");
}

#[test]
fn dask_jobqueue_runs_workers() {
    let Some(site) = Site::with(&["dask_jobqueue"]) else { return };
    assert_eq!(site.script("run_dask.py", &[]), "success 21\nfailure ZeroDivisionError\ncancelled CANCELLED\n");
}

/// Runs applications in a block of this launcher.
fn parsl(launcher: &str) {
    let Some(site) = Site::with(&["parsl"]) else { return };
    let lines = site.script("run_parsl.py", &[launcher]);
    assert_eq!(lines, "success 21\nfailure ZeroDivisionError\nbroken FAILED\ncancelled CANCELLED\n");
}

#[test]
fn parsl_runs_blocks_on_single_nodes() {
    parsl("SingleNodeLauncher");
}

#[test]
fn parsl_runs_blocks_by_steps() {
    parsl("SrunLauncher");
}

#[test]
fn submitit_runs_functions_by_steps() {
    let Some(site) = Site::with(&["submitit"]) else { return };
    let expected = "success 21\narray [42, 21, 14]\nfailure True FAILED\ncancelled CANCELLED\n";
    assert_eq!(site.script("run_submitit.py", &[]), expected);
}

#[test]
fn snakemake_runs_rules_by_steps() {
    let Some(site) = Site::with(&["snakemake", "snakemake_executor_plugin_slurm"]) else { return };
    let path = script("Snakefile");
    let submitter = site.cluster.submitter();
    let line = |rule: &'static str| {
        let line = ["-s", &path, "--executor", "slurm", "--jobs", "4", "--latency-wait", "30"];
        let quick = ["--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"];
        let queue = ["--slurm-array-jobs", "part", "--default-resources", "slurm_partition=main", "runtime=5"];
        [&line[..], &quick[..], &queue[..], &["--", rule]].concat()
    };
    let run = |rule| site.run("snakemake", &line(rule));
    let ran = run("good");
    assert_eq!((ran.code, submitter.read("good.txt").as_str()), (Some(0), "done\n"), "{ran:?}");
    let ran = run("bad");
    assert!(ran.code == Some(1) && ran.stderr.contains("Error in rule bad"), "{ran:?}");
    let ran = run("parts");
    let tasks = sorted_lines(&submitter.read("parts.txt"));
    assert_eq!((ran.code, tasks.as_str()), (Some(0), "1\n2\n"), "tasks of an array: {ran:?}");
    let ran = run("bad_parts");
    assert!(ran.code == Some(1) && ran.stderr.contains("Error in rule part"), "{ran:?}");
    let ran = run("second");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(submitter.read("first.txt"), submitter.read("second.txt"), "a group is one job");
    site.interrupts("snakemake", &line("endless"));
}

#[test]
fn executorlib_runs_functions_by_pysqa() {
    let Some(site) = Site::with(&["executorlib", "pysqa"]) else { return };
    assert_eq!(site.script("run_executorlib.py", &[]), "success 21\nfailure ZeroDivisionError\ncancelled CANCELLED\n");
}

#[test]
fn toil_runs_workflows() {
    let Some(site) = Site::with(&["toil"]) else { return };
    let path = script("run_toil.py");
    let line =
        |by: &'static str, store: &'static str| [&path, by, store, "--batchSystem", "slurm", "--retryCount", "0"];
    let run = |by, store| site.run("python", &line(by, store));
    let ran = run("2", "file:good");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "success 21\n"), "{}", ran.stderr);
    let ran = run("0", "file:bad");
    assert!(ran.code == Some(1) && ran.stderr.contains("ZeroDivisionError"), "{ran:?}");
    site.interrupts("python", &line("endless", "file:endless"));
}

#[test]
fn snakemake_runs_rules_by_its_generic_executor() {
    let Some(site) = Site::with(&["snakemake", "snakemake_executor_plugin_cluster_generic"]) else { return };
    let (path, submitter) = (script("Snakefile"), site.cluster.submitter());
    let line = |rule: &'static str| {
        let mut line = vec!["-s", &path, "--executor", "cluster-generic", "--jobs", "2", "--latency-wait", "30"];
        line.extend(["--cluster-generic-submit-cmd", "sbatch --parsable", "--cluster-generic-cancel-cmd", "scancel"]);
        line.push(rule);
        line
    };
    let ran = site.run("snakemake", &line("good"));
    assert_eq!((ran.code, submitter.read("good.txt").as_str()), (Some(0), "done\n"), "{ran:?}");
    let ran = site.run("snakemake", &line("bad"));
    assert!(ran.code == Some(1) && ran.stderr.contains("Error in rule bad"), "{ran:?}");
    site.interrupts("snakemake", &line("endless"));
}
