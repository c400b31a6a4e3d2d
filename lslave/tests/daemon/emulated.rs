//! Emulated hardware: registration, the signal that a job's work is done, the readings of the meter, and the effects of
//! caps and suspension on both.

use std::fs;

use limo_model::{Attempt, Energy, JobId, Meter, Outcome, Power, Span, UnitKind, Usage};
use limo_proto::{Channel, DoExec, MasterToNode, NodeToMaster};
use tempfile::TempDir;

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
application."ft/A" = { power = "20 W", duration = "300ms" }
application."ft/B" = { power = "40 W", duration = "3s" }
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

/// Makes a job of `ft` on the whole CPU.
fn ft(job: u64, size: &str, script: &str) -> DoExec {
    let mut job = shell(job, script);
    (job.application, job.size) = ("ft".into(), size.into());
    job.placement[0].cores = 4;
    job
}

/// Command that ends when its work is done.
const WORK: &str = "cat /proc/self/fd/$LIMO_EMULATED_WORK_FD";

fn start(master: &Master, interval: &str) -> (Daemon, TempDir) {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("hw.toml");
    fs::write(&file, HARDWARE).expect("written");
    let file = file.to_str().expect("UTF-8");
    (Daemon::start(master, &["--hardware", file, "--reading-interval", interval]), files)
}

/// Starts the idle machine `n1`.
pub fn emulated_node(master: &Master) -> (Daemon, TempDir) {
    start(master, "1h")
}

#[tokio::test]
async fn watts_follow_the_jobs() {
    let master = Master::new().await;
    let _daemon = start(&master, "1h");
    let (mut node, new) = master.welcome().await;
    assert_eq!((new.spec.meter, new.spec.idle), (Meter::Emulated, Power::from_watts(10)));
    assert_eq!(new.spec.units[1].kind, UnitKind::Accelerator);
    assert_eq!(reading(&mut node).await, Power::from_watts(10), "when it is registered");

    let mut job = ft(1, "", "echo ${LIMO_EMULATED_WORK_FD:+work} $LIMO_UNIT $LIMO_HARDWARE; cat");
    job.placement[0].cap = Some(Power::from_watts(20));
    node.run(job).await;
    node.started(1).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(30), "right after the start");
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "work cpu xeon\n");

    // The job is on the accelerator. The file does not know its application, so it draws the nameplate. A variable of
    // its submitter does not give it work.
    let mut second = shell(2, "echo ${LIMO_EMULATED_WORK_FD-none} $LIMO_UNIT; cat");
    second.launch.env.push((b"LIMO_EMULATED_WORK_FD".to_vec(), b"0".to_vec()));
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
    // Both clocks count whole milliseconds, from slightly different instants.
    assert!((energy - expected).mj().abs() <= (Power::from_watts(20) * Span::from_ms(50)).mj(), "{energy} {expected}");
    assert!(energy > Energy::ZERO);
    node.write(2, 0, "").await;
    node.ended(2).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(10), "idle again");
}

#[tokio::test]
async fn sizes_cores_and_the_interval() {
    let master = Master::new().await;
    let _daemon = start(&master, "20ms");
    let (mut node, _) = master.welcome().await;
    for _ in 0..5 {
        assert_eq!(reading(&mut node).await, Power::from_watts(10), "again and again");
    }
    let mut job = ft(1, "A", &format!("{WORK}; echo over; cat"));
    job.placement[0].cores = 2;
    node.run(job).await;
    node.started(1).await;
    assert_eq!(node.data(1, Channel::Stdout).await.bytes, "over\n", "when the work of its size class is done");
    while reading(&mut node).await != Power::from_watts(20) {}
    for _ in 0..5 {
        assert_eq!(reading(&mut node).await, Power::from_watts(20), "until it ends");
    }
    node.write(1, 0, "").await;
    let (_, usage) = node.ended(1).await;
    assert!(usage.elapsed >= Span::from_ms(300), "{usage:?}");
}

async fn set_caps(node: &mut Session, generation: u64, watts: &[Option<i64>]) {
    let caps = watts.iter().map(|cap| cap.map(Power::from_watts)).collect();
    node.send(MasterToNode::Caps { generation, caps }).await;
}

async fn capped(node: &mut Session) -> (u64, Vec<(u16, String)>) {
    node.message(|message| match message {
        NodeToMaster::Capped { generation, failed } => {
            let failed = failed.iter().map(|(unit, reason)| (*unit, reason.to_string())).collect();
            Some((*generation, failed))
        }
        _ => None,
    })
    .await
}

/// Expects that the work took at least `least` and drew `watts` all the time, within the precision of the clocks.
fn check(usage: &Usage, least: Span, watts: i64) {
    assert!(usage.elapsed >= least, "{usage:?}");
    let expected = Power::from_watts(watts) * usage.elapsed;
    let energy = usage.energy.expect("emulated hardware knows it");
    assert!((energy - expected).mj().abs() <= watts * 50, "{energy} {expected}");
}

#[tokio::test]
async fn caps_hold_units_and_move() {
    let master = Master::new().await;
    let _daemon = start(&master, "1h");
    let (mut node, _) = master.welcome().await;
    assert_eq!(reading(&mut node).await, Power::from_watts(10));
    set_caps(&mut node, 7, &[Some(8), None]).await;
    assert_eq!(capped(&mut node).await, (7, vec![]));
    assert_eq!(reading(&mut node).await, Power::from_watts(10), "at once");
    node.run(ft(1, "A", WORK)).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(18));
    let (outcome, usage) = node.ended(1).await;
    assert_eq!(outcome, Outcome::Exited(0));
    // The cap is 8 W of 20 W.
    check(&usage, Span::from_ms(750), 8);
    assert_eq!(reading(&mut node).await, Power::from_watts(10));

    // 3 s of work would take 15 s.
    node.run(ft(2, "B", WORK)).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(18));
    set_caps(&mut node, 6, &[None, None]).await;
    set_caps(&mut node, 7, &[Some(20), Some(30)]).await;
    let (generation, failed) = capped(&mut node).await;
    assert_eq!((generation, failed.len(), failed[0].0), (7, 1, 1), "the same again, but no older one");
    assert!(failed[0].1.starts_with("unit `gpu` cannot be capped at 30.0 W"), "{failed:?}");
    assert_eq!(reading(&mut node).await, Power::from_watts(30));
    set_caps(&mut node, 8, &[]).await;
    assert_eq!(capped(&mut node).await, (8, vec![]));
    assert_eq!(reading(&mut node).await, Power::from_watts(50));
    let (_, usage) = node.ended(2).await;
    assert!(usage.elapsed >= Span::from_secs(3), "{usage:?}");
    let energy = usage.energy.expect("emulated hardware knows it");
    // Energy is proportional to the draw at any pace: 3 s at 40 W, and the time in which the process ended. The draw
    // counts from before the start of the process.
    let most = Power::from_watts(40) * (usage.elapsed + Span::from_ms(50));
    assert!(energy >= Energy::from_joules(119) && energy <= most, "{energy} in {}", usage.elapsed);

    // A new connection counts generations anew, and caps stay until then.
    set_caps(&mut node, 9, &[Some(12)]).await;
    assert_eq!(capped(&mut node).await.0, 9);
    drop(node);
    let (mut node, _) = master.welcome().await;
    node.run(ft(3, "", "cat")).await;
    assert_eq!((reading(&mut node).await, reading(&mut node).await), (Power::from_watts(10), Power::from_watts(22)));
    set_caps(&mut node, 1, &[]).await;
    assert_eq!(capped(&mut node).await.0, 1);
    assert_eq!(reading(&mut node).await, Power::from_watts(50));
    let (job, attempt) = (JobId(3), Attempt(1));
    node.send(MasterToNode::Suspend { job, attempt }).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(10), "at once, too");
    node.send(MasterToNode::Resume { job, attempt }).await;
    assert_eq!(reading(&mut node).await, Power::from_watts(50));
}

#[tokio::test]
async fn a_suspended_job_draws_nothing_and_its_work_waits() {
    let master = Master::new().await;
    let _daemon = start(&master, "20ms");
    let (mut node, _) = master.welcome().await;
    let (job, attempt) = (JobId(1), Attempt(1));
    node.run(ft(1, "A", WORK)).await;
    while reading(&mut node).await != Power::from_watts(30) {}
    node.send(MasterToNode::Suspend { job, attempt }).await;
    while reading(&mut node).await != Power::from_watts(10) {}
    for _ in 0..50 {
        // In one second, the work would have been done three times over.
        assert_eq!(reading(&mut node).await, Power::from_watts(10));
    }
    node.send(MasterToNode::Resume { job, attempt }).await;
    let (outcome, usage) = node.ended(1).await;
    assert_eq!(outcome, Outcome::Exited(0));
    let suspended = Span::from_ms(980);
    assert!(usage.elapsed >= Span::from_ms(300) + suspended, "from its start to its end: {usage:?}");
    let energy = usage.energy.expect("emulated hardware knows it");
    let most = Power::from_watts(20) * (usage.elapsed - suspended) + Energy::from_joules(1);
    assert!(energy >= Energy::from_mj(5_900) && energy <= most, "{energy}, at most {most}");
    while reading(&mut node).await != Power::from_watts(10) {}
}

/// Returns the file behind a descriptor of a job, as the job reports it, and all of its open descriptors.
async fn open_files(node: &mut Session, job: u64, application: &str) -> (String, String) {
    let own = "readlink /proc/self/fd/${LIMO_EMULATED_WORK_FD:-0}; ls -l /proc/self/fd; echo end; cat";
    let mut exec = shell(job, own);
    exec.application = application.into();
    node.run(exec).await;
    let mut text = String::new();
    while !text.ends_with("end\n") {
        text.push_str(std::str::from_utf8(&node.data(job, Channel::Stdout).await.bytes).expect("text"));
    }
    let (own, all) = text.split_once('\n').expect("two lines");
    (own.to_owned(), all.to_owned())
}

#[tokio::test]
async fn a_job_has_no_end_of_the_work_of_another() {
    let master = Master::new().await;
    let _daemon = start(&master, "1h");
    let (mut node, _) = master.welcome().await;
    let (first, all) = open_files(&mut node, 1, "ft").await;
    assert!(first.starts_with("pipe:["), "{first}");
    assert_eq!(all.matches(&first).count(), 1, "the end that reads, and not the other:\n{all}");
    let (second, all) = open_files(&mut node, 2, "ft").await;
    assert!(second.starts_with("pipe:[") && second != first, "{second}");
    assert_eq!((all.matches(&first).count(), all.matches(&second).count()), (0, 1), "{all}");
    let (_, all) = open_files(&mut node, 3, "cg").await;
    assert_eq!((all.matches(&first).count(), all.matches(&second).count()), (0, 0), "{all}");
}

/// Kills the daemon after a third of the work. The next one counts this part, too.
#[tokio::test]
async fn emulated_work_continues_after_a_killed_daemon() {
    let master = Master::new().await;
    let (mut daemon, files) = start(&master, "1h");
    let (mut node, _) = master.welcome().await;
    node.run(ft(1, "B", WORK)).await;
    node.started(1).await;
    let mut second = shell(2, "sleep 1");
    second.placement[0].unit.unit = 1;
    node.run(second).await;
    node.ended(2).await;
    daemon.kill();
    drop(node);
    let file = files.path().join("hw.toml");
    daemon.restart_with(&master, &["--hardware", file.to_str().expect("UTF-8"), "--reading-interval", "1h"]);
    let (mut node, _) = master.welcome().await;
    let (outcome, usage) = node.ended(1).await;
    assert_eq!(outcome, Outcome::Exited(0));
    assert!((Span::from_secs(3)..Span::from_ms(3_900)).contains(&usage.elapsed), "{usage:?}");
    let (expected, energy) = (Power::from_watts(40) * usage.elapsed, usage.energy.expect("emulated hardware knows it"));
    assert!((energy - expected).mj().abs() <= (Power::from_watts(40) * Span::from_ms(50)).mj(), "{energy} {expected}");
}
