//! `cargo xtask response`: measures how long a cluster is above its upper limit, with real daemons on a machine made of
//! files ([`plant`]). The causes are a limit that falls without warning and a draw that rises without warning, with a
//! meter read once a second and with one read fifty times a second.
//!
//! docs/policies.md derives the bounds: a round and a cap for the first cause, and in addition the time between two
//! readings for the second.

mod plant;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limo_model::{Power, Span};
use serde::Serialize;

use crate::demo::{Cluster, Programs};
use plant::{Above, IDLE, Plant};

/// Number of steps: enough for a median, and few enough for a minute.
const TIMES: usize = 10;

/// Longest wait; only an event that never comes takes longer.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Draw of the job in its profile. The next value is its draw after a rise.
const USUAL: Power = Power::from_watts(80);
const RISEN: Power = Power::from_watts(150);
/// Upper limit with enough power for the job. The next value is a limit without.
const WIDE: Power = Power::from_watts(200);
const NARROW: Power = Power::from_watts(60);

/// Settings of the master: caps are raised again soon, so that the next step can follow.
const MASTER: &str = r#"
log = "warn"
readings_every = "1ms"

[policy]
least_off = "100ms"
least_on = "100ms"
stale_after = "5s"
"#;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Results of one kind of step with one meter.
#[derive(Debug, Serialize)]
struct Figure {
    cause: &'static str,
    meter_hz: i64,
    median_ms: i64,
    longest_ms: i64,
    /// The highest draw minus the limit.
    overshoot_w: f64,
    /// Largest energy above the limit in one step.
    overshoot_j: f64,
}

/// Runs `cargo xtask response`.
///
/// # Errors
/// If the programs cannot be built, a daemon fails, or the draw does not fall.
pub fn run(arguments: &Arguments) -> Result<()> {
    eprintln!("response: building the programs in release");
    let programs = Programs::build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for interval in [Span::from_secs(1), Span::from_ms(20)] {
        figures.extend(runtime.block_on(measure(&programs, interval))?);
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "schema": 1, "steps": figures }))?);
        return Ok(());
    }
    println!(
        "{:<28} {:>8} {:>10} {:>10} {:>12} {:>14}",
        "cause", "meter", "median", "longest", "above", "energy above"
    );
    for figure in figures {
        println!(
            "{:<28} {:>5} Hz {:>7} ms {:>7} ms {:>10.1} W {:>12.2} J",
            figure.cause, figure.meter_hz, figure.median_ms, figure.longest_ms, figure.overshoot_w, figure.overshoot_j
        );
    }
    println!("\nTen steps each; times from the cause until the draw is below the limit, by the machine itself.");
    Ok(())
}

async fn measure(programs: &Programs, interval: Span) -> Result<Vec<Figure>> {
    let place = tempfile::Builder::new().prefix("limo-response-").tempdir()?;
    let dir = place.path();
    let plant = Plant::start(&dir.join("sys"))?;
    let config = dir.join("lmaster.toml");
    fs::write(&config, MASTER).with_context(|| format!("cannot write {}", config.display()))?;
    let mut cluster = Cluster::start(programs, dir, &config).await?;
    let (idle, every) = (IDLE.to_string(), interval.to_string());
    let sysfs = plant.dir().to_str().context("the temporary directory is not UTF-8 text")?;
    let node = [
        ["--sysfs", sysfs],
        ["--meter", "hwmon:plant/power1_input"],
        ["--cap", "cpu=rapl,5W..400W"],
        ["--gpus", "none"],
        ["--idle", &idle],
        ["--meter-interval", &every],
        ["--reading-interval", &every],
        ["--cpus", "1"],
    ];
    cluster.add_node("plant", &node.concat())?;
    cluster.registered(1).await?;
    cluster.ask("lconf", &["profile", "import", profile(dir, &hardware(&cluster).await?)?.as_str()]).await?;
    cluster.ask("lconf", &["set", "limits", "none", &WIDE.to_string()]).await?;
    plant.want(USUAL);
    cluster.ask("lrun", &["--detach", "--app", "steady", "sleep", "600"]).await?;
    let mut falls = Vec::new();
    for _ in 0..TIMES {
        calm(&plant, USUAL).await?;
        plant.watch(NARROW);
        cluster.ask("lconf", &["set", "limits", "none", &NARROW.to_string()]).await?;
        falls.push(come_down(&plant).await?);
        cluster.ask("lconf", &["set", "limits", "none", &WIDE.to_string()]).await?;
    }
    let limit = Power::from_watts(100);
    cluster.ask("lconf", &["set", "limits", "none", &limit.to_string()]).await?;
    let mut rises = Vec::new();
    for _ in 0..TIMES {
        calm(&plant, USUAL).await?;
        plant.watch(limit);
        plant.want(RISEN);
        rises.push(come_down(&plant).await?);
        plant.want(USUAL);
        cluster.ask("lconf", &["set", "limits", "none", &WIDE.to_string()]).await?;
        calm(&plant, USUAL).await?;
        cluster.ask("lconf", &["set", "limits", "none", &limit.to_string()]).await?;
    }
    cluster.must_run()?;
    let hz = 1_000 / interval.ms();
    Ok(vec![
        Figure::of("a limit falls (lconf incl.)", (hz, NARROW), &mut falls),
        Figure::of("a draw rises", (hz, limit), &mut rises),
    ])
}

/// Waits until the job has its wanted draw, and the meter has shown it.
async fn calm(plant: &Plant, wanted: Power) -> Result<()> {
    wait_for(|| (plant.draw() == IDLE + wanted).then_some(()), "the cap was not lifted").await?;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    Ok(())
}

async fn come_down(plant: &Plant) -> Result<Above> {
    wait_for(|| plant.seen(), "the draw did not come down").await
}

async fn wait_for<T>(mut look: impl FnMut() -> Option<T>, otherwise: &str) -> Result<T> {
    let begin = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(begin.elapsed() < PATIENCE, "{otherwise} within {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Returns the type of this machine's processor, which its profile uses.
async fn hardware(cluster: &Cluster<'_>) -> Result<String> {
    let nodes: serde_json::Value = serde_json::from_str(&cluster.ask("lq", &["nodes", "--json"]).await?)?;
    let hardware = nodes["nodes"][0]["units"][0]["hardware"].as_str().context("the node has no unit")?;
    Ok(hardware.to_owned())
}

fn profile(dir: &Path, hardware: &str) -> Result<String> {
    use limo_model::{EstimateSource, Profile, ProfileKey};
    let path = dir.join("profiles.csv");
    let key = ProfileKey {
        application: "steady".into(),
        size: String::new(),
        hardware: hardware.into(),
        cores: None,
        nodes: None,
        cap: None,
    };
    let duration = Span::from_secs(600);
    let (energy, source) = (USUAL * duration, EstimateSource::Imported);
    let profile = Profile { duration, power: USUAL, energy, spread_permille: 0, runs: 1, source };
    let file = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    limo_profiles::text::write(&[(key, profile)], file).context("cannot write the profile")?;
    path.to_str().map(str::to_owned).context("the temporary directory is not UTF-8 text")
}

impl Figure {
    fn of(cause: &'static str, (meter_hz, limit): (i64, Power), seen: &mut [Above]) -> Self {
        seen.sort_by_key(|above| above.lasted);
        let peak = seen.iter().map(|above| above.peak).max().unwrap_or(limit);
        Self {
            cause,
            meter_hz,
            median_ms: seen.get(seen.len() / 2).map_or(0, |above| above.lasted.ms()),
            longest_ms: seen.last().map_or(0, |above| above.lasted.ms()),
            overshoot_w: (peak - limit).watts(),
            overshoot_j: seen.iter().map(|above| above.energy.joules()).fold(0.0, f64::max),
        }
    }
}
