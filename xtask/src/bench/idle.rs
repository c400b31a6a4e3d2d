//! Many idle nodes, and the metrics of their master.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limo_model::Meter;
use limo_proto::{Alive, HEARTBEAT};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::crowd::{Life, may_open, nodes};
use super::figure::{Aim, Part, median};
use super::site::{Site, cpu_s, place, resident_bytes};

/// Measures ten thousand idle nodes that only give signs of life, on the default socket of the master's machine and
/// on loopback.
pub async fn idle(site: &Site) -> Result<Part> {
    let count = site.so_many(10_000);
    let files = may_open(count)?;
    let place = place()?;
    let what = format!("{count} registered nodes without a meter that only send heartbeats");
    let mut part = Part::new("idle", what, &[]);
    for over_tcp in [false, true] {
        let (key, over) = if over_tcp { ("_tcp", "loopback") } else { ("", "the Unix socket") };
        let dir = place.path().join(format!("master{key}"));
        fs::create_dir(&dir)?;
        let cluster = site.cluster(&dir, "web = \"127.0.0.1:0\"\n", &[]).await?;
        let socket = cluster.socket();
        let address = if over_tcp { cluster.address() } else { &socket };
        let web = fs::read_to_string(cluster.state_dir().join("web-address")).context("no metrics are served")?;
        let idle = watch_idle(site, (cluster.master_pid(), address, web.trim()), count).await?;
        part.row(format!("registered{key}_s"), format!("over {over}, until all are registered"), idle.registered_s);
        part.aim(format!("core{key}_percent"), "of a core", (idle.core_percent, Aim::AtMost(2.0)));
        part.aim(format!("per_node{key}_kib"), "memory of the master for each", (idle.per_node_kib, Aim::AtMost(20.0)));
        part.row(format!("heartbeats{key}_per_s"), "heartbeats requested and answered", idle.beats_per_s);
        part.aim(
            format!("metrics{key}_ms"),
            "an answer with all metrics, median",
            (idle.metrics_ms, Aim::AtMost(50.0)),
        );
    }
    part.note("over loopback, the master's process also does the work of the kernel that receives at its nodes");
    part.note(format!("{files} open files were allowed"));
    Ok(part)
}

/// Measures the cost of idle nodes for their master.
struct Idle {
    registered_s: f64,
    core_percent: f64,
    per_node_kib: f64,
    beats_per_s: f64,
    metrics_ms: f64,
}

/// Requests the metrics several times; returns the median time of an answer in milliseconds.
pub async fn scrape(web: &str, nodes: usize) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let begin = Instant::now();
        let mut stream = TcpStream::connect(web).await.context("nobody serves metrics")?;
        stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {web}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        let found = answer.lines().filter(|line| line.starts_with("limo_node_power_watts{")).count();
        let status = answer.lines().next().unwrap_or_default();
        ensure!(found == nodes, "the metrics have {found} of {nodes} nodes: {status}");
    }
    Ok(median(&times))
}

async fn watch_idle(site: &Site, (master, address, web): (u32, &str, &str), count: usize) -> Result<Idle> {
    let before = resident_bytes(master)?;
    let begin = Instant::now();
    let answered = Arc::new(AtomicUsize::new(0));
    let (alive, mut beating) = (Alive::new(HEARTBEAT), JoinSet::new());
    let pause = HEARTBEAT / u32::try_from(count)?;
    let mut turn = 0;
    nodes(address, count, Meter::None, |line| {
        let begin = Instant::now() + pause * turn;
        let life = Life { alive: alive.clone(), begin, answered: Arc::clone(&answered) };
        beating.spawn(life.live(line, std::future::pending));
        turn += 1;
    })
    .await?;
    let registered_s = begin.elapsed().as_secs_f64();
    // Work from the last registration does not belong to the idle state, and each node must have sent a ping.
    tokio::time::sleep(HEARTBEAT * 2).await;
    let resident = resident_bytes(master)? - before;
    let watched = Duration::from_secs(if site.quick { 3 } else { 20 });
    let (cpu, begin, beats) = (cpu_s(master)?, Instant::now(), answered.load(Ordering::Relaxed));
    tokio::time::sleep(watched).await;
    let took = begin.elapsed().as_secs_f64();
    let idle = Idle {
        registered_s,
        core_percent: (cpu_s(master)? - cpu) / took * 100.0,
        per_node_kib: resident / count as f64 / 1024.0,
        beats_per_s: (answered.load(Ordering::Relaxed) - beats) as f64 / took,
        metrics_ms: scrape(web, count).await?,
    };
    ensure!(beating.try_join_next().is_none(), "a node was hung up on");
    Ok(idle)
}
