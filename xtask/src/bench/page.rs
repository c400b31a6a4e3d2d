//! The page of a master with many jobs and nodes: its first views in Chromium, the memory and CPU that its readers cost
//! the master, and the rounds beside them.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limo_tests::Browser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

use super::crowd::{Crowd, may_open, queue, rounds};
use super::figure::{Aim, Part, median, quantile};
use super::idle::scrape;
use super::site::{Site, cpu_s, place, resident_bytes};

/// Readers of the stream of events.
const WATCHERS: usize = 50;

/// Turns without and with watchers.
const TURNS: usize = 5;

/// Time of one turn in which the cost of watchers is measured.
const WATCHED: Duration = Duration::from_secs(5);

/// Views with limits, each opened so often.
const VIEWS: [(&str, &str); 3] = [("overview", "/"), ("jobs", "/jobs"), ("nodes", "/nodes")];
const OPENED: usize = 5;

/// Measures the page with ten thousand nodes and a hundred thousand waiting jobs.
pub async fn page(site: &Site) -> Result<Part> {
    let (count, queued) = (site.so_many(10_000), site.so_many(100_000));
    may_open(count)?;
    let place = place()?;
    let policy = &site.policy;
    // At this level, this module logs only the duration of rounds.
    let config = format!(
        "web = \"127.0.0.1:0\"\nlog = \"warn,lmaster::serve=debug\"\nlog_format = \"json\"\nack_timeout = \"60s\"\n\
         [initial]\npolicy = \"{policy}\"\n"
    );
    let cluster = site.cluster(place.path(), &config, &[]).await?;
    let web = fs::read_to_string(cluster.state_dir().join("web-address")).context("no page is served")?;
    let (web, master, log) = (web.trim().to_owned(), cluster.master_pid(), place.path().join("lmaster.log"));
    let what = format!("{count} nodes, all full, {queued} waiting jobs, policy {policy}");
    let mut part = Part::new("page", what, &[]);
    queue(cluster.address(), queued + count * 2).await?;
    let crowd = Crowd::start(cluster.address(), count).await?;
    crowd.settle(&cluster).await?;

    let before = resident_bytes(master)?;
    views(&web, &mut part).await?;
    let watchers = watch(&web).await?;
    part.aim("metrics_ms", "an answer with all metrics, median", (scrape(&web, count).await?, Aim::AtMost(50.0)));
    let resident = (resident_bytes(master)? - before) / 1e6;
    part.aim("resident_mb", "memory of the master for the page in use", (resident, Aim::AtMost(50.0)));
    drop(watchers);

    let (mut cpu, mut took) = ([0.0; 2], [Vec::new(), Vec::new()]);
    let ends = site.so_many(200);
    for turn in 0..TURNS * 2 {
        let is_watched = turn % 2 == 1;
        let watchers = if is_watched { Some(watch(&web).await?) } else { None };
        let (used, begin) = (cpu_s(master)?, Instant::now());
        sleep(WATCHED).await;
        cpu[usize::from(is_watched)] += (cpu_s(master)? - used) / begin.elapsed().as_secs_f64() / TURNS as f64;
        let told = rounds(&log)?.len();
        for end in 0..ends {
            crowd.end_one(turn * ends + end).await?;
        }
        took[usize::from(is_watched)].extend(rounds(&log)?.split_off(told));
        if let Some(mut watchers) = watchers {
            ensure!(watchers.try_join_next().is_none(), "a watcher was hung up on");
        }
    }
    crowd.stop();
    let [alone, watched] = cpu;
    let label = format!("CPU of the master for {WATCHERS} watchers, of a core");
    part.aim("watchers_core_percent", label, ((watched - alone) * 100.0, Aim::AtMost(5.0)));
    let [alone, watched] = took.map(|took| quantile(&took, 990) / 1000.0);
    part.row("round_p99_ms", "a round without watchers, 99 of 100", alone);
    let ratio = watched / alone.max(f64::MIN_POSITIVE);
    part.aim("round_p99_ratio", "the same with watchers, in turns", (ratio, Aim::AtMost(1.05)));
    Ok(part)
}

/// Measures the views from the start of the navigation until the browser shows them.
async fn views(web: &str, part: &mut Part) -> Result<()> {
    let web = web.to_owned();
    let measured = spawn_blocking(move || {
        let browser = Browser::open()?;
        let one = |path: &str| {
            browser.go(&format!("http://{web}{path}"));
            let shown = "performance.getEntriesByName('shown')[0]?.startTime";
            browser.until("the view is shown", shown).as_f64().unwrap_or(f64::NAN)
        };
        Some(VIEWS.map(|(name, path)| (name, median(&[(); OPENED].map(|()| one(path))))))
    });
    match measured.await? {
        Some(all) => all.into_iter().for_each(|(name, took)| {
            part.aim(format!("{name}_ms"), format!("{name}, until it is shown, median"), (took, Aim::AtMost(1000.0)));
        }),
        None => part.note("the views were not measured: Chromium or its driver is missing"),
    }
    Ok(())
}

/// Reads the stream of events until the result is dropped. Returns when each watcher has an event.
async fn watch(web: &str) -> Result<JoinSet<Result<()>>> {
    let (mut watchers, mut streams) = (JoinSet::new(), Vec::new());
    for _ in 0..WATCHERS {
        let mut stream = TcpStream::connect(web).await?;
        stream.write_all(format!("GET /api/v1/events HTTP/1.1\r\nHost: {web}\r\n\r\n").as_bytes()).await?;
        streams.push(stream);
    }
    for mut stream in streams {
        let mut head = [0; 4096];
        let count = stream.read(&mut head).await?;
        ensure!(head[..count].starts_with(b"HTTP/1.1 200"), "the stream was refused");
        let count = stream.read(&mut head).await?;
        ensure!(count > 0, "a watcher was hung up on");
        watchers.spawn(async move {
            let mut bytes = vec![0; 16 << 10];
            while stream.read(&mut bytes).await? > 0 {}
            Ok(())
        });
    }
    Ok(watchers)
}
