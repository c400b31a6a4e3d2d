//! The speed of single commands, of arrays, and of streams.

use std::fs::File;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::figure::{Aim, Elsewhere, Part, median};
use super::relay;
use super::site::{Site, place, took_ms};
use crate::demo::Cluster;

const TRUE: &[Elsewhere] = &[
    Elsewhere { who: "Slurm 22.05, tuned", found: "srun -Q true 34 ms beside fork and exec in 0.85 ms" },
    Elsewhere { who: "HyperQueue 0.26", found: "submit --wait -- true 10.6 ms at best, 64 ms at the median" },
];

const ARRAYS: &[Elsewhere] = &[
    Elsewhere { who: "Slurm 22.05, tuned", found: "32 to 46 jobs/s beside posix_spawn at 1,300 to 2,400/s" },
    Elsewhere { who: "HyperQueue 0.26", found: "1,085 to 1,118 tasks/s beside posix_spawn at 1,950 to 1,983/s" },
];

const STDIO: &[Elsewhere] =
    &[Elsewhere { who: "Slurm 22.05", found: "srun -Q cat 23 MB/s there and back, 88 MB/s of stdin alone" }];

/// Tasks of an array that run at a time: enough to hide the latency of each.
const AT_ONCE: u32 = 32;

/// Alternates `lrun -Q true` with a process that only starts and ends.
pub async fn one(site: &Site) -> Result<Part> {
    let place = place()?;
    let cluster = site.cluster(place.path(), "", &[&["--cpus", "2"]]).await?;
    let mut part = Part::new("true", "a command that does nothing, from its start to its end; medians, in turns", TRUE);
    let (mut plain, mut bare, mut limo, mut other) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 0..site.so_many(200) {
        plain.push(took_ms(&mut Command::new("true"))?);
        bare.push(took_ms(cluster.client("lrun").arg("--version"))?);
        limo.push(took_ms(cluster.client("lrun").args(["-Q", "true"]))?);
        // Fewer runs of Slurm are enough, because it takes ten times as long.
        if let Some(slurm) = site.slurm.as_ref().filter(|_| turn % 4 == 0) {
            other.push(took_ms(slurm.command("srun").args(["-Q", "true"]))?);
        }
    }
    part.row("plain_ms", "fork, exec and wait", median(&plain));
    part.row("lrun_version_ms", "lrun --version: the same of a larger program", median(&bare));
    part.row("lrun_ms", "lrun -Q true", median(&limo));
    part.aim("above_plain_ms", "above fork, exec and wait", (median(&limo) - median(&plain), Aim::AtMost(5.0)));
    if let Some(slurm) = &site.slurm {
        part.row("srun_ms", format!("srun -Q true ({})", slurm.version), median(&other));
        part.row("srun_to_lrun_ratio", "srun in times of lrun", median(&other) / median(&limo));
    }
    Ok(part)
}

/// Compares an array of `true` with a loop that spawns as many processes and waits for each.
pub async fn arrays(site: &Site) -> Result<Part> {
    let place = place()?;
    let slots = AT_ONCE.to_string();
    let cluster = site.cluster(place.path(), "", &[&["--cpus", &slots]]).await?;
    let tasks = site.so_many(4000);
    let what = format!(
        "{tasks} tasks of `true` without output, {AT_ONCE} at a time on one node, from the submission to the end of the last"
    );
    let mut part = Part::new("arrays", what, ARRAYS);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (mut one, mut all, mut limo, mut other) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        one.push(spawn_rate(tasks, 1)?);
        all.push(spawn_rate(tasks, threads)?);
        limo.push(array_rate(&cluster, tasks)?);
        if let Some(slurm) = &site.slurm {
            other.push(slurm_array_rate(slurm, site.so_many(200))?);
        }
    }
    part.row("spawn_per_s", "posix_spawn and wait, one after the other", median(&one));
    part.row("spawn_all_cores_per_s", format!("the same on {threads} threads"), median(&all));
    part.row("lrun_per_s", "lrun --array", median(&limo));
    part.aim("lrun_to_spawn_ratio", "share of posix_spawn and wait", (median(&limo) / median(&one), Aim::AtLeast(0.6)));
    if let Some(slurm) = &site.slurm {
        part.row("sbatch_per_s", format!("sbatch --array ({})", slurm.version), median(&other));
    }
    Ok(part)
}

fn spawn_rate(count: usize, threads: usize) -> Result<f64> {
    let begin = Instant::now();
    let spawn = move || -> Result<()> {
        for _ in 0..count / threads {
            let mut command = Command::new("true");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            ensure!(command.status().context("cannot run true")?.success(), "true failed");
        }
        Ok(())
    };
    let running: Vec<_> = (0..threads).map(|_| thread::spawn(spawn)).collect();
    for thread in running {
        thread.join().map_err(|_| anyhow::anyhow!("a thread failed"))??;
    }
    Ok((count / threads * threads) as f64 / begin.elapsed().as_secs_f64())
}

fn array_rate(cluster: &Cluster<'_>, tasks: usize) -> Result<f64> {
    let range = format!("0-{}", tasks - 1);
    let mut command = cluster.client("lrun");
    command.args(["--detach", "-Q", "--wait", "--array", &range, "--output", "/dev/null", "true"]);
    Ok(tasks as f64 / took_ms(&mut command)? * 1000.0)
}

fn slurm_array_rate(slurm: &super::slurm::Slurm, tasks: usize) -> Result<f64> {
    let array = format!("--array=1-{tasks}");
    let mut command = slurm.command("sbatch");
    command.args(["-Q", "--wait", &array, "--output=/dev/null", "--wrap", "true"]);
    Ok(tasks as f64 / took_ms(&mut command)? * 1000.0)
}

/// Compares `lrun cat` with a relay of the same bytes.
pub async fn stdio(site: &Site) -> Result<Part> {
    let place = place()?;
    let cluster = site.cluster(place.path(), "", &[&["--cpus", "2"]]).await?;
    let bytes = site.so_many(200_000_000);
    let file = place.path().join("input");
    std::fs::write(&file, vec![b'x'; bytes]).with_context(|| format!("cannot write {}", file.display()))?;
    let what = format!("{} MB through `lrun -Q cat`, there and back", bytes / 1_000_000);
    let mut part = Part::new("stdio", what, STDIO);
    let (mut limit, mut piped, mut limo, mut other) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..site.so_many(5).max(2) {
        limit.push(relay::mb_per_s(bytes)?);
        piped.push(relay::piped_mb_per_s(bytes)?);
        limo.push(bytes as f64 / 1e3 / cat_ms(cluster.client("lrun").args(["-Q", "cat"]), &file)?);
        if let Some(slurm) = &site.slurm {
            other.push(bytes as f64 / 1e3 / cat_ms(slurm.command("srun").args(["-Q", "cat"]), &file)?);
        }
    }
    part.row("relay_mb_per_s", "a relay over loopback, two hops there and two back", median(&limit));
    part.row("piped_mb_per_s", "the same with `cat` at its far end and a pipe home", median(&piped));
    part.row("lrun_mb_per_s", "lrun -Q cat", median(&limo));
    part.aim("lrun_to_relay_ratio", "share of the relay", (median(&limo) / median(&limit), Aim::AtLeast(0.6)));
    part.row("lrun_to_piped_ratio", "share of the relay with pipes", median(&limo) / median(&piped));
    if let Some(slurm) = &site.slurm {
        part.row("srun_mb_per_s", format!("srun -Q cat ({})", slurm.version), median(&other));
    }
    Ok(part)
}

/// The bytes that were read are counted, so that lost bytes do not count as speed.
fn cat_ms(command: &mut Command, file: &std::path::Path) -> Result<f64> {
    let expected = file.metadata()?.len();
    command.stdin(File::open(file)?).stdout(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let mut out = child.stdout.take().context("stdout is not there")?;
    let came = relay::read_all(&mut out)? as u64;
    let status = child.wait()?;
    let took = begin.elapsed().as_secs_f64() * 1000.0;
    ensure!(status.success() && came == expected, "{came} of {expected} bytes came back ({status})");
    Ok(took)
}
