//! `lsim sweep`: the product of its lists, continuation after a stop, equal results with any number of workers, and
//! refusals. The workloads are generated, or small enough for figures calculated by hand.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{SMALL, column, folder, lsim, read, refused};

/// A product of 24 configurations: 2 policies x 2 budgets x 2 variants x (1 trace + 1 recipe with 2 seeds).
const PRODUCT: &str = "policies = [\"easy\", \"energybud\"]\nbudgets = [\"100%\", \"60%\"]\n\
    from = \"1h\"\nuntil = \"4h\"\ntraces = [\"traces/*.swf\"]\nrecipes = [\"steady\"]\nseeds = [1, 2]\nnodes = 16\n\
    [recipe]\nmachine = 16\nspan = \"6h\"\n[set]\nstay = []\nsleep = [\"rest=idle\"]\n";

fn product() -> TempDir {
    let folder = folder(&[("s.toml", PRODUCT)]);
    std::fs::create_dir(folder.path().join("traces")).expect("made");
    let made = lsim(folder.path(), "generate steady -o traces/a.swf --machine 16 --span 6h --seed 7");
    assert!(made.starts_with("exit 0"), "{made}");
    folder
}

fn sweep(folder: &Path, more: &str) -> String {
    let printed = lsim(folder, &format!("sweep s.toml --out out {more}"));
    assert!(printed.starts_with("exit 0"), "{printed}");
    printed
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_product() {
    let folder = product();
    let printed = sweep(folder.path(), "");
    assert!(printed.contains("lsim: 24 configurations: 0 done, 24 to run, "), "{printed}");
    let results = read(folder.path(), "out/results.csv");
    let keys: BTreeSet<&str> = column(&results, "key").into_iter().collect();
    assert_eq!((results.lines().count(), keys.len()), (25, 24));
    let mut seen = BTreeSet::new();
    let columns = ["workload", "seed", "policy", "budget", "set"].map(|name| column(&results, name));
    for row in 0..24 {
        seen.insert(columns.each_ref().map(|column| column[row]));
    }
    for workload in [["a.swf", ""], ["steady", "1"], ["steady", "2"]] {
        for policy in ["easy", "energybud"] {
            for budget in ["100%", "60%"] {
                for set in ["stay", "sleep"] {
                    assert!(seen.contains(&[workload[0], workload[1], policy, budget, set]), "{workload:?} {policy}");
                }
            }
        }
    }
    assert!(column(&results, "error").iter().all(|error| error.is_empty()));
    // The table is in the order of the lists, variants by name.
    let table = read(folder.path(), "out/table.csv");
    assert_eq!(column(&table, "policy"), [["easy"; 4], ["energybud"; 4]].concat());
    assert_eq!(column(&table, "budget"), ["100%", "100%", "60%", "60%", "100%", "100%", "60%", "60%"]);
    assert_eq!(column(&table, "set"), ["sleep", "stay"].repeat(4));
    assert_eq!(column(&table, "runs"), ["3"; 8]);
    // A policy that promises to keep a budget keeps it.
    let overspent = column(&table, "periods_overspent");
    assert!(overspent[4..].iter().all(|count| *count == "0"), "{overspent:?}");
    let plot = read(folder.path(), "out/plot.html");
    assert_eq!((plot.matches("<figure>").count(), plot.matches("class=\"line\" d").count() > 0), (3, true));
    for unit in ["utilisation (%)", "AVEbsld (no unit)", "energy (kWh)", "budget (% of what"] {
        assert!(plot.contains(unit), "{unit}");
    }
}

/// Checks that the figures of one configuration are those of `lsim run`.
#[test]
fn a_row_is_a_run() {
    let sweep = "policies = [\"easy\"]\ntraces = [\"small.swf\"]\n";
    let folder = folder(&[("small.swf", SMALL), ("s.toml", sweep)]);
    let printed = lsim(folder.path(), "sweep s.toml --out out");
    // The table has the figures that were calculated for the run of the same workload.
    let table = "policy  runs  utilisation %  AVEbsld  mean wait s  energy kWh\n\
        easy       1          50.00    1.367         65.0       0.079\n";
    assert!(printed.starts_with(&format!("exit 0\n--- stdout\n{table}--- stderr\n")), "{printed}");
    let results = read(folder.path(), "out/results.csv");
    for (name, expected) in [
        ("jobs", "5"),
        ("jobs_killed", "1"),
        ("jobs_refused", "1"),
        ("utilisation", "0.5"),
        ("mean_wait_s", "65"),
        ("max_wait_s", "170"),
        ("makespan_s", "500"),
        ("energy_j", "285738"),
        ("spent_j", ""),
    ] {
        assert_eq!(column(&results, name), [expected], "{name}");
    }
    let printed = lsim(folder.path(), "sweep s.toml --out out --json");
    let json = printed.split("--- stdout\n").nth(1).and_then(|text| text.split("--- stderr").next()).expect("stdout");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!((&json["schema"], &json["configurations"], &json["failed"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(json["rows"][0]["means"]["energy_j"], serde_json::json!(285_738));
    assert_eq!(json["rows"][0]["means"]["cost"], serde_json::Value::Null);
}

/// Compares `easy`, which ends at 200 s, with `fifo`, which ends at 250 s. Until then both use 162,016.6 J, as in the
/// test of `lsim compare`.
#[test]
fn energy_is_of_the_same_time() {
    let sweep = "policies = [\"easy\", \"fifo\"]\ntraces = [\"small.swf\"]\nfirst = 3\n";
    let folder = folder(&[("small.swf", SMALL), ("s.toml", sweep)]);
    self::sweep(folder.path(), "");
    let table = read(folder.path(), "out/table.csv");
    assert_eq!(column(&table, "energy_j"), ["143016.6", "162016.6"]);
    assert_eq!(column(&table, "energy_same_time_j"), ["162016.6", "162016.6"]);
}

/// Checks that the time of the budget is also the window of runs without a budget. They use 285,738 J until 500 s,
/// and 380 W after that until the end of the window.
#[test]
fn runs_without_a_budget_are_measured_over_the_same_time() {
    let sweep = "policies = [\"easy\"]\ntraces = [\"small.swf\"]\nbudgets = [\"none\", \"80%\"]\nfrom = \"0s\"\nuntil = \"1000s\"\n";
    let folder = folder(&[("small.swf", SMALL), ("s.toml", sweep)]);
    self::sweep(folder.path(), "");
    let table = read(folder.path(), "out/table.csv");
    assert_eq!(column(&table, "budget"), ["none", "80%"]);
    for (name, expected) in
        [("energy_same_time_j", "475738"), ("energy_in_window_j", "475738"), ("utilisation", "0.25")]
    {
        assert_eq!(column(&table, name), [expected; 2], "{name}");
    }
}

/// Checks the notes about unfinished jobs. Job 2 is believed to need 812.48 W, above the limit, so it never starts.
#[test]
fn unfinished_jobs_are_reported() {
    let sweep = "policies = [\"powercap\"]\ntraces = [\"small.swf\"]\nlimits = \"l.csv\"\nfirst = 3\n";
    let folder = folder(&[("small.swf", SMALL), ("s.toml", sweep), ("l.csv", "time,low_w,high_w\n0,,700\n")]);
    let printed = self::sweep(folder.path(), "");
    assert!(printed.starts_with("exit 0\n--- stdout\npolicy    runs  unfinished  utilisation %"), "{printed}");
    let told = "lsim: left unfinished, so that its figures are for less work: powercap on small.swf: 1 of 3 jobs\n";
    assert!(printed.contains(told), "{printed}");
    // Rows of another sweep stay, and a note reports them.
    std::fs::write(folder.path().join("s.toml"), sweep.replace("powercap", "easy")).expect("written");
    let printed = self::sweep(folder.path(), "");
    let told = "lsim: note: results.csv has 1 row of another sweep; table.csv and plot.html show only this sweep\n";
    assert!(printed.contains(told), "{printed}");
}

/// Deletes half of the rows, and truncates one. Only these run again, and the results are the same.
#[test]
fn finished_configurations_are_not_repeated() {
    let folder = product();
    sweep(folder.path(), "");
    let (whole, table) = (read(folder.path(), "out/results.csv"), read(folder.path(), "out/table.csv"));
    let plot = read(folder.path(), "out/plot.html");
    let printed = sweep(folder.path(), "");
    assert!(printed.contains("lsim: 24 configurations: 24 done, 0 to run, "), "{printed}");
    assert_eq!(read(folder.path(), "out/results.csv"), whole);
    // Eleven rows and half of another row remain.
    let lines: Vec<&str> = whole.lines().collect();
    let mut half = format!("{}\n{}", lines[..12].join("\n"), &lines[12][..40]);
    // A value that no simulation gives shows that its row was kept.
    half = half.replacen(",a.swf,", ",mine.swf,", 1);
    std::fs::write(folder.path().join("out/results.csv"), &half).expect("written");
    let printed = sweep(folder.path(), "");
    assert!(printed.contains("lsim: 24 configurations: 11 done, 13 to run, "), "{printed}");
    let again = read(folder.path(), "out/results.csv");
    assert!(again.starts_with(half.rsplit_once('\n').expect("lines").0));
    assert_eq!(sorted(&again.replacen(",mine.swf,", ",a.swf,", 1)), sorted(&whole));
    assert_eq!((read(folder.path(), "out/table.csv"), read(folder.path(), "out/plot.html")), (table, plot));
    // Another content under the same name makes another configuration.
    let made = lsim(folder.path(), "generate steady -o traces/a.swf --machine 16 --span 6h --seed 8");
    assert!(made.starts_with("exit 0"), "{made}");
    let printed = sweep(folder.path(), "");
    assert!(printed.contains("lsim: 24 configurations: 16 done, 8 to run, "), "{printed}");
}

#[test]
fn workers_do_not_matter() {
    let folder = product();
    let path = folder.path();
    let (one, four) = (lsim(path, "sweep s.toml --out one --jobs 1"), lsim(path, "sweep s.toml --out four --jobs 4"));
    let stdout = |printed: &str| printed.split("--- stderr").next().map(str::to_owned);
    assert!(one.starts_with("exit 0"), "{one}");
    assert_eq!(stdout(&one), stdout(&four));
    for file in ["table.csv", "plot.html"] {
        assert_eq!(read(path, &format!("one/{file}")), read(path, &format!("four/{file}")), "{file}");
    }
    let (one, four) = (read(path, "one/results.csv"), read(path, "four/results.csv"));
    assert_eq!(sorted(&one), sorted(&four));
    // One worker runs them in order.
    let keys = lsim(path, "sweep s.toml --dry-run");
    let keys: Vec<&str> = keys.lines().filter(|line| line.contains(".swf-") || line.contains("steady-")).collect();
    assert_eq!(column(&one, "key"), keys);
}

/// Substitute for `lrun` and `sbatch` that runs the tasks of an array on this machine, one after the other, and writes
/// its arguments to `$LOG`.
const SUBMITTER: &str = r#"#!/bin/sh
echo "$0 $@" >> "$LOG"
for argument; do
    case $argument in
        --array=*) last=${argument#--array=0-} ;;
        --output=*) output=${argument#--output=} ;;
        --error=*) error=${argument#--error=} ;;
    esac
    line=$argument
done
cd /
for LIMO_ARRAY_TASK_ID in $(seq 0 ${last%%%*}); do
    export LIMO_ARRAY_TASK_ID
    sh -c "$line" > "${output%%%*}$LIMO_ARRAY_TASK_ID.out" 2> "${error%%%*}$LIMO_ARRAY_TASK_ID.err"
    test "$LIMO_ARRAY_TASK_ID" != "$LAST" || exit 1
done
"#;

/// Writes a program to `bin` of the folder.
fn program(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder.join("bin")).expect("made");
    std::fs::write(folder.join("bin").join(name), text).expect("written");
    let made = Command::new("chmod").arg("+x").arg(folder.join("bin").join(name)).status().expect("chmod runs");
    assert!(made.success());
}

/// The rows of arrays are those of a sweep on this machine.
#[test]
fn on_a_cluster() {
    let folder = product();
    let path = folder.path();
    program(path, "lrun", SUBMITTER);
    program(path, "sbatch", SUBMITTER);
    sweep(path, "--jobs 2");
    let sent = |on: &str, out: &str, last: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lsim"));
        let paths = std::env::join_paths([path.join("bin"), "/usr/bin".into(), "/bin".into()]).expect("paths");
        command.env("PATH", paths).env("LOG", path.join("log")).env("LAST", last);
        command.current_dir(path).stdin(Stdio::null());
        command.args(["sweep", "s.toml", "--on", on, "--jobs", "3", "--out", out]).output().expect("runs")
    };
    let is_equal = |out: &str| {
        assert_eq!(sorted(&read(path, &format!("{out}/results.csv"))), sorted(&read(path, "out/results.csv")));
        assert_eq!(read(path, &format!("{out}/table.csv")), read(path, "out/table.csv"));
    };
    for on in ["lrun", "sbatch"] {
        let output = sent(on, on, "");
        assert!(output.status.success(), "{output:?}");
        is_equal(on);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("lsim: 24 simulations of "), "{stderr}");
        assert!(stderr.contains(" at once of at most 3 ("), "{stderr}");
    }
    let log = read(path, "log");
    assert_eq!(log.lines().count(), 2);
    assert!(log.contains("/bin/lrun --wait --job-name sweep --array=0-23%3 --output="), "{log}");
    // An array that ends early: the next run submits the rest.
    let output = sent("lrun", "again", "6");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("lsim: gave no result and runs again next time: and 7 more\n"), "{stderr}");
    assert_eq!(read(path, "again/results.csv").lines().count(), 1 + 7);
    assert!(sent("lrun", "again", "").status.success());
    assert!(read(path, "log").contains("--array=0-16%3 "));
    is_equal("again");
    // Rows that tasks wrote after the end of their sweep are taken.
    let rows = read(path, "out/results.csv");
    let (head, rows) = rows.split_once('\n').expect("a head");
    std::fs::create_dir_all(path.join("late/tasks/1/0")).expect("made");
    std::fs::write(path.join("late/results.csv"), format!("{head}\n")).expect("written");
    for (task, row) in rows.lines().take(20).enumerate() {
        std::fs::write(path.join(format!("late/tasks/1/0/{task}.out")), format!("{row}\n")).expect("written");
    }
    std::fs::write(path.join("late/tasks/1/0/20.out"), "half a ro").expect("written");
    assert!(sent("sbatch", "late", "").status.success());
    assert!(read(path, "log").contains("--array=0-3%3 "));
    is_equal("late");
    assert!(!path.join("late/tasks/1").exists());
    // A task without a row has no result.
    program(path, "lrun", "#!/bin/sh\necho 'lrun: no master' >&2\nexit 125\n");
    let output = sent("lrun", "lost", "");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    let told =
        "lsim: gave no result and runs again next time: easy on a.swf, budget 100%, set sleep: lrun: lrun: no master\n";
    assert!(stderr.contains(told), "{stderr}");
    assert_eq!(read(path, "lost/results.csv").lines().count(), 1);
}

/// Checks that a file of a sweep is refused with that text, and nothing is written.
fn file(text: &str, stderr: &str) {
    let folder = folder(&[("small.swf", SMALL), ("s.toml", text)]);
    refused(folder.path(), "sweep s.toml --out out", 1, stderr);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn files_that_are_not_understood() {
    let keys = "(lists: policies, budgets, traces, recipes, seeds, recipe, set; else the long options of `lsim run`)";
    file("policies = [\"easy\"]\npolcy = 3\n", &format!("lsim: s.toml:2: unknown key `polcy` {keys}"));
    let names = limo_model::Preset::ALL.map(|preset| format!("`{preset}`")).join(", ");
    file(
        "\npolicies = [\"esy\"]\n",
        &format!("lsim: s.toml:2: policies: unknown variant `esy`, expected one of {names}"),
    );
    file("a = [\n", "lsim: s.toml:1: unclosed array, expected `]`");
    file(
        "traces = [\"small.swf\"]\n",
        "lsim: s.toml: no policy: write for example policies = [\"easy\", \"energybud\"]",
    );
    file(
        "policies = [\"easy\"]\n",
        "lsim: s.toml: no workload: write for example traces = [\"weeks/*.swf.gz\"] or recipes = [\"lublin\"]",
    );
    file(
        "policies = [\"easy\"]\ntraces = [\"no*.swf\"]\n",
        "lsim: s.toml: traces: no file matches `no*.swf` (in this folder)",
    );
    file(
        "policies = [\"easy\"]\ntraces = [\"small.swf\"]\nbudgets = [\"80%\"]\n",
        "lsim: s.toml: budgets: `80%` needs a period: write from and until, for example from = \"2d\"",
    );
    file(
        "policies = [\"easy\"]\ntraces = [\"small.swf\"]\nbudgets = [80]\n",
        "lsim: s.toml: budgets: `80` is not a budget: write \"80%\", \"40MWh\", \"none\", or a table with budget, from and until",
    );
    file(
        "policies = [\"easy\"]\ntraces = [\"small.swf\"]\nseeds = [1]\n",
        "lsim: s.toml: seeds need recipes: write for example recipes = [\"lublin\"]",
    );
    file(
        "policies = [\"easy\", \"easy\"]\ntraces = [\"small.swf\"]\n",
        "lsim: two configurations are the same: easy on small.swf, and easy on small.swf; remove one of them",
    );
    file(
        "policy = \"easy\"\npolicies = [\"easy\"]\n",
        "lsim: s.toml: policy and policies exclude each other: write one of them",
    );
}

/// Uses 30 % of the full draw, which is below the draw of idle nodes: an error before anything runs, or a row with
/// the error.
#[test]
fn configurations_that_cannot_run() {
    let text = "policies = [\"easy\", \"energybud\"]\ntraces = [\"small.swf\"]\nbudgets = [\"80%\", \"30%\"]\nfrom = \"0s\"\nuntil = \"1000s\"\n";
    let folder = folder(&[("small.swf", SMALL), ("s.toml", text)]);
    let printed = lsim(folder.path(), "sweep s.toml --out out");
    let told = "lsim: 1 of 4 configurations cannot run, and none was run (--keep-going runs the others):\n  energybud on small.swf, budget 30%: ";
    assert!(printed.starts_with("exit 1\n--- stdout\n--- stderr\n") && printed.contains(told), "{printed}");
    assert!(!folder.path().join("out").exists());
    for time in ["0 done, 4 to run, ", "4 done, 0 to run, "] {
        let printed = lsim(folder.path(), "sweep s.toml --out out --keep-going");
        assert!(printed.starts_with("exit 1\n--- stdout\npolicy     budget  runs  failed  "), "{printed}");
        assert!(
            printed.contains(time) && printed.contains("\nlsim: failed: energybud on small.swf, budget 30%: "),
            "{printed}"
        );
        let results = read(folder.path(), "out/results.csv");
        assert_eq!(results.lines().count(), 5);
        assert_eq!(
            read(folder.path(), "out/table.csv").lines().filter(|line| line.starts_with("energybud,30%,,0,1,")).count(),
            1
        );
    }
}

#[test]
fn places_for_results() {
    let text = "policies = [\"easy\"]\ntraces = [\"small.swf\"]\n";
    let folder = folder(&[("small.swf", SMALL), ("s.toml", text)]);
    let printed = lsim(folder.path(), "sweep s.toml --out .");
    assert!(
        printed.ends_with(
            "lsim: . exists and is not a folder of a sweep (it has no results.csv); name another folder with --out\n"
        ),
        "{printed}"
    );
    let key = "easy-small.swf-0000000000000000";
    let unknown = format!(
        "lsim: no configuration has the key `{key}`: the file, a trace or the version of lsim has changed; --dry-run lists the keys"
    );
    refused(folder.path(), &format!("sweep s.toml --only {key}"), 1, &unknown);
}
