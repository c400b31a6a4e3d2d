//! Many nodes that report the draw of their meters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use limo_model::{Meter, Power};
use limo_proto::{Alive, Frame, HEARTBEAT, NodeToMaster, Sample};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::crowd::{Life, may_open, nodes};
use super::figure::{Aim, Part};
use super::site::{Site, cpu_s, place, resident_bytes};

/// Time between two readings of a node.
const EVERY: Duration = Duration::from_secs(1);

/// Nodes whose recorded readings are checked.
const CHECKED: usize = 20;

/// Samples that a complete recorded minute has at least.
const FULL_MINUTE: u64 = 55;

/// Returns a draw of the node between 50 and 250 W, which differs from the previous one.
fn draw(node: usize, reading: usize) -> Power {
    let mw = 50_000 + (node * 7_919 + reading * 104_729) % 200_000;
    Power::from_mw(i64::try_from(mw).unwrap_or(0))
}

/// Measures ten thousand nodes that send a reading a second over loopback. After two minutes the master is killed, and the
/// next one is asked for the readings of the first minute.
pub async fn meters(site: &Site) -> Result<Part> {
    let count = site.so_many(10_000);
    let files = may_open(count)?;
    let place = place()?;
    let mut cluster = site.cluster(place.path(), "", &[]).await?;
    let master = cluster.master_pid();
    let before = resident_bytes(master)?;
    let (alive, mut living) = (Alive::new(HEARTBEAT), JoinSet::new());
    let sent = Arc::new(AtomicUsize::new(0));
    let mut turn = 0;
    nodes(cluster.address(), count, Meter::Command, |line| {
        let (node, sent) = (turn, Arc::clone(&sent));
        let pause = EVERY / u32::try_from(count).unwrap_or(1) * u32::try_from(node).unwrap_or(0);
        let mut readings = tokio::time::interval_at(Instant::now() + pause, EVERY);
        let life = Life { alive: alive.clone(), begin: Instant::now() + pause, answered: Arc::default() };
        living.spawn(life.live(line, async move || {
            readings.tick().await;
            let reading = draw(node, sent.fetch_add(1, Ordering::Relaxed));
            Frame::Message(NodeToMaster::Reading(Sample::once(reading)))
        }));
        turn += 1;
    })
    .await?;
    // A minute that begins after the registration, and the time until it is written.
    let (settle, watched) = if site.quick { (2, 3) } else { (60, 130) };
    tokio::time::sleep(Duration::from_secs(settle)).await;
    let (cpu, begin, first) = (cpu_s(master)?, Instant::now(), sent.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::from_secs(watched)).await;
    let took = begin.elapsed().as_secs_f64();
    let core_percent = (cpu_s(master)? - cpu) / took * 100.0;
    let per_s = (sent.load(Ordering::Relaxed) - first) as f64 / took;
    let per_node_kib = (resident_bytes(master)? - before) / count as f64 / 1024.0;
    ensure!(living.try_join_next().is_none(), "a node was hung up on");
    let mut part =
        Part::new("meters", format!("{count} nodes with meters that send a reading a second over loopback"), &[]);
    part.row("readings_per_s", "readings received", per_s);
    part.aim("core_percent", "of a core", (core_percent, Aim::AtMost(10.0)));
    part.row("per_node_kib", "memory of the master for each", per_node_kib);
    living.abort_all();
    if !site.quick {
        cluster.kill_master().await?;
        let mut recorded = 0;
        for index in (0..count).step_by(count / CHECKED) {
            let name = format!("node-{index}");
            let shown: Value = serde_json::from_str(&cluster.ask("lconf", &["readings", &name, "--json"]).await?)?;
            let minutes = shown["readings"].as_array().into_iter().flatten();
            recorded += usize::from(minutes.filter_map(|one| one["looks"].as_u64()).any(|looks| looks >= FULL_MINUTE));
        }
        let label = format!("of {CHECKED} nodes, those with a complete minute after `kill -9` of the master");
        part.aim("recorded", label, (recorded as f64, Aim::AtLeast(CHECKED as f64)));
    }
    part.note("over loopback, the master's process also does the work of the kernel that receives at its nodes");
    part.note(format!("{files} open files were allowed"));
    Ok(part)
}
