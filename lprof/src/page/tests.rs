//! The page from points, with figures computed by hand.

use limo_model::{Power, ProfileKey};
use limo_power::ClockPair;

use super::*;
use crate::measure::command_report::CommandReport;
use crate::results::ResultKey;

/// A run of 10 s.
fn point(size: &str, hardware: &str, cap_w: i64, node_j: f64) -> Point {
    let cap = (cap_w > 0).then(|| Power::from_watts(cap_w));
    let (application, size, hardware) = ("lud".to_owned(), size.to_owned(), hardware.to_owned());
    let profile = ProfileKey { application, size, hardware, cores: Some(8), nodes: None, cap };
    Point {
        key: ResultKey { profile, clocks: None },
        host: "n1".to_owned(),
        meter: "powercap".to_owned(),
        emulated: false,
        reasons: Vec::new(),
        duration_s: 10.0,
        duration_error: 0.001,
        node_j,
        above_j: node_j / 2.0,
        energy_error: 0.01,
        highest_w: Some(60.0),
        reported: CommandReport::default(),
        trace: Vec::new(),
    }
}

/// A workload of `jobs` jobs of `op` operations.
fn workload(size: &str, hardware: &str, (jobs, op): (f64, f64), (cap_w, node_j): (i64, f64)) -> Point {
    let reported = CommandReport { jobs: Some(jobs), operations: Some(jobs * op), ..CommandReport::default() };
    Point { reported, ..point(size, hardware, cap_w, node_j) }
}

#[track_caller]
fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "{part} is not in {html}");
    }
}

#[test]
fn figures_without_data_are_named_with_the_command_that_gives_them() {
    let html = page("lprof: x", &[point("a", "xeon", 0, 100.0)], 2);
    has(
        &html,
        &[
            "Left out: Figures 4.2 to 4.4 of limo-2018, because no result has clocks",
            "lprof sweep --unit gpu0=nvml:0 --clocks all",
            "Left out: Figure 4.5 and Table 4.4 of limo-2018",
            "Left out: Figures 4.6 to 4.10, and Tables 4.3 and 4.5, of limo-2018",
            "2 results have no usable figures",
            "<th scope=\"row\">lud/a on xeon, 8 cores</th><td>10.00</td><td>0.1 %</td><td>100.0</td>",
        ],
    );
    assert!(!html.contains("<svg"), "{html}");
}

#[test]
fn hostile_names_are_escaped() {
    let evil = "\"><script>alert(1)</script>";
    let mut hostile = point("a", evil, 8, 100.0);
    (hostile.host, hostile.meter, hostile.reasons) = (evil.to_owned(), evil.to_owned(), vec![evil.to_owned()]);
    hostile.trace = vec![(0.0, 1.0, 40.0)];
    let clocks = Some(ClockPair { graphics_mhz: 810, memory_mhz: 405 });
    let mut clocked = hostile.clone();
    clocked.key.clocks = clocks;
    let html = page(evil, &[hostile, clocked, workload("w", evil, (1.0, 1e6), (0, 100.0))], 0);
    assert!(!html.contains("<script"), "{html}");
    has(&html, &["&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"]);
}

#[test]
fn caps_are_compared_with_none() {
    let mut points = [point("a", "xeon", 12, 74.0), point("a", "xeon", 8, 90.0), point("a", "xeon", 0, 100.0)];
    points[0].duration_s = 11.0;
    points[1].reasons.push("idle unstable".to_owned());
    points[0].trace = vec![(0.0, 5.0, 40.0), (5.0, 11.0, 20.0)];
    let html = page("x", &points, 0);
    has(
        &html,
        &[
            // 74 J are 26 % less than 100 J, and 11 s 10 % more than 10 s.
            "<th scope=\"row\">12.0 W</th><td>11.00</td><td>6.73</td><td>60.00</td><td>74.00</td><td>37.00</td><td>-26.0 %</td>\
         <td>10.0 %</td>",
            "<th scope=\"row\">8.0 W *</th>",
            "<p>Least energy: 74.00 J at 12.0 W, 26.0 % less than without a cap.</p>",
            "Draw of the node over a run at each cap: lud/a on xeon, 8 cores (Figure 4.5",
            "time since the begin of the run (s)",
            // The time axis has 15 s on 672 pixels from 76 on; the other one has 40 W on 276 pixels above 288.
            "d=\"M76.00 12.0H300.00L300.00 150.0H568.80\"",
        ],
    );
    // Caps in ascending order, none at last.
    let rows: Vec<usize> =
        [">8.0 W *</th>", ">12.0 W</th>", ">no cap</th>"].map(|row| html.find(row).expect("a row")).to_vec();
    assert!(rows.is_sorted(), "{rows:?}");
}

#[test]
fn pairs_of_clocks_become_lines_and_a_heat_map() {
    let pair = |graphics_mhz, memory_mhz, duration_s, kernel_s| {
        let mut point = point("16384", "quadro", 0, 50.0 * duration_s);
        point.key.clocks = Some(ClockPair { graphics_mhz, memory_mhz });
        point.duration_s = duration_s;
        point.reported.kernel_s = Some(kernel_s);
        point
    };
    let points = [pair(139, 405, 154.0, 97.0), pair(139, 810, 154.0, 97.0), pair(1721, 810, 68.0, 10.88)];
    let html = page("x", &points, 0);
    has(
        &html,
        &[
            "Duration by clocks: lud/16384 on quadro, 8 cores (Figure 4.2 of limo-2018)",
            "(Figure 4.3 of limo-2018)",
            "(Figure 4.4 of limo-2018)",
            "graphics clock (MHz)",
            "<title>whole run, memory 810 MHz, 1721 MHz: 68.0000</title>",
            "<title>kernel, memory 405 MHz, 139 MHz: 97.0000</title>",
            // 97 of 154 s, 10.88 of 68 s: 63.0 %, 16.0 %, and (2 * 62.99 + 16) / 3.
            "The kernel share is 16.0 % to 63.0 %, in the mean 47.3 %: below 90.0 %",
            "<th scope=\"row\">1721 MHz</th><td></td><td class=\"h0\">3400</td>",
            "<th scope=\"row\">139 MHz</th><td class=\"h9\">7700</td><td class=\"h9\">7700</td>",
        ],
    );
}

#[test]
fn workloads_are_compared_between_targets() {
    let small = (2_000_000.0, 33_500.0);
    let large = (20.0, 9e11);
    let points = [
        workload("m16_i0", "xeon", small, (0, 300.0)),
        workload("m16_i0", "xeon", small, (8, 200.0)),
        workload("m16_i0", "quadro", small, (0, 4400.0)),
        workload("m4096_i0", "xeon", large, (0, 4000.0)),
        workload("m4096_i0", "quadro", large, (0, 1000.0)),
    ];
    let html = page("x", &points, 0);
    has(
        &html,
        &[
            // 33.5 kOp and 2 million jobs in 10 s.
            "<th scope=\"row\">m16_i0</th><td></td><td>2.00 M</td><td>33.5 kOp</td><td>6.70 GOp/s</td><td>10.00 s</td>",
            "<title>lud on xeon, 8 cores, m16_i0: 200.0000</title>",
            "<th scope=\"row\">m4096_i0</th><td>1000</td><td>4000</td>",
            // 4400 / 200 = 22 and 4000 / 1000 = 4; the square root of 88 is 9.38.
            "needs 13.00 times the energy of the best one in the mean of the workloads, 9.38 times in the geometric mean, and at least 4.00 times, for m4096_i0",
            // A third of 300 J.
            "<p>Saved: 33.3 % in the mean, 33.3 to 33.3 %.</p>",
            "<th scope=\"row\">lud on xeon, 8 cores</th><td>8.0 W</td><td>no cap</td>",
            "job size (MOp)",
            "throughput (GOp/s)",
        ],
    );
    // The smaller jobs come first.
    assert!(html.find(">m16_i0<") < html.find(">m4096_i0<"));
}

#[test]
fn absurd_figures_do_not_hang_the_page() {
    let mut points = Vec::new();
    for (index, value) in [0.0, 1e-300, 1e15].into_iter().enumerate() {
        let mut point = workload(&format!("w{index}_i0"), "x", (1e-300, 1e15), (index as i64, value));
        (point.duration_s, point.highest_w, point.trace) = (1e-300, Some(value), vec![(0.0, 1e15, value)]);
        points.push(point.clone());
        point.key.clocks = Some(ClockPair { graphics_mhz: u32::MAX * (index as u32 % 2), memory_mhz: 0 });
        points.push(point);
    }
    assert!(page("x", &points, 0).ends_with("</html>\n"));
}
