//! Many nodes in one process, which use the protocol without running jobs. They measure the cost of a large cluster
//! for its master.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use limo_model::{
    Containment, Cores, JournalId, Memory, Meter, NodeSpec, Outcome, Power, Request, Span, UnitKind, UnitSpec, Usage,
};
use limo_proto::{
    Alive, Beat, Connection, Frame, HEARTBEAT, MasterToNode, NewSlave, NodeToMaster, Received, Registration, Role,
    Sign, Trusted, connect,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::caller::Caller;
use super::figure::{Aim, Part, median, quantile};
use super::site::{Site, cpu_s, place, raise_open_files, resident_bytes};
use crate::demo::Cluster;

const CORES: u32 = 16;

/// Longest wait; only an event that never comes takes longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Longest time for measuring ends, because a slow round appears in few of them.
const ENOUGH: Duration = Duration::from_secs(60);

/// Connections that are made at a time, fewer than fit into the listener's queue.
const CALLS: usize = 64;

/// Open files apart from connections.
const OTHER_FILES: u64 = 500;

type Line = Connection<MasterToNode, NodeToMaster>;

fn slave(name: &str, meter: Meter) -> Registration {
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "bench".into(),
        kind: UnitKind::Cpu,
        cores: CORES,
        nameplate: Power::from_watts(200),
        caps: None,
    };
    let spec = NodeSpec {
        name: name.to_owned(),
        units: vec![unit],
        memory: Memory::from_bytes(64 << 30),
        idle: Power::from_watts(50),
        meter,
        rest: None,
    };
    let (instance, boot) = (format!("instance of {name}"), "boot".into());
    let slave = NewSlave {
        journal: JournalId::default(),
        spec,
        instance,
        boot,
        containment: Containment::FULL,
        unfit: None,
        owner: None,
    };
    Registration { slave, attempts: Vec::new() }
}

/// Registers nodes, and hands out each as soon as it is registered: it must give signs of life from then on.
pub async fn nodes(address: &str, count: usize, meter: Meter, mut each: impl FnMut(Line)) -> Result<()> {
    let mut calls: JoinSet<Result<Line>> = JoinSet::new();
    for index in 0..count {
        if calls.len() == CALLS {
            calls.join_next().await.transpose()?.transpose()?.into_iter().for_each(&mut each);
        }
        let address = address.to_owned();
        calls.spawn(async move {
            let mut line: Line = connect(&address.parse()?, Role::Node, &Trusted::own()).await?;
            let mut registration = slave(&format!("node-{index}"), meter);
            registration.slave.journal = line.identity.journal;
            for message in registration.into_messages() {
                line.writer.feed(&Frame::Message(message)).await?;
            }
            line.writer.flush().await?;
            match line.reader.next().await? {
                Some(Frame::Message(MasterToNode::Registered)) => Ok(line),
                other => bail!("a node was not registered: {other:?}"),
            }
        });
    }
    while let Some(line) = calls.join_next().await {
        each(line??);
    }
    Ok(())
}

pub fn may_open(count: usize) -> Result<u64> {
    let files = raise_open_files()?;
    let needed = count as u64 + OTHER_FILES;
    ensure!(files >= needed, "{needed} open files are needed, {files} are allowed: ulimit -Hn {needed}");
    Ok(files)
}

/// The connection of a node that only gives signs of life and reports.
pub struct Life {
    pub alive: Alive,
    /// Time of the first sign.
    pub begin: Instant,
    /// Number of signs that the master has answered.
    pub answered: Arc<AtomicUsize>,
}

impl Life {
    /// Gives signs of life as `lslave` does, and sends each frame from `next`.
    pub async fn live(self, mut line: Line, mut next: impl AsyncFnMut() -> Frame<NodeToMaster>) -> Result<()> {
        tokio::time::sleep_until(self.begin).await;
        let mut beats = self.alive.caller(self.begin);
        loop {
            let said = tokio::select! {
                biased;
                received = line.reader.receive() => {
                    beats.heard(Instant::now());
                    match received?.context("the master closed the connection")? {
                        Received::Sign(Sign::Ping(number)) => Some(Sign::Pong(number)),
                        Received::Sign(Sign::Pong(number)) => {
                            beats.answered(number, Instant::now());
                            self.answered.fetch_add(1, Ordering::Relaxed);
                            None
                        }
                        Received::Frame(_) => None,
                    }
                }
                () = tokio::time::sleep_until(beats.due()) => match beats.beat(Instant::now()) {
                    Beat::Ping(number) => Some(Sign::Ping(number)),
                    Beat::Nothing => None,
                    Beat::Dead => bail!("the master gives no sign of life"),
                },
                frame = next() => {
                    line.writer.send(&frame).await?;
                    None
                }
            };
            if let Some(sign) = said {
                line.writer.feed_sign(sign);
                line.writer.flush().await?;
            }
        }
    }
}

/// A full cluster, and the aims for its rounds.
pub struct Full {
    name: &'static str,
    nodes: usize,
    waiting: usize,
    round_ms: f64,
    resident_mb: f64,
}

pub const ROUND: Full = Full { name: "round", nodes: 1_000, waiting: 100_000, round_ms: 5.0, resident_mb: 200.0 };

pub const LARGE_ROUND: Full =
    Full { name: "large-round", nodes: 10_000, waiting: 1_000_000, round_ms: 20.0, resident_mb: 1_000.0 };

/// Measures the rounds after single ends.
pub async fn round(site: &Site, full: Full) -> Result<Part> {
    let (count, queued) = (site.so_many(full.nodes), site.so_many(full.waiting));
    may_open(count)?;
    let place = place()?;
    let policy = &site.policy;
    // At this level, this module logs only the duration of rounds.
    let config = format!(
        "log = \"warn,lmaster::serve=debug\"\nlog_format = \"json\"\nack_timeout = \"60s\"\n[initial]\npolicy = \"{policy}\"\n"
    );
    let cluster = site.cluster(place.path(), &config, &[]).await?;
    let what = format!("{count} nodes of {CORES} cores, all full, {queued} jobs of 64 shapes, policy {policy}");
    let mut part = Part::new(full.name, what, &[]);
    // The first jobs start before the others come, because all of them may be as many as a master lets wait.
    let first = count * 2;
    queue(cluster.address(), first).await?;
    let crowd = Crowd::start(cluster.address(), count).await?;
    let begin = Instant::now();
    queue(cluster.address(), queued.saturating_sub(first)).await?;
    part.row("queued_s", "until the jobs are accepted", begin.elapsed().as_secs_f64());
    crowd.settle(&cluster).await?;
    let log = place.path().join("lmaster.log");
    let filled = rounds(&log)?.len();
    let ends = site.so_many(2000);
    let (cpu, mut delays) = (cpu_s(cluster.master_pid())?, Vec::new());
    let begin = Instant::now();
    for turn in 0..ends {
        delays.push(crowd.end_one(turn).await?);
        if begin.elapsed() > ENOUGH {
            part.note(format!("{} ends were enough for {} s", delays.len(), ENOUGH.as_secs()));
            break;
        }
    }
    let used = cpu_s(cluster.master_pid())? - cpu;
    let all = rounds(&log)?;
    let took = &all[filled.min(all.len())..];
    ensure!(!took.is_empty(), "the master did not say how long its rounds took");
    let round = "a round, with the step around it, as the master measures it";
    part.aim("round_median_ms", round, (median(took) / 1000.0, Aim::AtMost(full.round_ms)));
    part.row("round_p99_ms", "the same, 99 of 100", quantile(took, 990) / 1000.0);
    part.row("end_cpu_us", "CPU of the master for each end and what follows", used / delays.len() as f64 * 1e6);
    part.row("ended_median_ms", "from an end until it and what follows of it are on disk", median(&delays));
    part.aim(
        "resident_mb",
        "memory of the master",
        (resident_bytes(cluster.master_pid())? / 1e6, Aim::AtMost(full.resident_mb)),
    );
    crowd.stop();
    Ok(part)
}

/// Submits jobs of 64 shapes over several connections, without waiting for each answer.
pub async fn queue(address: &str, count: usize) -> Result<()> {
    const CALLERS: usize = 8;
    const AHEAD: usize = 64;
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for caller in 0..CALLERS {
        let address = address.to_owned();
        tasks.spawn(async move {
            let mut line = Caller::connect(&address).await?;
            let own = (caller..count).step_by(CALLERS);
            let mut ahead = 0;
            for index in own {
                line.send(shape(index)).await?;
                ahead += 1;
                if ahead == AHEAD {
                    line.accepted().await?;
                    ahead -= 1;
                }
            }
            for _ in 0..ahead {
                line.accepted().await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn shape(index: usize) -> Request {
    let cores = u32::try_from(index % 16).unwrap_or(0) + 1;
    let hours = i64::try_from(index / 16 % 4).unwrap_or(0) + 1;
    Request {
        name: "bench".into(),
        cores: Cores::Count(NonZeroU32::new(cores).unwrap_or(NonZeroU32::MIN)),
        time_limit: Some(Span::from_secs(3600 * hours)),
        ..Request::one_core("bench")
    }
}

/// An order to a node.
enum Order {
    /// Ends one of the node's jobs.
    End,
}

/// Nodes that start their jobs at once, and end a job on request.
pub struct Crowd {
    orders: Vec<tokio::sync::mpsc::UnboundedSender<Order>>,
    started: Arc<AtomicUsize>,
    acknowledged: tokio::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<Instant>>,
    nodes: JoinSet<Result<()>>,
}

impl Crowd {
    /// Registers `count` nodes, which start jobs from then on.
    pub async fn start(address: &str, count: usize) -> Result<Self> {
        let started = Arc::new(AtomicUsize::new(0));
        let (acknowledging, acknowledged) = tokio::sync::mpsc::unbounded_channel();
        let (mut orders, mut running) = (Vec::new(), JoinSet::new());
        nodes(address, count, Meter::None, |line| {
            let (order, ordered) = tokio::sync::mpsc::unbounded_channel();
            orders.push(order);
            running.spawn(node(line, ordered, Arc::clone(&started), acknowledging.clone()));
        })
        .await?;
        Ok(Self { orders, started, acknowledged: acknowledged.into(), nodes: running })
    }

    /// Waits until no further job starts and the master is idle, apart from signs of life.
    pub async fn settle(&self, cluster: &Cluster<'_>) -> Result<()> {
        let begin = Instant::now();
        let mut last = (usize::MAX, 0.0);
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = (self.started.load(Ordering::Relaxed), cpu_s(cluster.master_pid())?);
            if now.0 > 0 && now.0 == last.0 && now.1 - last.1 < 0.4 {
                break;
            }
            ensure!(begin.elapsed() < PATIENCE, "jobs still start after {} s", PATIENCE.as_secs());
            last = now;
        }
        Ok(())
    }

    /// Ends a job, and waits until the end and its effects are durable. Returns the time in milliseconds.
    pub async fn end_one(&self, turn: usize) -> Result<f64> {
        let mut acknowledged = self.acknowledged.lock().await;
        // Moves from one part of the nodes to another, so that each keeps jobs.
        let order = &self.orders[turn * 7919 % self.orders.len()];
        let begin = Instant::now();
        order.send(Order::End).ok().context("a node has gone")?;
        let at = tokio::time::timeout(PATIENCE, acknowledged.recv()).await.context("an end was not acknowledged")?;
        Ok(at.context("the nodes have gone")?.duration_since(begin).as_secs_f64() * 1000.0)
    }

    pub fn stop(mut self) {
        self.nodes.abort_all();
    }
}

async fn node(
    mut line: Line,
    mut orders: tokio::sync::mpsc::UnboundedReceiver<Order>,
    started: Arc<AtomicUsize>,
    acknowledged: tokio::sync::mpsc::UnboundedSender<Instant>,
) -> Result<()> {
    let mut running = BTreeMap::new();
    let mut beats = tokio::time::interval(HEARTBEAT);
    loop {
        let answer = tokio::select! {
            _ = beats.tick() => {
                line.writer.feed_sign(Sign::Ping(0));
                line.writer.flush().await?;
                None
            }
            frame = line.reader.next() => match frame?.context("the master closed the connection")? {
                Frame::Message(MasterToNode::DoExec(exec)) => {
                    Some(NodeToMaster::JobAck { job: exec.job, attempt: exec.attempt })
                }
                Frame::Message(MasterToNode::EndedAck { .. }) => {
                    // The receiver may have stopped.
                    let _ = acknowledged.send(Instant::now());
                    None
                }
                Frame::Message(MasterToNode::Go { job, attempt, .. }) => {
                    running.insert(job, attempt);
                    started.fetch_add(1, Ordering::Relaxed);
                    Some(NodeToMaster::Started { job, attempt })
                }
                _ => None,
            },
            Some(Order::End) = orders.recv() => running.pop_first().map(|(job, attempt)| {
                NodeToMaster::Ended { job, attempt, outcome: Outcome::Exited(0), usage: Usage::default() }
            }),
        };
        if let Some(answer) = answer {
            line.writer.send(&Frame::Message(answer)).await?;
        }
    }
}

/// Returns the durations of the master's rounds from its log, in microseconds.
pub fn rounds(log: &Path) -> Result<Vec<f64>> {
    let text = fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let took = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["round_us"].as_f64();
    Ok(text.lines().filter_map(took).collect())
}
