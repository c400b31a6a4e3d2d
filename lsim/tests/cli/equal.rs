//! Equal input gives equal bytes, on every machine and in every folder.

use super::{folder, lsim, read};

/// Removes the last two keys, which describe the simulating machine.
fn timeless(schedule: &str) -> String {
    let kept: Vec<&str> = schedule.lines().filter(|line| !is_cost(line)).collect();
    assert_eq!(kept.len() + 2, schedule.lines().count());
    kept.join("\n")
}

fn is_cost(line: &str) -> bool {
    ["\"wall_s\"", "\"peak_rss_bytes\""].iter().any(|key| line.trim_start().starts_with(key))
}

fn check(options: &str) {
    let results = [(); 2].map(|()| {
        let folder = folder(&[("p.csv", "time,price_eur_per_mwh\n0,80\n6h,-20\n12h,55.5\n")]);
        let generated = lsim(folder.path(), "generate lublin --jobs 300 --seed 7 -o w.swf.gz");
        assert!(generated.starts_with("exit 0"), "{generated}");
        // Neither the folder's name nor the path of the file is part of the results.
        let trace = folder.path().join("w.swf.gz");
        let run = format!("run --trace {} --prices p.csv --out out --replace {options}", trace.display());
        let printed = lsim(folder.path(), &run);
        assert!(printed.starts_with("exit 0"), "{printed}");
        let schedule = timeless(&read(folder.path(), "out/schedule.json"));
        let files = ["out/jobs.csv", "out/draw.csv", "out/report.html"].map(|name| read(folder.path(), name));
        (printed, schedule, files)
    });
    assert!(results[0] == results[1], "{options}");
    let [jobs, draw, _] = &results[0].2;
    assert_eq!(jobs.lines().count(), 301);
    assert!(draw.lines().count() > 300);
}

#[test]
fn two_runs_give_equal_bytes() {
    check("--policy easy");
    check("--policy energybud --budget 60% --from 6h --until 30h --release by-price --set rest=idle");
    check("--policy reducepc --budget 60% --from 6h --until 30h --set allocation=contiguous");
}
