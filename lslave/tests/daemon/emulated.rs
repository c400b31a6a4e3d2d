//! Emulated hardware: what is registered, what a job is told, what the meter shows.

use std::fs;

use limo_model::{Energy, Meter, Outcome, Power, Span, UnitKind};
use limo_proto::{Channel, NodeToMaster};

use crate::master::{Daemon, Master, Session, shell};

const HARDWARE: &str = r#"
[[machine]]
name = "n1"
cores = 4
memory = "2 GiB"
idle = "10 W"
[[machine.unit]]
name = "cpu"
hardware = "xeon"
kind = "cpu"
nameplate = "60 W"
caps = ["8 W", "60 W"]
application.ft = { power = "40 W", duration = "40s" }
application."ft/A" = { power = "20 W", duration = "2s" }
[[machine.unit]]
name = "gpu"
hardware = "quadro"
kind = "accelerator"
nameplate = "75 W"
[[machine]]
name = "other"
cores = 2
memory = "1 GiB"
idle = "1 W"
[[machine.unit]]
name = "cpu"
hardware = "odroid"
kind = "cpu"
nameplate = "3 W"
"#;

async fn reading(node: &mut Session) -> Power {
    node.message(|message| match message {
        NodeToMaster::Reading(sample) => Some(sample.draw),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn watts_follow_the_jobs() {
    let master = Master::new().await;
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("hw.toml");
    fs::write(&file, HARDWARE).expect("written");
    let file = file.to_str().expect("UTF-8");
    let _daemon = Daemon::start(&master, &["--hardware", file, "--reading-interval", "1h"]);
    let (mut node, new) = master.welcome().await;
    assert_eq!((new.spec.meter, new.spec.idle), (Meter::Emulated, Power::from_watts(10)));
    assert_eq!(new.spec.units[1].kind, UnitKind::Accelerator);
    assert_eq!(reading(&mut node).await, Power::from_watts(10), "when it is registered");

    let mut job = shell(1, "echo $LIMO_EMULATED_DURATION_MS $LIMO_UNIT $LIMO_HARDWARE; cat");
    job.application = "ft".into();
    job.placement[0].cores = 4;
    job.placement[0].cap = Some(Power::from_watts(20));
    node.run(job).await;
    node.started(1).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(30), "right after the start");
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "80000 cpu xeon\n", "half the power, twice the time");

    // Another on the accelerator, which the file does not know: its nameplate, and no duration.
    let mut second = shell(2, "echo ${LIMO_EMULATED_DURATION_MS-none} $LIMO_UNIT; cat");
    second.placement[0].unit.unit = 1;
    node.run(second).await;
    node.started(2).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(105));
    assert_eq!(node.data(2, Channel::Stdout).await.bytes, "none gpu\n");

    node.write(1, 0, "").await;
    let (outcome, usage) = node.ended(1).await;
    assert_eq!(outcome, Outcome::Exited(0));
    assert_eq!(reading(&mut node).await, Power::from_watts(85), "right after the end");
    let expected = Power::from_watts(20) * usage.elapsed;
    let energy = usage.energy.expect("emulated hardware knows it");
    // Both clocks count whole milliseconds, from instants that lie close together.
    assert!((energy - expected).mj().abs() <= (Power::from_watts(20) * Span::from_ms(50)).mj(), "{energy} {expected}");
    assert!(energy > Energy::ZERO);
    node.write(2, 0, "").await;
    node.ended(2).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(10), "idle again");
}

#[tokio::test]
async fn sizes_cores_and_the_interval() {
    let master = Master::new().await;
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("hw.toml");
    fs::write(&file, HARDWARE).expect("written");
    let file = file.to_str().expect("UTF-8");
    let _daemon = Daemon::start(&master, &["--hardware", file, "--reading-interval", "20ms"]);
    let (mut node, _) = master.welcome().await;
    for _ in 0..5 {
        assert_eq!(reading(&mut node).await, Power::from_watts(10), "again and again");
    }
    let mut job = shell(1, "echo $LIMO_EMULATED_DURATION_MS; cat");
    (job.application, job.size) = ("ft".into(), "A".into());
    job.placement[0].cores = 2;
    node.run(job).await;
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "2000\n", "of its size class");
    while reading(&mut node).await != Power::from_watts(20) {}
}
