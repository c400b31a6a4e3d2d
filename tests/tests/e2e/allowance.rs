//! Limits of energy and cost: jobs end, or their users are warned, at the limit; on emulated watts.

use limo_tests::{Cluster, Setup, finish, until};

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");

fn cluster() -> Cluster {
    let node = ["--hardware", HARDWARE, "--reading-interval", "100ms"];
    Setup::default().master(&["--readings-every", "20ms", "--kill-grace", "1s"]).node("n1", &node).start()
}

/// An application that draws 60 W above idle until the test ends it.
const STEADY: [&str; 2] = ["--app", "steady"];

#[test]
fn a_job_is_ended_when_it_has_used_its_energy() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    let ran = submitter.lrun(&[&["--energy-limit", "30J"], &STEADY[..], &["sleep", "1000"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(143), ""));
    let told = ran.stderr;
    assert!(told.starts_with("lrun: job 1: n1: energy limit of 30.0 J reached, 3"), "{told}");
    let job = submitter.job(1);
    assert_eq!((&job["state"], &job["energy_limit_j"]), (&"used_up".into(), &30.0.into()), "{job}");
    // The emulated meter and the belief differ by the time of a start and an end.
    let used = job["energy_j"].as_f64().expect("known");
    assert!((25.0..90.0).contains(&used), "{used} J");
    assert!(submitter.lq(&["show", "1"]).succeeded().contains("may use      30.0 J, then it is ended\n"));
    assert!(submitter.lq(&["-a", "-t", "UU"]).succeeded().contains(" UU "));
}

#[test]
fn a_job_above_its_cost_limit_is_reported_and_continues() {
    let cluster = cluster();
    let submitter = cluster.submitter();
    std::fs::write(
        submitter.path("prices.csv"),
        "time,price\n2026-01-01 00:00,100000 EUR/MWh\n2100-01-01 00:00,0 EUR/MWh\n",
    )
    .expect("written");
    submitter.lconf(&["set", "price", "prices.csv"]).succeeded();
    // At such a price, the job would wait for a lower one.
    submitter.lconf(&["set", "mode", "high"]).succeeded();
    let options = ["--cost-limit", "0.001EUR", "--on-limit", "warn"];
    let client = submitter.spawn_lrun(&[&options[..], &STEADY, &["sh", "-c", "read line; exit 3"]].concat());
    until("it is known to all", || {
        let job = submitter.jobs().pop()?;
        job["used_up"].as_str().is_some_and(|words| words.starts_with("cost limit of 0.001 EUR reached")).then_some(())
    });
    assert_eq!(submitter.state(1), "running");
    // The job ends with its stdin.
    let ran = finish(client);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("lrun: warning: job 1: cost limit of 0.001 EUR reached, 0.00"), "{}", ran.stderr);
    assert_eq!(submitter.job(1)["state"], "failed");
}

#[test]
fn invalid_limits_are_refused_by_name() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let refused = |arguments: &[&str], words: &str| submitter.lrun(arguments).failed(words);
    refused(&["--energy-limit", "0J", "true"], "'0J' for '--energy-limit <ENERGY>': is not above zero");
    refused(&["--energy-limit", "2", "true"], "has no unit");
    refused(&["--cost-limit=-1EUR", "true"], "is not above zero");
    refused(&["--on-limit", "warn", "true"], "--energy-limit <ENERGY>|--cost-limit <MONEY>");
    refused(&["--energy-limit", "1J", "--on-limit", "maybe", "true"], "`maybe` is neither `stop` nor `warn`");
    assert!(submitter.jobs().is_empty());
}
