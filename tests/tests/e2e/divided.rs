//! A divided upper limit on nodes with a power limit and an energy counter in sysfs, which follow a model.

use std::fs;
use std::time::{Duration, Instant};

use limo_tests::{Setup, until};

use crate::meters::Package;

/// Idle draw of a package, in watts.
const IDLE: u64 = 10;

/// Time after which the draw must be below a lowered limit: T, R and C of docs/policies.md are 0.1 s between two readings,
/// a round with its commit, and the command to a node. This leaves 1.9 s for the last two on a busy machine.
const BOUND: Duration = Duration::from_secs(2);

/// Returns the energy that both packages have used, in microjoules.
fn used(packages: &[Package; 2]) -> f64 {
    let used = |package: &Package| fs::read_to_string(package.counter()).expect("readable");
    packages.iter().map(|package| used(package).trim().parse::<f64>().expect("a number")).sum()
}

/// Returns the mean draw of both packages for this time, in watts.
fn drawn(packages: &[Package; 2], span: Duration) -> f64 {
    let (before, begin) = (used(packages), Instant::now());
    until("the time is over", || {
        let elapsed = begin.elapsed();
        (elapsed >= span).then(|| (used(packages) - before) / elapsed.as_secs_f64() / 1e6)
    })
}

#[test]
fn a_lowered_limit_is_held_soon_and_from_then_on() {
    let mut packages = [Package::new(), Package::new()];
    packages.iter_mut().for_each(|package| package.draw(IDLE));
    let short = ["--readings-every", "20ms", "--least-off", "200ms"];
    let mut setup = Setup::default().master(&short);
    for (name, package) in ["n1", "n2"].iter().zip(&packages) {
        let sysfs = package.path().to_str().expect("UTF-8");
        let fixed = ["--cpus", "1", "--idle", "10 W", "--nameplate", "60 W", "--reading-interval", "100ms"];
        setup =
            setup.node(name, &[&fixed[..], &["--meter", "powercap", "--cap", "cpu=rapl", "--sysfs", sysfs]].concat());
    }
    let cluster = setup.start();
    let submitter = cluster.submitter();
    let lconf = |arguments: &[&str]| submitter.lconf(arguments).succeeded();
    lconf(&["set", "policy", "easy", "caps=even"]);
    for (name, package) in ["n1", "n2"].iter().zip(&packages) {
        let script = format!("echo 40 1000 > {}/job; sleep 1000", package.loads.display());
        submitter.detach(&["-w", name, "sh", "-c", &script]);
    }
    for caps in ["even", "equal-speed", "ellsworth"] {
        lconf(&["set", "limits", "none", "none"]);
        lconf(&["set", "policy", "easy", &format!("caps={caps}")]);
        until("both draw 50 W", || (drawn(&packages, Duration::from_millis(100)) > 95.0).then_some(()));
        let lowered = Instant::now();
        lconf(&["set", "limits", "none", "60 W"]);
        until("they draw less", || (drawn(&packages, Duration::from_millis(50)) <= 60.0).then_some(()));
        let late = lowered.elapsed();
        println!("{caps}: below the limit after {} ms", late.as_millis());
        assert!(late <= BOUND, "{caps}: {} ms", late.as_millis());
        // Several steps of `ellsworth` follow.
        let held = drawn(&packages, Duration::from_secs(2));
        assert!(held <= 60.0, "{caps}: {held} W");
    }
}
