//! A complete hand-made run is read back, and other runs leave nothing behind.

use limo_model::{Energy, Money, Power, Price, Span, Time};
use limo_requirements::SmallDisk;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::record::{BudgetPeriod, BudgetSample, ByState, Fate, HostUse, Steering, Switches, Window};

/// Returns a time after the start of the workload, which is 1,000 s on the simulation's clock.
fn secs(secs: i64) -> Time {
    Time::from_unix_ms(1_000_000 + secs * 1_000)
}

fn heading() -> Heading {
    Heading {
        workload: "two, small.swf".to_owned(),
        platform: "four.toml".to_owned(),
        processors: 4,
        policy: "energybud".to_owned(),
        options: vec![("period".to_owned(), "600s".to_owned())],
        seed: Some(42),
        start: secs(0),
        window: Some(Window { from: secs(0), until: secs(100) }),
    }
}

/// Makes a sample. A processor draws 200 W computing and 100 W idle. The limit is 700 W, which four busy processors
/// exceed.
fn sample(at: i64, computing: u32, queued: u32) -> Sample {
    let draw = Power::from_watts(i64::from(computing) * 200 + i64::from(4 - computing) * 100);
    Sample {
        at: secs(at),
        draw,
        believed: draw,
        limit: Some(Power::from_watts(700)),
        lower: None,
        budget: Some(BudgetSample {
            released: Energy::from_joules(700 * at),
            spent: Energy::from_joules(500 * at),
            reserved: Energy::ZERO,
        }),
        price: Some(Price::from_milli_per_mwh(72_000)),
        queued,
        running: u32::from(computing > 0),
        processors: ByState { idle: 4 - computing, computing, ..ByState::default() },
    }
}

fn job(number: i64, times: (i64, i64, i64), allocated: &[(u32, u32)]) -> JobRow<'_> {
    let (submit, start, end) = times;
    let processors = allocated.iter().map(|(first, last)| last - first + 1).sum::<u32>();
    JobRow {
        number,
        submit: secs(submit),
        processors,
        walltime: Some(Span::from_secs(60)),
        user: 5,
        fate: Fate::Completed,
        start: Some(secs(start)),
        end: Some(secs(end)),
        allocated,
        energy: Power::from_watts(200) * Span::from_secs((end - start) * i64::from(processors)),
        cost: Some(Money::from_micro(20 * (end - start))),
    }
}

fn summary() -> Summary {
    Summary {
        end: secs(100),
        energy_by_state: ByState {
            idle: Energy::from_joules(22_000),
            computing: Energy::from_joules(36_000),
            ..ByState::default()
        },
        switches: Switches { on: 1, off: 2 },
        steering: Steering { caps: 3, suspended: 2, resumed: 1, requeued: 4 },
        budgets: vec![BudgetPeriod {
            window: Window { from: secs(0), until: secs(100) },
            energy: Energy::from_joules(70_000),
            spent: Energy::from_joules(58_000),
        }],
        pool: None,
        predictions: None,
        rounds: 6,
        violations: 0,
        host: HostUse { wall: Span::from_ms(1_234), peak_rss_bytes: 5_000_000 },
    }
}

/// Writes job 1 on two nodes from 0 to 50, job 2 on all four from 50 to 70, then idle nodes until 100.
fn run(output: &mut Output) -> Result<(), WriteError> {
    output.sample(&sample(0, 0, 1))?;
    output.sample(&sample(0, 2, 0))?;
    output.sample(&sample(10, 2, 1))?;
    // Two samples at the same instant: the end of one job, then the start of the next.
    output.sample(&sample(50, 0, 1))?;
    output.sample(&sample(50, 4, 0))?;
    output.job(&job(1, (0, 0, 50), &[(0, 0), (3, 3)]))?;
    output.sample(&sample(70, 0, 0))?;
    output.job(&job(2, (10, 50, 70), &[(0, 3)]))?;
    output.finish(&summary())
}

fn read(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).expect(name)
}

fn written() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a place");
    let out = place.path().join("out");
    let mut output = Output::create(&out, false, heading()).expect("prepared");
    run(&mut output).expect("written");
    assert_eq!(output.schedule(), Some(read(&out, SCHEDULE).as_str()));
    (place, out)
}

#[test]
fn tables_of_a_run_by_hand() {
    let (_place, out) = written();
    let jobs = format!(
        "{}\n{}\n{}\n",
        jobs::COLUMNS,
        "1,\"two, small.swf\",,0,2,60,1,COMPLETED_SUCCESSFULLY,0,50,50,0,50,1,0 3,20000,,20000,0.001,5",
        "2,\"two, small.swf\",,10,4,60,1,COMPLETED_SUCCESSFULLY,50,20,70,40,60,3,0-3,16000,,16000,0.0004,5",
    );
    assert_eq!(read(&out, "jobs.csv"), jobs);
    let draw = format!(
        "{}\n{}\n{}\n{}\n{}\n",
        draw::COLUMNS,
        "0,600,600,700,,0,0,0,72,0,1,2,2,0,0,0",
        "10,600,600,700,,7000,5000,0,72,1,1,2,2,0,0,0",
        "50,800,800,700,,35000,25000,0,72,0,1,0,4,0,0,0",
        "70,400,400,700,,49000,35000,0,72,0,0,4,0,0,0,0",
    );
    assert_eq!(read(&out, "draw.csv"), draw);
}

#[test]
fn figures_of_a_run_by_hand() {
    let (_place, out) = written();
    let text = read(&out, SCHEDULE);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let number = |key: &str| value[key].as_f64().unwrap_or(f64::NAN);
    // The utilisation is 2 x 50 + 4 x 20 processor seconds of 4 x 100; the slowdowns are 1 and 60/20.
    assert_eq!((number("jobs"), number("utilisation"), number("avebsld")), (2.0, 0.45, 2.0));
    assert_eq!((number("mean_wait_s"), number("max_wait_s"), number("makespan_s")), (20.0, 40.0, 70.0));
    // The energy is 50 x 600 + 20 x 800 + 30 x 400 J. At 72 EUR/MWh, 58 kJ are 0.00116 EUR. The draw is above 700 W
    // for 20 of 100 s.
    assert_eq!((number("energy_j"), number("cost"), number("outside_limits_share")), (58_000.0, 0.00116, 0.2));
    assert_eq!(
        (&value["window"]["energy_j"], &value["budget_periods"][0]["overspent"]),
        (&58_000.0.into(), &false.into())
    );
    assert_eq!(
        (&value["schema"], &value["seed"], &value["options"]["period"]),
        (&1.into(), &42.into(), &"600s".into())
    );
    // Values that depend on the machine come last, so that all earlier ones can be compared.
    assert!(text.ends_with("  },\n  \"wall_s\": 1.234,\n  \"peak_rss_bytes\": 5000000\n}\n"), "{text}");
}

#[test]
fn equal_runs_are_equal_bytes_and_the_page_needs_no_network() {
    let ((_a, one), (_b, two)) = (written(), written());
    for name in FILES {
        assert_eq!(read(&one, name), read(&two, name), "{name}");
    }
    let page = read(&one, "report.html");
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("{{"), "a link or a marker");
    assert!(!page.contains("wall_s"), "the page must not depend on the machine");
    let (_, data) = page.split_once("id=\"data\">").expect("data");
    let data: Value = serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
    assert_eq!(data["gantt"]["jobs"][1], serde_json::json!([2, 10_000, 50_000, 70_000, 4, 5, 0, 0, 3]));
    assert_eq!(data["schedule"]["jobs"], 2);
    // Buckets are 128 ms wide: 600 W until 50 s, then 800 W.
    assert_eq!((&data["series"]["width"], &data["series"]["draw"][1][389]), (&128.into(), &600_000.into()));
    assert_eq!(data["series"]["draw"][1][391], 800_000);
    // The outcome is 58,000 of 70,000 J.
    assert_eq!(data["outcomes"], serde_json::json!([["Budget kept", "0.016 kWh of 0.019 kWh"]]));
}

#[test]
fn an_earlier_result_is_replaced_and_other_files_stay() {
    let (_place, out) = written();
    fs::write(out.join("notes.txt"), "mine").expect("a note");
    fs::write(out.join("jobs.csv"), "old").expect("an old table");
    let refused = Output::create(&out, false, heading()).expect_err("it would be lost").to_string();
    assert!(
        refused
            .ends_with("out already holds a result; add --replace to overwrite it, or name another folder with --out")
    );
    let mut output = Output::create(&out, true, heading()).expect("prepared");
    assert_eq!(read(&out, "jobs.csv"), "old", "replaced only at the end");
    run(&mut output).expect("written");
    assert!(read(&out, "jobs.csv").starts_with("job_id,"));
    assert_eq!(read(&out, "notes.txt"), "mine");
    assert!(!out.with_file_name("out.partial").exists());
}

#[test]
fn folders_that_are_not_ours_are_refused() {
    let place = tempfile::tempdir().expect("a place");
    let out = place.path().join("home");
    fs::create_dir(&out).expect("a folder");
    drop(Output::create(&out, false, heading()).expect("an empty one will do"));
    fs::write(out.join("thesis.tex"), "mine").expect("a file");
    let refused = Output::create(&out, false, heading()).expect_err("not ours").to_string();
    assert!(refused.contains("is not an lsim result (it has no schedule.json)"), "{refused}");
    let refused = Output::create(&out.join("thesis.tex"), false, heading()).expect_err("a file").to_string();
    assert!(refused.contains("is not an lsim result"), "{refused}");

    let partial = place.path().join("new.partial");
    fs::create_dir(&partial).expect("a folder");
    fs::write(partial.join("jobs.csv"), "cut").expect("the folder of a killed run");
    drop(Output::create(&place.path().join("new"), false, heading()).expect("taken over"));
    fs::create_dir(&partial).expect("a folder");
    fs::write(partial.join("thesis.tex"), "mine").expect("a file");
    let refused = Output::create(&place.path().join("new"), false, heading()).expect_err("not ours").to_string();
    assert!(refused.contains("holds thesis.tex"), "{refused}");
    assert!(matches!(Output::create(Path::new(".."), false, heading()), Err(OutputError::NoName(_))));
}

#[test]
fn a_run_that_fails_leaves_nothing_and_keeps_the_earlier_result() {
    let (_place, out) = written();
    let before = read(&out, SCHEDULE);
    let mut output = Output::create(&out, true, heading()).expect("prepared");
    output.job(&job(1, (0, 0, 50), &[(0, 0)])).expect("written");
    drop(output);
    assert_eq!(read(&out, SCHEDULE), before);
    assert!(!out.with_file_name("out.partial").exists());
}

#[test]
fn a_full_disk_names_the_file_and_leaves_nothing() {
    let Some(disk) = SmallDisk::mount(256 << 10) else { return };
    let out = disk.path().join("out");
    let mut output = Output::create(&out, false, heading()).expect("prepared");
    let failed = (0..10_000).find_map(|number| output.job(&job(number, (0, 0, 50), &[(0, 3)])).err());
    let error = failed.expect("256 KiB do not hold 10,000 rows").to_string();
    assert!(error.contains("jobs.csv") && error.contains("free space"), "{error}");
    drop(output);
    assert_eq!(fs::read_dir(disk.path()).expect("a folder").count(), 0, "nothing is left");

    // The disk is full at the last moment: the tables fit, but the page does not.
    let mut output = Output::create(&out, false, heading()).expect("prepared");
    fs::write(disk.path().join("filler"), vec![0; 245_760]).expect("fills all but four pages");
    let error = run(&mut output).expect_err("no place for the page").to_string();
    assert!(error.contains("report.html"), "{error}");
    drop(output);
    assert!(!out.exists() && !out.with_file_name("out.partial").exists());
}
