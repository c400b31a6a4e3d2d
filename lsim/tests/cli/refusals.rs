//! Bad input gives one line with place, value and remedy, and no result.

use std::path::Path;

use super::{SMALL, folder, lsim, read, refused};

/// Checks that a run of this trace is refused with that text and leaves nothing.
fn trace(name: &str, bytes: &[u8], stderr: &str) {
    let folder = folder(&[]);
    std::fs::write(folder.path().join(name), bytes).expect("written");
    refused(folder.path(), &format!("run --trace {name} --policy easy --out out"), 1, stderr);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn traces() {
    trace(
        "a.swf",
        SMALL.replace(" 50 2", " 5o 2").as_bytes(),
        "lsim: a.swf:4: field 4 (run time) is `5o`: that is not a number",
    );
    trace(
        "a.swf",
        SMALL.replace("2 10", "2 -10").as_bytes(),
        "lsim: a.swf:3: field 2 (submit time) is `-10`: that is out of range (0 or later)",
    );
    trace(
        "a.swf",
        &SMALL.as_bytes()[..80],
        "lsim: a.swf:3: the line has 6 of 18 fields; the next is 7 (used memory): write -1 for unknown",
    );
    trace(
        "a.swf",
        b"\x7fELF\x02\x01\x01\x00\n",
        "lsim: a.swf:1: this is not text (`\\u{7f}ELF\\u{2}\\u{1}\\u{1}\\0`): a workload must be plain or gzipped text",
    );
    trace("a.swf", b"", "lsim: a.swf: the file has no usable job (0 lines with jobs, 0 left out)");
    trace(
        "a.swf",
        SMALL.replace("; MaxProcs: 4\n", "").as_bytes(),
        "lsim: the trace does not say how many processors its machine has (MaxProcs): give --nodes N or --platform FILE",
    );
    trace("a.json", b"{\"jobs\": [", "lsim: a.json: EOF while parsing a list at line 1 column 10");
}

#[test]
fn a_cut_gzip_stream() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(SMALL.as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    let cut = &packed[..packed.len() - 9];
    trace("a.swf.gz", cut, "lsim: a.swf.gz:6: the gzip stream is truncated: fetch the file again");
}

#[test]
fn files_that_are_not_there() {
    let folder = folder(&[("a.swf", SMALL)]);
    let run =
        |more: &str, stderr: &str| refused(folder.path(), &format!("run --policy easy --out out {more}"), 1, stderr);
    run("--trace no.swf", "lsim: no.swf: the file cannot be read: No such file or directory (os error 2)");
    run("--trace .", "lsim: .: the file cannot be read: Is a directory (os error 21)");
    run(
        "--trace a.swf --platform p.toml",
        "lsim: p.toml: the file cannot be read: No such file or directory (os error 2)",
    );
    run(
        "--trace a.swf --prices p.csv",
        "lsim: p.csv: the file cannot be opened: No such file or directory (os error 2)",
    );
}

/// Checks that a file for an option of `lsim run` is refused with that text.
fn file(option: &str, text: &str, stderr: &str) {
    let folder = folder(&[("a.swf", SMALL), ("f", text)]);
    refused(folder.path(), &format!("run --trace a.swf --policy easy --out out {option} f"), 1, stderr);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn curves() {
    file(
        "--budgets",
        "from,until,energy_kwh\n0,100,1\n200,300,1\n",
        "lsim: f:3:1: from is `200`: this period leaves a gap after the one before it: start it at the end of that one",
    );
    file(
        "--budgets",
        "from,until,energy_kwh\n0,100,1\n50,300,1\n",
        "lsim: f:3:1: from is `50`: this period starts before the end of the one before it: start it at the end of that one",
    );
    file(
        "--prices",
        "time,price_eur_per_mwh\n0,1\n0,2\n",
        "lsim: f:3:1: time is `0`: that is not after the time before it: sort the rows by time",
    );
    file("--prices", "time,eur\n0,1\n", "lsim: f:1: the columns are `time,eur`: write `time,price_eur_per_mwh`");
    file(
        "--prices",
        "time,price_eur_per_mwh\n2017-10-28T00:00:00Z,1\n",
        "lsim: f:2:1: time is `2017-10-28T00:00:00Z`: the start of the workload has no date: write seconds from it, such as `3600`",
    );
    file("--limits", "time,low_w,high_w\n0,x,3\n", "lsim: f:2:2: low_w is `x`: that is not a number");
}

#[test]
fn platforms() {
    file(
        "--platform",
        "[[nodes]]\nname = \"n\"\ncount = 4\nidle = \"95 W\"\nbusy = \"90 W\"\n",
        "lsim: f:1: `busy` is 90.0 W, below `idle` with 95.0 W: a busy node cannot draw less than an idle one",
    );
    file(
        "--platform",
        "[[nodes]]\nname = \"n\"\nidle = 95\nbusy = \"90 W\"\n",
        "lsim: f:3:8: `95` has no unit: write for example `90 W` (units: W, kW, MW, mW)",
    );
    file("--platform", "<platform version=\"4.1\"/>", "lsim: f: the platform has no hosts that compute");
}

/// Checks that impossible energy and policies are refused before the first event.
#[test]
fn impossible_runs() {
    let folder = folder(&[("a.swf", SMALL)]);
    let run =
        |more: &str, stderr: &str| refused(folder.path(), &format!("run --trace a.swf --out out {more}"), 1, stderr);
    // 4 x 95 W for three days are 27.36 kWh, and 30 % of 4 x 203.12 W are 17.55 kWh.
    run(
        "--policy energybud --budget 30% --from 2d --until 5d",
        "lsim: the budget of 17.550 kWh is impossible: the cluster at rest draws 380.0 W, which is 27.360 kWh over the period of 3d; give at least that (--budget 46.78%), or let idle nodes sleep (--set rest=idle)",
    );
    run(
        "--policy powercap --budget 1kWh --from 2d --until 5d --set rest=idle",
        "lsim: the budget of 1.000 kWh is impossible: the cluster at rest draws 39.0 W, which is 2.808 kWh over the period of 3d; give at least that (--budget 4.81%)",
    );
    run(
        "--policy energybud --budget 80% --from 5d --until 2d",
        "lsim: --from 5d --until 2d: the period of a budget must end after its begin and must not begin before the workload",
    );
    run("--policy easy --nodes 0", "lsim: 0 nodes cannot be simulated: `count` is 0: it must be 1 to 1000000");
    run("--policy easy --users 7", "lsim: no job is left to simulate: widen --window, --users or --first");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn settings() {
    let folder = folder(&[("a.swf", SMALL)]);
    let run = |set: &str, stderr: &str| {
        refused(folder.path(), &format!("run --trace a.swf --policy easy --out out --set {set}"), 1, stderr)
    };
    run(
        "depht=3",
        "lsim: --set: unknown key `depht` (known: admission, allocation, band-weight, cap-factor-permille, caps, confidence-permille, default-duration, depth, hold-after, idle, lead, least-off, least-on, list-by, margin, max-delay, max-evicted-run, max-owner-restarts, max-reboot-restarts, max-restarts, monitor-every, order, placement, plan-steps, pool-knowledge, pool-rank, pool-seed, pool-ties, pool-window, preempt, price-hysteresis, price-quantile-permille, price-threshold, rank-by, rare-gap, relaxed-factor, reserve-permille, rest, sparing, steer-lead, steer-margin-permille, think-every, waiting-weight, window-permille, window-waits); `lsim policies` explains them",
    );
    run(
        "monitor-every=600",
        "lsim: --set monitor-every=600: `600` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)",
    );
    run(
        "compat=2017",
        "lsim: --set compat: the scheduler of 2017 is now in `lab`, which is not installed: in Limo's sources, type `cargo lab run --compat 2017` with the other options",
    );
    run("allocation=best", "lsim: --set allocation=best: `best` is not an allocation: any, contiguous");
}

/// Checks the refusals of clap: exit code 2, and the right syntax.
#[test]
fn usage() {
    let folder = folder(&[("a.swf", SMALL)]);
    let usage = |arguments: &str, stderr: &str| {
        refused(folder.path(), arguments, 125, &format!("{stderr}\n\nFor more information, try '--help'."));
    };
    usage(
        "run --trace a.swf --policy easy",
        "error: the following required arguments were not provided:\n  --out <DIR>\n\nUsage: lsim run --trace <FILE> --policy <NAME> --out <DIR>",
    );
    let names = limo_model::Preset::ALL.map(limo_model::Preset::name).join(", ");
    usage(
        "run --trace a.swf --policy esy --out out",
        &format!("error: invalid value 'esy' for '--policy <NAME>': `esy` is not a policy: {names}"),
    );
    usage(
        "run --trace a.swf --policy easy --out out --budget 80%",
        "error: the following required arguments were not provided:\n  --from <SPAN>\n  --until <SPAN>\n\nUsage: lsim run --trace <FILE> --policy <NAME> --out <DIR> --budget <ENERGY|N%> --from <SPAN> --until <SPAN>",
    );
    usage(
        "run --trace a.swf --policy easy --out out --budget 80 --from 1d --until 2d",
        "error: invalid value '80' for '--budget <ENERGY|N%>': `80` has no unit: write for example `1.5 kWh` (units: J, kJ, Wh, kWh, MWh, mJ)",
    );
    usage(
        "run --trace a.swf --policy easy --out out --set depth",
        "error: invalid value 'depth' for '--set <KEY=VALUE>': `depth` has no value: write KEY=VALUE, such as depth=512",
    );
    usage(
        "run --trace a.swf --policy easy --out out --nodes 4 --platform f",
        "error: the argument '--nodes <N>' cannot be used with '--platform <FILE>'\n\nUsage: lsim run --trace <FILE> --policy <NAME> --out <DIR> --nodes <N>",
    );
    usage(
        "run --trace a.swf --policy easy --out out --load 0",
        "error: invalid value '0' for '--load <FACTOR>': `0` is not a positive number with up to 6 digits after the decimal point: write for example 1.2",
    );
}

#[test]
fn commands_that_lab_has_now() {
    let folder = folder(&[]);
    let moved = |name: &str, more: &str| {
        let stderr = format!(
            "error: `lsim {name}` is now `lab {name}`, which is not installed: in Limo's sources, type `cargo lab {name}{more}`"
        );
        refused(folder.path(), &format!("{name}{more}"), 125, &stderr);
    };
    moved("reproduce", " energy-budget-2017 --compat 2017");
    moved("bench", "");
    moved("bench", " --help");
}

/// Checks that existing files are not changed.
#[test]
fn places_for_results() {
    let folder = folder(&[("a.swf", SMALL)]);
    let path: &Path = folder.path();
    let notes = "lsim: note: 1 jobs ran longer than their requested time: ended at it\n\
        lsim: note: 1 job refused: larger than the 4 processors of the platform (job 5: 8)\n";
    let exists = format!(
        "{notes}lsim: a.swf exists and is not an lsim result (it has no schedule.json); name another folder with --out"
    );
    refused(path, "run --trace a.swf --policy easy --out a.swf", 1, &exists);
    assert_eq!(read(path, "a.swf"), SMALL);
    let nowhere = format!(
        "{notes}lsim: a.swf/out exists and is not an lsim result (it has no schedule.json); name another folder with --out"
    );
    refused(path, "run --trace a.swf --policy easy --out a.swf/out", 1, &nowhere);
    // An earlier result is replaced.
    assert!(lsim(path, "run --trace a.swf --policy easy --out out").starts_with("exit 0"));
    let first = read(path, "out/jobs.csv");
    assert!(lsim(path, "run --trace a.swf --policy easy --out out/ --replace --first 1").starts_with("exit 0"));
    assert_ne!(read(path, "out/jobs.csv"), first);
}
