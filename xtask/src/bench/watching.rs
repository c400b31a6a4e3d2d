//! The cost of watching for owners at a node.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::libc::O_NONBLOCK;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::time::Instant;

use super::figure::{Aim, Part};
use super::site::{Site, cpu_s, place};

/// Time between two events of the mouse.
const EVENTS_EVERY: Duration = Duration::from_millis(10);

/// Size of an event of an input device.
const EVENT_BYTES: usize = 24;

/// The file by which the source `tty` knows who is logged in. Some machines have none.
const UTMP: &str = "/run/utmp";

/// Percent of a core that watching may take.
const MOST: f64 = 0.1;

/// Measures nodes that each watch another source, beside a node without an owner, all at the same time.
pub async fn watching(site: &Site) -> Result<Part> {
    let place = place()?;
    let mut mouse = mouse(&place.path().join("dev/input"))?;
    let dev = place.path().join("dev").display().to_string();
    let mut sources =
        vec![("input", "with a mouse that sends 100 events a second"), ("load", "looks at all processes")];
    sources.extend(Path::new(UTMP).exists().then_some(("tty", "looks at all terminals")));
    let options: Vec<Vec<&str>> = sources.iter().map(|(source, _)| vec!["--owner", *source, "--dev", &dev]).collect();
    let options: Vec<&[&str]> = [&[][..]].into_iter().chain(options.iter().map(Vec::as_slice)).collect();
    let cluster = site.cluster(place.path(), "", &options).await?;
    let events = tokio::spawn(async move {
        let mut turns = tokio::time::interval(EVENTS_EVERY);
        loop {
            turns.tick().await;
            // The node empties a full pipe at its next look.
            let _ = mouse.write(&[0; EVENT_BYTES]);
        }
    });
    let (settle, watched) = if site.quick { (1, 2) } else { (5, 60) };
    tokio::time::sleep(Duration::from_secs(settle)).await;
    let used = || cluster.node_pids().map(cpu_s).collect::<Result<Vec<f64>>>();
    let (before, begin) = (used()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(watched)).await;
    let took = begin.elapsed().as_secs_f64();
    let percents: Vec<f64> = used()?.iter().zip(before).map(|(now, before)| (now - before) / took * 100.0).collect();
    events.abort();
    let mut part = Part::new("watching", "nodes that watch for their owners, less a node without an owner", &[]);
    let (alone, watching) = percents.split_first().context("no node was measured")?;
    part.row("alone_percent", "a node without an owner, of a core", *alone);
    for ((source, what), percent) in sources.iter().zip(watching) {
        let figure = (percent - alone, Aim::AtMost(MOST));
        part.aim(format!("{source}_percent"), format!("`--owner {source}`: {what}"), figure);
    }
    let processes = fs::read_dir("/proc")?.flatten();
    let processes = processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count();
    part.note(format!("{processes} processes; the kernel counts processor time in hundredths of a second"));
    Ok(part)
}

/// Makes an input device in a new directory, and opens it for writing.
fn mouse(directory: &Path) -> Result<File> {
    fs::create_dir_all(directory)?;
    let device = directory.join("event0");
    mkfifo(&device, Mode::S_IRUSR | Mode::S_IWUSR).context("cannot make a pipe")?;
    // Open for reading as well, so that it opens before the node reads.
    OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(&device).context("cannot open the pipe")
}
