//! Caps on real interfaces: set, read back, and restored after any end of the daemon or its master.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_model::{Outcome, Power, UnitKind};
use limo_proto::{MasterToNode, NodeToMaster};
use nix::sys::signal::Signal;

use crate::fake::FakeGpus;
use crate::master::{Daemon, Master, Session, shell, within};
use crate::tree::{Tree, watts};

/// Makes a processor with a limit of 95 W and a disabled zone.
fn processor() -> Tree {
    let tree = Tree::new();
    tree.zone("intel-rapl:0", "package-0", 95_000_000);
    tree.write("class/powercap/intel-rapl:0/enabled", "0");
    tree
}

fn is_original(tree: &Tree) -> bool {
    (tree.limit_of("intel-rapl:0"), tree.enabled("intel-rapl:0")) == ("95000000".into(), "0".into())
}

fn options<'a>(tree: &'a Tree, more: &[&'a str]) -> Vec<&'a str> {
    [&["--sysfs", tree.path().to_str().expect("UTF-8"), "--gpus", "none", "--cap", "cpu=rapl"], more].concat()
}

/// Starts a daemon that logs to the file.
fn logging(master: &Master, log: &Path, options: &[&str]) -> Daemon {
    let file = File::create(log).expect("a log");
    Daemon::start_changed(master, options, |command| {
        command.stderr(file);
    })
}

async fn cap(node: &mut Session, generation: u64, caps: &[Option<i64>]) -> Vec<(u16, String)> {
    let caps = caps.iter().map(|cap| cap.map(Power::from_watts)).collect();
    node.send(MasterToNode::Caps { generation, caps }).await;
    answer(node, generation).await
}

async fn answer(node: &mut Session, generation: u64) -> Vec<(u16, String)> {
    node.message(|message| match message {
        NodeToMaster::Capped { generation: found, failed } if *found == generation => {
            Some(failed.iter().map(|(unit, reason)| (*unit, reason.to_string())).collect())
        }
        _ => None,
    })
    .await
}

async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        let mut between = tokio::time::interval(Duration::from_millis(10));
        while !condition() {
            between.tick().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cap_is_set_and_put_back_when_the_daemon_ends() {
    let (master, tree) = (Master::new().await, processor());
    let mut daemon = Daemon::start(&master, &options(&tree, &[]));
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.spec.units[0].caps, Some((watts(10), watts(95))));
    assert!(is_original(&tree), "nothing is capped yet");
    assert_eq!(cap(&mut node, 3, &[Some(40)]).await, []);
    assert_eq!((tree.limit_of("intel-rapl:0"), tree.enabled("intel-rapl:0")), ("40000000".into(), "1".into()));
    // The first order is late and older, the second repeated.
    node.send(MasterToNode::Caps { generation: 2, caps: vec![None] }).await;
    node.send(MasterToNode::Caps { generation: 3, caps: vec![Some(watts(40))] }).await;
    let answered = |message: &NodeToMaster| match message {
        NodeToMaster::Capped { generation, .. } => Some(*generation),
        _ => None,
    };
    assert_eq!(node.message(answered).await, 3, "the older one has no answer");
    assert_eq!(tree.limit_of("intel-rapl:0"), "40000000");
    assert_eq!(cap(&mut node, 4, &[None]).await, []);
    assert!(is_original(&tree) && !daemon.path("state/caps.json").exists());
    // The cap is below the range, or for a unit that does not exist.
    let failed = cap(&mut node, 5, &[Some(3), Some(7), None]).await;
    assert_eq!(failed[0], (0, "3.0 W is below the lowest cap of unit `cpu`: it holds 10.0 W".to_owned()));
    assert_eq!(failed[1], (1, "the node has no unit 1: it has 1".to_owned()));
    assert_eq!((failed.len(), tree.limit_of("intel-rapl:0")), (2, "10000000".into()));
    assert!(daemon.path("state/caps.json").exists());
    node.run(shell(1, "exit 7")).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(7));
    daemon.signal(Signal::SIGTERM);
    drop(node);
    daemon.wait();
    assert!(is_original(&tree) && !daemon.path("state/caps.json").exists());
}

#[tokio::test]
async fn the_newest_caps_hold_in_the_end() {
    let (master, tree) = (Master::new().await, processor());
    let _daemon = Daemon::start(&master, &options(&tree, &[]));
    let (mut node, _) = master.welcome().await;
    for generation in 1..=200 {
        let caps = vec![Some(Power::from_mw(20_000 + i64::try_from(generation).expect("small") * 100))];
        node.send(MasterToNode::Caps { generation, caps }).await;
    }
    assert_eq!(answer(&mut node, 200).await, []);
    assert_eq!(tree.limit_of("intel-rapl:0"), "40000000");
}

#[tokio::test]
async fn after_kill_the_next_daemon_puts_back() {
    let (master, tree) = (Master::new().await, processor());
    let mut daemon = Daemon::start(&master, &options(&tree, &[]));
    let (mut node, _) = master.welcome().await;
    assert_eq!(cap(&mut node, 1, &[Some(30)]).await, []);
    daemon.kill();
    drop(node);
    assert_eq!(tree.limit_of("intel-rapl:0"), "30000000");
    // The cap is no longer configured; its tree still exists.
    daemon.restart_with(&master, &options(&tree, &[])[..4]);
    let (mut node, new) = master.welcome().await;
    assert!(is_original(&tree) && !daemon.path("state/caps.json").exists());
    assert_eq!(new.spec.units[0].caps, None);
    let failed = cap(&mut node, 1, &[Some(30)]).await;
    assert!(failed[0].1.starts_with("unit `cpu` has no cap: start lslave with `--cap cpu=CHOICE`"), "{failed:?}");
    assert!(is_original(&tree));
}

#[tokio::test]
async fn without_a_master_caps_end_with_their_lease() {
    let (master, tree) = (Master::new().await, processor());
    let address = master.address();
    let _daemon = Daemon::start(&master, &options(&tree, &["--cap-lease", "200ms"]));
    let (mut node, _) = master.welcome().await;
    assert_eq!(cap(&mut node, 8, &[Some(30)]).await, []);
    assert_eq!(tree.limit_of("intel-rapl:0"), "30000000");
    drop((node, master));
    until(|| is_original(&tree)).await;
    // Another master starts to count anew.
    let master = Master::at(&address).await;
    let (mut node, _) = master.welcome().await;
    assert!(is_original(&tree), "until it is told");
    assert_eq!(cap(&mut node, 1, &[Some(50)]).await, []);
    assert_eq!(tree.limit_of("intel-rapl:0"), "50000000");
}

/// Lets a master return while its caps are being lifted. It sets them again, with the usual lease.
#[tokio::test]
async fn caps_that_come_while_others_are_lifted_have_a_lease() {
    let (master, dir) = (Master::new().await, tempfile::tempdir().expect("a directory"));
    let (program, hold, asked) = (dir.path().join("smi"), dir.path().join("hold"), dir.path().join("asked"));
    let limit = || fs::read_to_string(dir.path().join("limit")).unwrap_or_default();
    let script = "#!/bin/sh
        cd $(dirname $0)
        if [ $3 = -pl ]; then
            : > asked
            while [ -e hold ]; do sleep 0.01; done
            echo $4 > limit
        else
            echo GPU-1, $(cat limit), $(cat limit), 100, 700
        fi";
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
    fs::write(dir.path().join("limit"), "700").expect("written");
    let address = master.address();
    let program = program.to_str().expect("UTF-8");
    let options = ["--gpus", "none", "--nvidia-smi", program, "--cap", "cpu=nvidia-smi:0", "--cap-lease", "200ms"];
    let _daemon = Daemon::start(&master, &options);
    let (mut node, _) = master.welcome().await;
    assert_eq!(cap(&mut node, 1, &[Some(300)]).await, []);
    fs::remove_file(&asked).expect("it was asked");
    fs::write(&hold, "").expect("written");
    drop((node, master));
    until(|| asked.exists()).await;
    let master = Master::at(&address).await;
    let (mut node, _) = master.welcome().await;
    node.send(MasterToNode::Caps { generation: 1, caps: vec![Some(watts(400))] }).await;
    // The daemon obeys a later order, so it has obeyed the earlier one.
    node.run(shell(1, "true")).await;
    node.ended(1).await;
    assert_eq!(limit(), "300.000\n", "still being lifted");
    fs::remove_file(&hold).expect("removed");
    assert_eq!(answer(&mut node, 1).await, []);
    assert_eq!(limit(), "400.000\n");
    drop((node, master));
    until(|| limit() == "700.000\n").await;
}

#[tokio::test]
async fn a_master_that_is_back_in_time_finds_caps_as_they_were() {
    let (master, tree) = (Master::new().await, processor());
    let daemon = Daemon::start(&master, &options(&tree, &["--cap-lease", "1h"]));
    let (mut node, _) = master.welcome().await;
    assert_eq!(cap(&mut node, 8, &[Some(30)]).await, []);
    drop(node);
    let (mut node, _) = master.welcome().await;
    assert_eq!(tree.limit_of("intel-rapl:0"), "30000000");
    assert_eq!(cap(&mut node, 8, &[Some(30)]).await, []);
    assert!(daemon.path("state/caps.json").exists());
}

#[tokio::test]
async fn jobs_keep_their_caps_while_no_daemon_runs() {
    let (master, tree) = (Master::new().await, processor());
    let mut daemon = Daemon::start(&master, &options(&tree, &[]));
    let (mut node, new) = master.welcome().await;
    let range = new.spec.units[0].caps;
    let fifo = daemon.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    node.run(shell(1, &format!("read _ < {}", fifo.display()))).await;
    node.started(1).await;
    assert_eq!(cap(&mut node, 1, &[Some(30)]).await, []);
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        daemon.signal(signal);
        drop(node);
        daemon.wait();
        assert_eq!(tree.limit_of("intel-rapl:0"), "30000000");
        daemon.restart_with(&master, &options(&tree, &[]));
        let (again, new) = master.welcome().await;
        assert_eq!((tree.limit_of("intel-rapl:0"), new.spec.units[0].caps), ("30000000".into(), range));
        node = again;
    }
    fs::write(&fifo, "\n").expect("written");
    assert_eq!(node.ended(1).await.0, Outcome::Exited(0));
    daemon.signal(Signal::SIGTERM);
    drop(node);
    daemon.wait();
    assert!(is_original(&tree) && !daemon.path("state/caps.json").exists());
}

/// First no job goes on, then one does, but no master returns.
#[tokio::test]
async fn a_daemon_lifts_the_caps_of_an_earlier_one_without_jobs_or_a_master() {
    let (master, tree) = (Master::new().await, processor());
    let mut daemon = Daemon::start(&master, &options(&tree, &["--cap-lease", "50ms"]));
    let (mut node, _) = master.welcome().await;
    assert_eq!(cap(&mut node, 1, &[Some(30)]).await, []);
    daemon.kill();
    drop(node);
    daemon.restart_with(&master, &options(&tree, &["--cap-lease", "1h"]));
    until(|| is_original(&tree)).await;
    let (mut node, _) = master.welcome().await;
    node.run(shell(1, "exec sleep 1000")).await;
    node.started(1).await;
    assert_eq!(cap(&mut node, 1, &[Some(30)]).await, []);
    daemon.kill();
    drop((node, master));
    let nobody = Master::new().await;
    assert_eq!(tree.limit_of("intel-rapl:0"), "30000000");
    daemon.restart_with(&nobody, &options(&tree, &["--cap-lease", "50ms"]));
    until(|| is_original(&tree)).await;
}

/// A node that cannot be capped reports this once, and runs jobs as usual.
async fn runs_without_caps(tree: &Tree, expected: &str) {
    let (master, dir) = (Master::new().await, tempfile::tempdir().expect("a directory"));
    let log = dir.path().join("log");
    let mut daemon = logging(&master, &log, &options(tree, &[]));
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.spec.units[0].caps, None);
    for generation in 1..=3 {
        let failed = cap(&mut node, generation, &[Some(30)]).await;
        assert!(failed.len() == 1 && failed[0].0 == 0 && failed[0].1.contains(expected), "{failed:?}");
    }
    assert_eq!(cap(&mut node, 4, &[None]).await, [], "nothing to lift");
    node.run(shell(1, "exit 7")).await;
    assert_eq!(node.ended(1).await.0, Outcome::Exited(7));
    drop(node);
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    let said = fs::read_to_string(&log).expect("readable");
    for line in ["a cap cannot be used", "the unit does not hold its cap"] {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
    assert!(is_original(tree));
}

#[tokio::test]
async fn a_locked_zone() {
    let mut tree = processor();
    if tree.fix(&Tree::limit("intel-rapl:0")) {
        runs_without_caps(&tree, "the firmware has locked the limit").await;
    }
}

#[tokio::test]
async fn a_read_only_tree() {
    let mut tree = processor();
    if tree.mount_read_only() {
        runs_without_caps(&tree, "Read-only file system").await;
    }
}

#[tokio::test]
async fn originals_that_cannot_be_read_stop_all_caps() {
    let (master, tree) = (Master::new().await, processor());
    let mut daemon = Daemon::start(&master, &options(&tree, &[]));
    let (node, _) = master.welcome().await;
    drop(node);
    daemon.kill();
    fs::write(daemon.path("state/caps.json"), "{").expect("written");
    daemon.restart_with(&master, &options(&tree, &[]));
    let (mut node, new) = master.welcome().await;
    assert_eq!(new.spec.units[0].caps, None);
    let reason = "the node does not know the values before its caps; see its log";
    assert_eq!(cap(&mut node, 1, &[Some(30)]).await, [(0, reason.to_owned())]);
    assert_eq!(cap(&mut node, 2, &[None]).await, []);
    assert!(is_original(&tree));
    assert_eq!(fs::read_to_string(daemon.path("state/caps.json")).expect("it stays"), "{");
}

#[tokio::test]
async fn gpus_are_units_and_one_that_is_lost_keeps_nothing_back() {
    let Some(fake) = FakeGpus::new() else { return };
    let (master, tree) = (Master::new().await, processor());
    let library: PathBuf = fake.library();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lslave.toml");
    let content = format!(
        "gpus = \"nvml\"\nnvml = \"{}\"\nsysfs = \"{}\"\n[caps]\ncpu = \"rapl,20 W..60 W\"\ngpu0 = \"nvml:0\"\ngpu1 = \
         \"nvml-clocks:1,20W..75W\"\ngpu7 = \"nvml:7\"\n",
        library.display(),
        tree.path().display()
    );
    fs::write(&file, content).expect("written");
    let log = dir.path().join("log");
    let mut daemon = logging(&master, &log, &["--config", file.to_str().expect("UTF-8")]);
    let (mut node, new) = master.welcome().await;
    let units: Vec<_> = new.spec.units[1..].iter().map(|unit| (unit.name.as_str(), unit.hardware.as_str())).collect();
    assert_eq!(units, [("gpu0", "nvidia-h200"), ("gpu1", "quadro-p2000")]);
    assert!(new.spec.units[1..].iter().all(|unit| unit.kind == UnitKind::Accelerator && unit.cores == 1));
    assert_eq!([watts(700), watts(75)], [new.spec.units[1].nameplate, new.spec.units[2].nameplate]);
    let caps: Vec<_> = new.spec.units.iter().map(|unit| unit.caps).collect();
    assert_eq!(caps, [Some((watts(20), watts(60))), Some((watts(200), watts(700))), Some((watts(20), watts(75)))]);
    assert!(fs::read_to_string(&log).expect("readable").contains("cannot cap unit `gpu7`"));

    assert_eq!(cap(&mut node, 1, &[Some(40), Some(350), Some(53)]).await, []);
    assert_eq!((fake.read(0, "limit_mw"), fake.read(1, "locked_mhz")), ("350000".into(), "139 1075".into()));
    fake.set(0, "error", "15");
    let failed = cap(&mut node, 2, &[Some(50), Some(300), None]).await;
    assert!(failed.len() == 1 && failed[0].0 == 1 && failed[0].1.contains("fell off the bus"), "{failed:?}");
    assert_eq!((tree.limit_of("intel-rapl:0"), fake.read(1, "locked_mhz")), ("50000000".into(), "unlocked".into()));
    // The control is still missing when the daemon ends, and is left to the next daemon.
    daemon.signal(Signal::SIGTERM);
    drop(node);
    daemon.wait();
    assert!(is_original(&tree));
    assert_eq!(fake.read(0, "limit_mw"), "350000");
    let saved = fs::read_to_string(daemon.path("state/caps.json")).expect("kept");
    assert!(saved.contains("power_limit_mw") && !saved.contains("intel-rapl"), "{saved}");
    fake.unset(0, "error");
    daemon.restart_with(&master, &["--gpus", "none", "--nvml", library.to_str().expect("UTF-8")]);
    let (_node, new) = master.welcome().await;
    assert_eq!(new.spec.units.len(), 1);
    assert_eq!((fake.read(0, "limit_mw"), daemon.path("state/caps.json").exists()), ("700000".into(), false));
}
