//! Rates of submissions and array tasks, and the time of a restart after a crash. There are no nodes, so no job runs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::caller::Caller;
use super::figure::{Aim, Elsewhere, Part, median};
use super::site::{Site, dir_bytes, place, resident_bytes, took_ms};

const SUBMISSIONS: &[Elsewhere] = &[
    Elsewhere { who: "Slurm 22.05, tuned", found: "sbatch 111/s one after the other, 264/s from 8 at once" },
    Elsewhere { who: "HyperQueue 0.26", found: "submit 77/s one after the other, 148/s from 2 at once" },
];

const MILLION: &[Elsewhere] = &[Elsewhere { who: "HyperQueue 0.26", found: "2.8 s, about 365 B a task" }];

const SURVIVE: &[Elsewhere] =
    &[Elsewhere { who: "Slurm 22.05", found: "0 or 1 of 30 within 3 s of their acknowledgement, all 30 after 10 s" }];

/// Number of concurrent clients.
const CLIENTS: usize = 16;

/// Bytes of one write of the comparison: a page of the journal.
const PAGE: usize = 4096;

/// Approximate bytes of a submission.
const SUBMISSION: usize = 1300;

/// Bytes of the answer.
const ANSWER: usize = 16;

/// Alternates submissions, each answered before the next is sent, with writes to the same disk.
pub async fn submissions(site: &Site) -> Result<Part> {
    let place = place()?;
    let cluster = site.cluster(place.path(), "", &[]).await?;
    let mut part =
        Part::new("submissions", "jobs accepted a second: each is on disk before its number is told", SUBMISSIONS);
    let count = site.so_many(400);
    let (mut disk, mut bare, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut process, mut other) = (Vec::new(), Vec::new());
    let mut caller = Caller::connect(cluster.address()).await?;
    for _ in 0..5 {
        disk.push(sync_rate(&cluster.state_dir(), count)?);
        bare.push(served_rate(&cluster.state_dir(), count)?);
        let begin = Instant::now();
        for _ in 0..count {
            caller.submit().await?;
        }
        one.push(count as f64 / begin.elapsed().as_secs_f64());
        many.push(many_rate(cluster.address(), count).await?);
        process.push(1000.0 / took_ms(cluster.client("lrun").args(["--detach", "-Q", "true"]))?);
        if let Some(slurm) = &site.slurm {
            other.push(1000.0 / took_ms(slurm.command("sbatch").args(["-Q", "-H", "--wrap", "true"]))?);
        }
    }
    for _ in 0..site.so_many(100) {
        process.push(1000.0 / took_ms(cluster.client("lrun").args(["--detach", "-Q", "true"]))?);
        if let Some(slurm) = &site.slurm {
            other.push(1000.0 / took_ms(slurm.command("sbatch").args(["-Q", "-H", "--wrap", "true"]))?);
        }
    }
    part.row("disk_per_s", "write of 4 KiB and fdatasync in the same directory", median(&disk));
    part.row("served_per_s", "the same by a server that does only that, for each request over loopback", median(&bare));
    part.row("one_connection_per_s", "one after the other over one connection", median(&one));
    part.aim("one_to_disk_ratio", "share of the disk", (median(&one) / median(&disk), Aim::AtLeast(0.8)));
    part.row("one_to_served_ratio", "share of that server", median(&one) / median(&bare));
    let label = format!("{CLIENTS} connections at once, each one after the other");
    part.aim("clients_per_s", label, (median(&many), Aim::AtLeast(1000.0)));
    part.row("process_per_s", "one after the other by `lrun --detach`, a process each", median(&process));
    if let Some(slurm) = &site.slurm {
        part.row("sbatch_per_s", format!("one after the other by sbatch ({})", slurm.version), median(&other));
    }
    Ok(part)
}

/// Makes a file to write page by page, each on disk before the next; the file is removed when it is dropped.
fn file_of_pages(dir: &Path) -> Result<File> {
    let path = dir.join("bench.tmp");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn write_page(file: &File, index: usize) -> std::io::Result<()> {
    file.write_all_at(&[b'x'; PAGE], (index * PAGE) as u64)?;
    file.sync_data()
}

/// Returns the rate of writes that append to a file, each on disk before the next.
fn sync_rate(dir: &Path, count: usize) -> Result<f64> {
    let file = file_of_pages(dir)?;
    let begin = Instant::now();
    for index in 0..count {
        write_page(&file, index)?;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

/// Returns the rate of a server that also receives and answers a request for each write: an upper bound for durable
/// submissions over loopback.
fn served_rate(dir: &Path, count: usize) -> Result<f64> {
    let file = file_of_pages(dir)?;
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut request = [0; SUBMISSION];
        for index in 0..count {
            stream.read_exact(&mut request)?;
            write_page(&file, index)?;
            stream.write_all(&[b'x'; ANSWER])?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address).context("cannot connect over loopback")?;
    stream.set_nodelay(true)?;
    let mut answer = [0; ANSWER];
    let begin = Instant::now();
    for _ in 0..count {
        stream.write_all(&[b'x'; SUBMISSION])?;
        stream.read_exact(&mut answer)?;
    }
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    server.join().unwrap_or(Ok(())).context("the server broke")?;
    Ok(rate)
}

async fn many_rate(address: &str, count: usize) -> Result<f64> {
    let mut callers = Vec::new();
    for _ in 0..CLIENTS {
        callers.push(Caller::connect(address).await?);
    }
    let begin = Instant::now();
    let tasks: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            tokio::spawn(async move {
                for _ in 0..count / 4 {
                    caller.submit().await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok((count / 4 * CLIENTS) as f64 / begin.elapsed().as_secs_f64())
}

/// Measures an array of a million tasks.
pub async fn million(site: &Site) -> Result<Part> {
    const TASKS: f64 = 1e6;
    let mut part = Part::new("million", "an array of a million tasks, by `lrun --detach --array 0-999999`", MILLION);
    let (mut took, mut resident, mut journal) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..if site.quick { 1 } else { 3 } {
        let place = place()?;
        let cluster = site.cluster(place.path(), "", &[]).await?;
        let before = dir_bytes(&cluster.state_dir())?;
        took.push(took_ms(cluster.client("lrun").args(["--detach", "-Q", "--array", "0-999999", "true"]))? / 1000.0);
        journal.push(dir_bytes(&cluster.state_dir())? - before);
        resident.push(resident_bytes(cluster.master_pid())? / f64::from(1 << 20));
    }
    part.aim("accepted_s", "until it is accepted", (median(&took), Aim::AtMost(1.0)));
    part.aim("resident_mib", "memory of the master with it", (median(&resident), Aim::AtMost(100.0)));
    part.row("journal_bytes", "on disk", median(&journal));
    part.row("per_task_bytes", "on disk, for each task", median(&journal) / TASKS);
    Ok(part)
}

/// Counts the acknowledged jobs that survive `kill -9` of the master.
pub async fn survive(site: &Site) -> Result<Part> {
    const JOBS: usize = 30;
    let mut part = Part::new("survive", "of 30 acknowledged jobs, those that `kill -9` of the master leaves", SURVIVE);
    for after_s in [0, 1, 3] {
        let place = place()?;
        let mut cluster = site.cluster(place.path(), "", &[]).await?;
        let mut numbers = Vec::new();
        for _ in 0..JOBS {
            numbers.push(cluster.ask("lrun", &["--detach", "true"]).await?.trim().to_owned());
        }
        tokio::time::sleep(Duration::from_secs(after_s)).await;
        cluster.kill_master().await?;
        let listed: serde_json::Value = serde_json::from_str(&cluster.ask("lq", &["--json"]).await?)?;
        let listed = listed["jobs"].as_array().context("`lq --json` lists no jobs")?;
        let listed: Vec<String> = listed.iter().map(|job| job["id"].to_string()).collect();
        let left = numbers.iter().filter(|number| listed.contains(number)).count();
        let next = cluster.ask("lrun", &["--detach", "true"]).await?;
        ensure!(!numbers.contains(&next.trim().to_owned()), "the number {} was given twice", next.trim());
        let label = format!("killed {after_s} s after the last acknowledgement");
        part.aim(format!("left_after_{after_s}_seconds"), label, (left as f64, Aim::AtLeast(JOBS as f64)));
    }
    Ok(part)
}
