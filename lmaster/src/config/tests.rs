//! Layers of settings, and refused ones.

use super::*;
use limo_sched::{Allocation, MarginRule, Preempt, PriceRule};

fn settings(file: &str, flags: &[&str]) -> Result<ProgramSettings, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lmaster.toml");
    std::fs::write(&path, file).expect("written");
    let head = ["lmaster", "--state-dir", "/s", "--config", path.to_str().expect("text")];
    let cli = Cli::try_parse_from(head.iter().chain(flags)).map_err(|error| error.to_string())?;
    cli.settings().map_err(|error| format!("{error:#}").replace(&path.display().to_string(), "FILE"))
}

fn refused(file: &str, flags: &[&str], expected: &str) {
    let error = settings(file, flags).expect_err("refused");
    assert!(error.contains(expected), "`{expected}` is not in: {error}");
}

#[test]
fn flags_come_before_the_file_and_the_file_before_defaults() {
    let file = "ack_timeout = \"5s\"\nkill_grace = \"1min\"\n[policy]\nprice_threshold = \"60 EUR/MWh\"\ndepth = 7\n\
         allocation = \"contiguous\"\nmonitor_every = \"5min\"\nhold_after = \"0s\"\npreempt = \"suspend\"\nmargin = \"sum\"\n";
    let settings = settings(file, &["--ack-timeout", "1s", "--price-quantile-permille", "250"]).expect("good");
    assert_eq!(settings.controller.ack_timeout, Span::from_secs(1));
    assert_eq!(settings.controller.kill_grace, Span::from_secs(60));
    assert_eq!(settings.controller.orphan_grace, Span::from_secs(60));
    let options = settings.controller.options;
    assert_eq!((options.depth, options.allocation), (7, Allocation::Contiguous));
    assert_eq!((options.monitor_every, options.hold_after), (Span::from_secs(300), Span::ZERO));
    assert_eq!((options.preempt, options.margin), (Preempt::Suspend, MarginRule::Sum));
    assert_eq!(options.price_rule, PriceRule::QuantilePermille(250));
    assert_eq!(settings.listen, None, "the port is open only if asked for");
}

#[test]
fn refusals() {
    refused("", &["--listen", "0.0.0.0:6817"], "cannot listen on 0.0.0.0:6817: without certificates");
    refused(
        "web = \"0.0.0.0:80\"\n",
        &[],
        "cannot serve the page on 0.0.0.0:80: anyone who reaches it could read them",
    );
    refused("", &["--socket", "here"], "the socket path `here` is relative");
    refused("[connections]\nper_user = 0\n", &[], "per_user of [connections] is 0: it must be 1 to 1000000");
    refused("", &["--greeting-time", "0s"], "greeting_time is zero");
    refused("kill_grase = \"1s\"\n", &[], "unknown field `kill_grase`");
    refused("[policy]\npolicy = \"limo\"\n", &[], "unknown field `policy`");
    let two = "[queue.a]\ndefault = true\n[queue.b]\ndefault = true\n";
    refused(two, &[], "queue.a and queue.b are both the default: only one queue can be");
    refused("[queue.a]\nmax_time = 60\n", &[], "`60` has no unit: write for example `30min`");
    let two = "[group.a]\nnodes = [\"n1\"]\nlimit = \"9 W\"\n[group.b]\nnodes = [\"n[1-2]\"]\nlimit = \"9 W\"\n";
    refused(two, &[], "node n1 is in group.a and in group.b: a node can be in one group only");
    refused("kill_grace = 30\n", &[], "`30` has no unit: write for example `30min`");
    refused("kill_grace = \"-1s\"\n", &[], "kill_grace is -1s: it cannot be negative");
    refused("node_lease = \"0s\"\n", &[], "node_lease is zero");
    refused("heartbeat = \"99ms\"\n", &[], "heartbeat is 99ms: it must be 100ms to 1min");
    refused("ack_timeout = \"0s\"\n", &[], "ack_timeout is zero");
    let crossed = "[initial]\nlow = \"90 W\"\nhigh = \"60 W\"\n";
    refused(crossed, &[], "the lower limit 90.0 W is above the upper limit 60.0 W");
    refused("[initial]\nmode = \"middle\"\n", &[], "unknown variant `middle`");
    refused("[policy]\nreserve_permille = 1001\n", &[], "reserve_permille is 1001");
    refused("log = \"lmaster=loud\"\n", &[], "lmaster=loud");
    refused("", &["--orphan-grace", "5 moons"], "unknown unit `moons`");
    refused("[policy]\nmonitor_every = \"0s\"\n", &[], "monitor_every is zero");
    refused("[policy]\nmonitor_every = 600\n", &[], "`600` has no unit");
    refused("[policy]\nallocation = \"neighbours\"\n", &[], "unknown variant `neighbours`");
    refused("", &["--allocation", "neighbours"], "is not an allocation: any, contiguous");
    refused("[policy]\ncap_factor_permille = 0\n", &[], "cap_factor_permille is 0");
    refused("[policy]\nconfidence_permille = 1000\n", &[], "confidence_permille: a confidence of 1000 thousandths");
    refused("[policy]\nstale_after = \"1s\"\n", &[], "readings_every is 1s");
    refused("readings_resolution = \"10s\"\n", &[], "readings_resolution is 10s: it must be 1min to 1d");
    refused("", &["--readings-keep", "30s"], "readings_keep is 30s: at least one interval of 1min must be kept");
    refused("", &["--margin", "none"], "`none` is not a margin: job, sum");
    refused("", &["--preempt", "kill"], "`kill` is not a measure of preemption");
    let both = "[policy]\nprice_threshold = \"60 EUR/MWh\"\nprice_quantile_permille = 5\n";
    refused(both, &[], "exclude each other");
    let feed = "[[feed.price]]\nsource = \"awattar\"\nzone = \"FR\"\n";
    refused(feed, &[], "feed.price, number 1: unknown variant `FR`");
    refused("listen = \n", &[], "FILE is not a configuration of lmaster");
}

/// The examples in the comments of a file are settings, too.
fn uncommented(file: &str) -> String {
    let is_setting = |line: &&str| !line.starts_with("# ") && !line.contains("postgres:");
    file.lines().filter(is_setting).map(|line| line.trim_start_matches('#').to_owned() + "\n").collect()
}

#[test]
fn mutated_files_are_read_or_refused() {
    let all = uncommented(include_str!("../../../deploy/etc/lmaster.toml"));
    let seeds = [
        all.as_str(),
        include_str!("../../../deploy/examples/power-limited-lmaster.toml"),
        include_str!("../../../deploy/examples/pool-lmaster.toml"),
        "[grid]\npenalty = \"1 EUR\"\n[account.a]\nparent = \"root\"\n[qos.high]\npriority = 5\n[licence.m]\ncount = 3\n",
        "submit_hook = \"/bin/true\"\nnotify = \"/bin/true\"\n[idle]\nwake_timeout = \"1min\"\n[tls]\n[privacy]\n[connections]\n",
    ];
    let words = [
        "\"1e99 W\"",
        "\"-1s\"",
        "9223372036854775807",
        "[[feed.price]]\n",
        "[queue.a]\n",
        "n[1-99999999]",
        "nan",
        "\"\"",
        "= [",
    ];
    limo_mutations::read_mutated(&seeds, &words, |file| settings(file, &[]).is_ok());
}
