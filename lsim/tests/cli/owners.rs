//! Owners of computers and reboots: the hand-computed cases of htc-sim-2015's model. Energies are those of one computer
//! that draws 57 W while in use, 40 W idle and 2 W asleep.

use serde_json::Value;

use super::{column, folder, lsim, read, refused};

const PRICES: &str = "time,price_eur_per_mwh\n0,100\n";
const HEAD: &str = "id,batch,submit,duration,user,result,removed,bytes_in,bytes_out\n";

/// One computer. A minute is 60 s; times of a day are those of 1 January 1970.
fn pool(more: &str) -> String {
    format!(
        "[group.a]\ncomputers = 1\ntype = \"normal\"\ncores = 2\nactive = \"57 W\"\nidle = \"40 W\"\nsleep = \"2 W\"\n{more}"
    )
}

fn at(hours: i64, minutes: i64) -> i64 {
    hours * 3_600 + minutes * 60
}

/// Runs jobs of a begin and a duration with sessions, in seconds. Returns the end of the first job and the figures.
fn run(groups: &str, jobs: &[(i64, i64)], sessions: &[(i64, i64)], options: &str) -> (String, Value) {
    let job = |(number, (submit, duration)): (usize, &(i64, i64))| {
        format!("{number}.0,{number},{submit},{duration},u,completed,,,\n")
    };
    let jobs = HEAD.to_owned() + &jobs.iter().enumerate().map(job).collect::<String>();
    let session = |(login, logout): &(i64, i64)| format!("{login},{logout},a-001,ann\n");
    let sessions = "login,logout,computer,user\n".to_owned() + &sessions.iter().map(session).collect::<String>();
    let folder = folder(&[("j.csv", &jobs), ("s.csv", &sessions), ("g.toml", groups)]);
    let line = format!("run --trace j.csv --platform g.toml --sessions s.csv --policy fifo --out out {options}");
    let printed = lsim(folder.path(), &line);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let table = read(folder.path(), "out/jobs.csv");
    let end = column(&table, "finish_time").first().map_or(String::new(), |end| (*end).to_owned());
    let figures: Value = serde_json::from_str(&read(folder.path(), "out/schedule.json")).expect("JSON");
    assert_eq!(figures["violations"], 0);
    // Each moment of the computer is in one state, and the energies of the states are that of the machine.
    let states = figures["pool"]["groups"][0].as_object().expect("states");
    let sum = |key: &str| states.values().map(|of| of[key].as_f64().expect("a number")).sum::<f64>();
    assert_near(sum("node_s"), figures["simulated_s"].as_f64().expect("a number"));
    assert_near(sum("energy_j"), figures["energy_j"].as_f64().expect("a number"));
    (end, figures)
}

/// Returns the time in seconds and the energy in Wh of a state of the only group.
fn state(figures: &Value, name: &str) -> (f64, f64) {
    let of = &figures["pool"]["groups"][0][name];
    (of["node_s"].as_f64().expect("a number"), of["energy_j"].as_f64().expect("a number") / 3_600.0)
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.002, "{found}, expected {expected}");
}

#[test]
fn a_short_visit_suspends_a_job() {
    let (end, figures) = run(&pool(""), &[(at(10, 0), 3_600)], &[(at(10, 20), at(10, 25))], "");
    assert_eq!(end, at(11, 5).to_string());
    assert_near(figures["pool"]["overhead_s"]["mean"].as_f64().expect("a mean"), 300.0);
    assert_near(state(&figures, "job").1, 57.0);
    assert_near(state(&figures, "suspended").1, 57.0 / 12.0);
    assert_eq!(state(&figures, "idle").0, at(10, 0) as f64);
}

#[test]
fn a_long_visit_evicts_a_job() {
    let (end, figures) = run(&pool(""), &[(at(10, 0), 3_600)], &[(at(10, 20), at(10, 40))], "");
    assert_eq!(end, at(11, 55).to_string());
    assert_near(figures["pool"]["overhead_s"]["mean"].as_f64().expect("a mean"), 55.0 * 60.0);
    assert_near(state(&figures, "job").1, 76.0);
    assert_near(state(&figures, "idle").1, 400.0 + 10.0);
    assert_near(state(&figures, "suspended").0, 600.0);
    assert_near(state(&figures, "user").0, 600.0);
    let wasted = &figures["pool"]["wasted_by_owners"];
    assert_eq!(wasted["evictions"], 1);
    assert_near(wasted["energy_j"].as_f64().expect("a number") / 3_600.0, 19.0);
    assert_near(figures["pool"]["good"]["energy_j"].as_f64().expect("a number") / 3_600.0, 57.0);
}

/// The job makes a checkpoint at 10:15, and is suspended at 10:20. From 10:55 it has 45 min of work left, and with the cost
/// 1 min more for each of two checkpoints.
#[test]
fn an_evicted_job_goes_on_from_its_last_checkpoint() {
    let visit = [(at(10, 20), at(10, 40))];
    let (end, figures) = run(&pool(""), &[(at(10, 0), 3_600)], &visit, "--checkpoint-every 15min");
    assert_eq!(end, at(11, 40).to_string());
    let wh = |key: &str| figures["pool"][key]["energy_j"].as_f64().expect("a number") / 3_600.0;
    assert_near(wh("wasted_by_owners"), 4.75);
    assert_near(wh("good"), 57.0);
    assert_eq!(figures["pool"]["checkpoints"]["count"], 3);
    let costs = "--checkpoint-every 15min --checkpoint-cost 1min";
    let (end, figures) = run(&pool(""), &[(at(10, 0), 3_600)], &visit, costs);
    assert_eq!(end, at(11, 42).to_string());
    let seconds = |key: &str| figures["pool"][key]["node_s"].as_f64().expect("a number");
    assert_eq!((seconds("wasted_by_owners"), seconds("checkpoints"), seconds("good")), (240.0, 180.0, 3_600.0));
}

/// Two visits evict the job after 10 min each; the second time it may not run again, so its checkpoint is worthless.
#[test]
fn a_job_is_given_up() {
    let visits = [(at(10, 10), at(10, 11)), (at(10, 21), at(10, 22))];
    let options = "--set max-restarts=1 --evict-after 0s --start-after 0s --checkpoint-every 4min";
    let (end, figures) = run(&pool(""), &[(at(10, 0), 3_600)], &visits, options);
    assert_eq!(end, at(10, 21).to_string());
    let of = &figures["pool"];
    assert_eq!((&of["given_up"], &of["good"]["jobs"]), (&Value::from(1), &Value::from(0)));
    assert_eq!(of["wasted_by_owners"]["node_s"].as_f64(), Some(1_200.0));
    let (end, _) = run(&pool(""), &[(at(10, 0), 3_600)], &visits, &options.replace("=1", "=none"));
    // It has kept 16 of its 60 min.
    assert_eq!(end, at(11, 6).to_string());
}

/// The draw changes at 10:00, 10:20, 10:40, 10:55 and 11:55. After the row of the begin, two rows are at least an hour apart.
#[test]
fn rows_of_the_draw_are_thinned() {
    let rows = |options: &str| {
        let folder = folder(&[
            ("j.csv", &format!("{HEAD}0.0,0,{},3600,u,completed,,,\n", at(10, 0))),
            ("s.csv", &format!("login,logout,computer,user\n{},{},a-001,ann\n", at(10, 20), at(10, 40))),
            ("g.toml", &pool("")),
        ]);
        let line = "run --trace j.csv --platform g.toml --sessions s.csv --policy fifo --out out";
        let printed = lsim(folder.path(), &format!("{line} {options}"));
        assert!(printed.starts_with("exit 0"), "{printed}");
        let hours = |time: &&str| time.parse::<f64>().expect("a time") / 3_600.0;
        column(&read(folder.path(), "out/draw.csv"), "time_s").iter().map(hours).collect::<Vec<f64>>()
    };
    let each = rows("");
    assert!(each.len() > 5, "{each:?}");
    let thinned = rows("--samples 1h");
    assert_eq!(thinned, [each[0], 10.0, *each.iter().find(|hours| **hours >= 11.0).expect("the end")]);
}

#[test]
fn other_times_of_the_rules() {
    let visit = [(at(10, 20), at(10, 40))];
    let (end, figures) = run(&pool(""), &[(at(10, 0), 3_600)], &visit, "--evict-after 30min");
    assert_eq!((end, &figures["pool"]["wasted_by_owners"]["evictions"]), (at(11, 20).to_string(), &Value::from(0)));
    let (end, _) = run(&pool(""), &[(at(10, 0), 3_600)], &visit, "--evict-after 0s --start-after 0s");
    assert_eq!(end, at(11, 40).to_string());
}

#[test]
fn a_sleeping_computer_wakes_for_a_job() {
    let (end, figures) = run(&pool(""), &[(at(2, 0), 3_600)], &[], "--set rest=idle:30min");
    assert_eq!(end, (at(3, 0) + 10).to_string());
    let names = ["idle", "down", "sleep", "up", "job"];
    let [idle, down, sleep, up, job] = names.map(|name| state(&figures, name));
    assert_eq!([idle.0, down.0, up.0, job.0], [1_800.0, 10.0, 10.0, 3_600.0]);
    assert_eq!(sleep.0, (at(1, 30) - 10) as f64);
    assert_near([idle, down, sleep, up, job].iter().map(|of| of.1).sum(), 80.217);
}

/// Reboots this computer at 03:47:01.390: FNV-1a of its name, modulo two hours, is 2,821,390 ms.
#[test]
fn a_reboot_evicts_a_job_or_waits_for_it() {
    let groups = pool("reboot = \"03:00-05:00\"\n");
    let (job, visit) = ([(at(1, 0), 3 * 3_600)], [(at(7, 0), at(7, 1))]);
    let (end, figures) = run(&groups, &job, &visit, "--start-after 0s");
    assert_eq!(end, "24721.39");
    let wasted = &figures["pool"]["wasted_by_reboots"];
    assert_eq!(wasted["evictions"], 1);
    assert_near(wasted["node_s"].as_f64().expect("a number"), 10_021.39);
    assert_near(wasted["energy_j"].as_f64().expect("a number"), 10_021.39 * 57.0);
    assert_eq!(state(&figures, "reboot"), (300.0, 57.0 / 12.0));

    let (end, figures) = run(&groups, &job, &visit, "--start-after 0s --reboots defer");
    assert_eq!(end, at(4, 0).to_string());
    assert_eq!((state(&figures, "reboot").0, &figures["pool"]["reboots"]), (300.0, &Value::from(1)));

    let short = pool("reboot = \"03:10-03:11\"\n");
    let (_, figures) = run(&short, &job, &visit, "--start-after 0s --reboots defer");
    assert_eq!([&figures["pool"]["reboots"], &figures["pool"]["reboots_left_out"]], [&Value::from(0), &Value::from(1)]);
    let (_, figures) = run(&groups, &job, &visit, "--reboots off");
    assert_eq!(figures["pool"]["reboots"], 0);
}

/// Keeps a user there until 03:50, so that the reboot waits; later in the window it wakes the computer, which sleeps again.
#[test]
fn a_reboot_waits_for_an_owner_and_wakes_a_computer() {
    let groups = pool("reboot = \"03:00-05:00\"\n");
    let visits = [(at(3, 40), at(3, 50)), (at(10, 0), at(10, 1))];
    let (_, figures) = run(&groups, &[], &visits, "--set rest=idle:30min");
    assert_eq!(state(&figures, "reboot").0, 300.0);
    assert_eq!(figures["pool"]["visits"], 2);
    let (_, figures) = run(&groups, &[], &visits[1..], "--set rest=idle:30min");
    // It sleeps after 30 min, at the reboot, and before the visit, which wake it.
    assert_eq!((state(&figures, "up").0, state(&figures, "down").0), (20.0, 20.0));
    assert_eq!((state(&figures, "reboot").0, state(&figures, "user").0), (300.0, 50.0));
}

/// An owner who comes when a job would end evicts it, and it runs again: owners come before jobs end.
#[test]
fn an_owner_evicts_a_job_in_the_instant_of_its_end() {
    let jobs = [(0, 60), (5, 30)];
    let (end, figures) = run(&pool(""), &jobs, &[(60, 70)], "--evict-after 0s --start-after 0s");
    assert_eq!((end, &figures["pool"]["wasted_by_owners"]["evictions"]), ("130".to_owned(), &Value::from(1)));
    assert_near(figures["pool"]["good"]["node_s"].as_f64().expect("a number"), 90.0);
}

/// The computer wakes for a job from 03:46:55 to 03:47:05, and its reboot is due at 03:47:01.390.
#[test]
fn a_deferred_reboot_waits_for_a_job_that_waits_for_its_computer() {
    let groups = pool("reboot = \"03:00-05:00\"\n");
    let jobs = [(at(3, 46) + 55, 600)];
    let options = "--set rest=idle:30min --reboots defer";
    let (end, figures) = run(&groups, &jobs, &[(at(7, 0), at(7, 1))], options);
    assert_eq!(end, (at(3, 57) + 5).to_string());
    assert_eq!([&figures["pool"]["reboots"], &figures["pool"]["wasted_by_reboots"]["evictions"]], [1, 0]);
}

/// An owner comes while the computer wakes for its reboot, and stays beyond the window.
#[test]
fn a_computer_takes_jobs_after_a_reboot_that_was_left_out() {
    let groups = pool("reboot = \"03:00-05:00\"\n");
    let visits = [(at(3, 47) + 5, at(5, 30))];
    let (end, figures) = run(&groups, &[(at(5, 45), 60)], &visits, "--set rest=idle:30min --start-after 0s");
    assert_eq!(end, at(5, 46).to_string());
    assert_eq!([&figures["pool"]["reboots"], &figures["pool"]["reboots_left_out"]], [0, 1]);
}

/// After a visit, the computer sleeps before jobs may start on it again, and wakes when one does.
#[test]
fn an_idle_computer_sleeps_before_jobs_may_start_again() {
    let options = "--set rest=idle:5min --start-after 15min";
    let (end, figures) = run(&pool(""), &[(70, 60)], &[(0, 60)], options);
    assert_eq!(end, (60 + 900 + 10 + 60).to_string());
    let names = ["idle", "down", "sleep", "up"];
    assert_eq!(names.map(|name| state(&figures, name).0), [300.0, 10.0, 590.0, 10.0]);
}

/// The computer draws 40 W for 10 h, then 57 W for 65 min: 461.75 Wh. With a PUE of 2 these are 923.5 Wh, which cost 0.138525 EUR at
/// 100 x 1.5 EUR/MWh. They emit 184.7 g, for which 0.002955 EUR are charged. The job has the idle draw for 65 min and 17 W for
/// 60 min: 60.333 Wh at 2 x (150 + 3.2) EUR/MWh.
#[test]
fn a_group_has_a_pue_a_price_and_carbon_of_its_own() {
    let keys = "pue = 2\nprice_factor = 1.5\ncarbon = \"200 g/kWh\"\ncarbon_charge = \"16 EUR/t\"\n";
    let jobs = format!("{HEAD}1.0,1,{},3600,u,completed,,,\n", at(10, 0));
    let sessions = format!("login,logout,computer,user\n{},{},a-001,ann\n", at(10, 20), at(10, 25));
    let files = [("j.csv", jobs.as_str()), ("s.csv", &sessions), ("g.toml", &pool(keys)), ("p.csv", PRICES)];
    let folder = folder(&files);
    let line = "run --trace j.csv --platform g.toml --sessions s.csv --policy fifo --prices p.csv --out out";
    let printed = lsim(folder.path(), line);
    assert!(printed.contains("0.924 kWh for 0.141 EUR; 0.2 kg of carbon (0.003 EUR)"), "{printed}");
    let figures: Value = serde_json::from_str(&read(folder.path(), "out/schedule.json")).expect("JSON");
    let expected = serde_json::json!({
        "nodes_j": 461.75 * 3_600.0, "energy_j": 923.5 * 3_600.0, "cost": 0.14148, "carbon_kg": 0.1847,
        "carbon_charge": 0.002955,
    });
    assert_eq!(figures["pool"]["facility"], expected);
    assert_eq!(figures["pool"]["facility_by_group"]["a"], expected);
    assert_eq!(column(&read(folder.path(), "out/jobs.csv"), "cost"), ["0.018486"]);
    let compared = lsim(folder.path(), "compare out out");
    assert!(
        compared.contains("pool.facility.carbon_kg") && compared.contains("pool.facility_by_group.a.cost"),
        "{compared}"
    );
}

/// 75 MB take 10 min at 1 Mbit/s. A visit at 10:05 suspends the transfer, and evicts the job at 10:15. From 10:40 on it
/// transfers again, works for an hour, and transfers its result of half the size: it ends at 11:55.
#[test]
fn a_job_occupies_its_computer_while_it_transfers_data() {
    let jobs = format!("{HEAD}1.0,1,{},3600,u,completed,,75000000,37500000\n", at(10, 0));
    let sessions = format!("login,logout,computer,user\n{},{},a-001,ann\n", at(10, 5), at(10, 25));
    let folder = folder(&[("j.csv", &jobs), ("s.csv", &sessions), ("g.toml", &pool(""))]);
    let run = |out: &str, options: &str| -> Value {
        let line = format!("run --trace j.csv --platform g.toml --sessions s.csv --policy fifo --out {out} {options}");
        let printed = lsim(folder.path(), &line);
        assert!(printed.starts_with("exit 0"), "{printed}");
        serde_json::from_str(&read(folder.path(), &format!("{out}/schedule.json"))).expect("JSON")
    };
    let figures = run("slow", "--bandwidth 1Mbit/s");
    assert_eq!(column(&read(folder.path(), "slow/jobs.csv"), "finish_time"), [at(11, 55).to_string()]);
    let pool = &figures["pool"];
    let transfers = serde_json::json!({"attempts": 2, "node_s": 1_200.0, "energy_j": 1_200.0 * 57.0});
    assert_eq!((&pool["transfers"], &pool["mean_transfer_s"]), (&transfers, &Value::from(600.0)));
    assert_eq!(pool["overhead_s"]["mean"], 55.0 * 60.0);
    assert_eq!(
        (&pool["wasted_by_owners"]["node_s"], &pool["good"]["node_s"]),
        (&Value::from(0.0), &Value::from(3_600.0))
    );
    assert_eq!(state(&figures, "job").0, 1_200.0 + 3_600.0);
    // Without a bandwidth transfers take no time; the first five minutes of work are lost.
    let figures = run("fast", "");
    assert_eq!(column(&read(folder.path(), "fast/jobs.csv"), "finish_time"), [at(11, 40).to_string()]);
    let pool = &figures["pool"];
    assert_eq!((&pool["transfers"]["attempts"], &pool["mean_transfer_s"]), (&Value::from(0), &Value::Null));
    assert_eq!(pool["wasted_by_owners"]["node_s"], 300.0);
    assert_eq!((&pool["evictions"], &pool["wasted_energy_j"]), (&Value::from(1), &Value::from(300.0 * 57.0)));
    let compared = lsim(folder.path(), "compare slow fast");
    for name in ["pool.overhead_s.mean", "pool.evictions", "pool.wasted_energy_j", "pool.mean_transfer_s"] {
        assert!(compared.contains(&format!("\n{name} ")), "{name}: {compared}");
    }
    let page = read(folder.path(), "slow/report.html");
    for part in [
        "Nodes by state over the day",
        "Logins of owners per day",
        "<th scope=\"row\">transfers</th><td>2</td><td>0.3</td>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("{{"), "{page}");
}

/// The job of [`a_long_visit_evicts_a_job`].
#[test]
fn a_sweep_plots_overheads_against_energy() {
    let jobs = format!("{HEAD}1.0,1,{},3600,u,completed,,,\n", at(10, 0));
    let sessions = format!("login,logout,computer,user\n{},{},a-001,ann\n", at(10, 20), at(10, 40));
    let plan = "policies = [\"fifo\"]\nbudgets = [\"none\"]\ntraces = [\"j.csv\"]\nplatform = \"g.toml\"\nsessions = \"s.csv\"\n";
    let folder = folder(&[("j.csv", &jobs), ("s.csv", &sessions), ("g.toml", &pool("")), ("plan.toml", plan)]);
    let printed = lsim(folder.path(), "sweep plan.toml --out out");
    assert!(printed.starts_with("exit 0"), "{printed}");
    let results = read(folder.path(), "out/results.csv");
    let figure = |name: &str| column(&results, name)[0].parse::<f64>().expect("a number");
    assert_near(figure("mean_overhead_s"), 55.0 * 60.0);
    assert_near(figure("evictions"), 1.0);
    assert_near(figure("wasted_energy_j"), 19.0 * 3_600.0);
    let page = read(folder.path(), "out/plot.html");
    assert!(page.contains("mean overhead (h) against energy (kWh)"), "{page}");
    assert!(page.contains("fifo, 1 evictions, 0.019 kWh wasted: 0.9167"), "{page}");
}

/// 1 January 1970 was a Thursday. Of two groups, one is open to its owners until 18:00, and on Saturday from 09:00 on; the
/// other is open always. S4 takes the closed one, and while both are open the first one by name.
#[test]
fn jobs_go_to_groups_that_are_closed_to_owners() {
    let hours = "open = [\"mon-fri 08:00-18:00\", \"sat 09:00-13:00\"]\n";
    let always = pool("").replace("group.a", "group.a-always").replace("57 W", "60 W");
    let groups = always + &pool(hours).replace("group.a", "group.office");
    let submits = [at(7, 59), at(8, 0), at(17, 59), at(18, 0), at(48 + 8, 59), at(48 + 9, 0), at(48 + 13, 0)];
    let jobs = submits.iter().zip(0..).map(|(at, number)| format!("{number}.0,{number},{at},10,u,completed,,,\n"));
    let folder = folder(&[("j.csv", &(HEAD.to_owned() + &jobs.collect::<String>())), ("g.toml", &groups)]);
    let nodes = |rank: &str| {
        let options = format!("--part placement=pool --set pool-rank={rank} --set pool-ties=first --reboots off");
        let line = format!("run --trace j.csv --platform g.toml --policy fifo --out {rank} {options}");
        let printed = lsim(folder.path(), &line);
        assert!(printed.starts_with("exit 0"), "{printed}");
        let table = read(folder.path(), &format!("{rank}/jobs.csv"));
        column(&table, "allocated_resources").join(" ")
    };
    assert_eq!(nodes("S4"), "1 0 0 1 1 0 1");
    assert_eq!(nodes("S1"), "0 0 0 0 0 0 0");
}

#[test]
fn wrong_files_are_refused() {
    let refuse = |sessions: &str, expected: &str| {
        let jobs = format!("{HEAD}1.0,1,5,5,u,completed,,,\n");
        let folder = folder(&[("j.csv", &jobs), ("s.csv", sessions), ("g.toml", &pool(""))]);
        let line = "run --trace j.csv --platform g.toml --sessions s.csv --policy fifo --out out";
        refused(folder.path(), line, 1, expected);
    };
    refuse("login\n", "lsim: s.csv: the first line is `login`: expected `login,logout,computer,user`");
    refuse("login,logout,computer,user\n1,2,b-001,\n", "lsim: s.csv: computer `b-001` is not a node of the platform");
}
