//! The wattmeter of limo-2018, which shows a mean over 320 ms, and a measurement from its samples.

use limo_power::ClockPair;
use lprof::measure::command_report::CommandReport;
use lprof::measure::sheet::MeterSheet;
use lprof::measure::window::{Sample, TimeRange, above_idle, idle, thinned};
use lprof::results::{Measurement, Provenance, RunRecord, Summary};

const SHEET: MeterSheet = MeterSheet { interval_s: 0.32, window_s: 0.32, lag_s: 0.0, part_time: false };

/// Idle time before and after a run.
const IDLE_S: f64 = 5.0;

/// Number of runs. All are equal, because the text has no intervals.
const RUNS: usize = 5;

/// Draw of a run over time: pieces that follow one another, with duration in seconds and watts.
pub struct Draw {
    pub idle_w: f64,
    pub pieces: Vec<(f64, f64)>,
}

impl Draw {
    fn duration_s(&self) -> f64 {
        self.pieces.iter().map(|(seconds, _)| seconds).sum()
    }

    /// Returns the mean draw between two times after the begin of the run. Before and after it the machine is idle.
    fn mean_w(&self, from_s: f64, until_s: f64) -> f64 {
        let mut begin_s = 0.0;
        let mut above_j = 0.0;
        for (seconds, watts) in &self.pieces {
            let inside_s = (until_s.min(begin_s + seconds) - from_s.max(begin_s)).max(0.0);
            above_j += (watts - self.idle_w) * inside_s;
            begin_s += seconds;
        }
        self.idle_w + above_j / (until_s - from_s)
    }

    /// Measures one run.
    fn run(&self, reported: CommandReport, kept_samples: usize) -> RunRecord {
        let pad_s = SHEET.pad_s();
        let begin_s = IDLE_S + 2.0 * pad_s;
        let run = TimeRange { begin_s, end_s: begin_s + self.duration_s() };
        let after = TimeRange { begin_s: run.end_s + pad_s, end_s: run.end_s + pad_s + IDLE_S };
        let sample = |number: u32| {
            let (at_s, over_s) = (f64::from(number) * SHEET.interval_s, SHEET.interval_s);
            let draw_w = self.mean_w(at_s - over_s - begin_s, at_s - begin_s);
            Sample { at_s, over_s, draw_w, shown_w: None }
        };
        let samples: Vec<Sample> = (1..).map(sample).take_while(|sample| sample.at_s < after.end_s + 1.0).collect();
        // Five seconds have 15 samples.
        let of_idle = |range| idle(&samples, range).expect("five seconds have samples");
        let (idle_before, idle_after) = (of_idle(TimeRange { begin_s: pad_s, end_s: pad_s + IDLE_S }), of_idle(after));
        // The pads around the run have samples, too.
        let found = above_idle(&samples, run, pad_s, (idle_before, idle_after)).expect("the run has samples");
        RunRecord {
            begin_s: run.begin_s,
            end_s: run.end_s,
            times: 1,
            duration_s: run.length_s(),
            energy_j: found.above_j,
            by_draw_j: None,
            idle_before,
            idle_after,
            idle_w: found.idle_w,
            idle_error_w: found.idle_error_w,
            coverage: found.coverage,
            looks: found.looks,
            other_cores: 0.0,
            throttled: 0,
            is_outlier: false,
            limits: None,
            reported,
            samples: if kept_samples > 0 { thinned(&samples, kept_samples) } else { Vec::new() },
        }
    }
}

/// Names of a measurement.
pub struct Names<'a> {
    pub application: &'a str,
    pub size: &'a str,
    pub hardware: &'a str,
    pub cores: u32,
    pub cap_w: Option<f64>,
    pub clocks: Option<ClockPair>,
}

/// Measures a command with this draw. Keeps a number of samples of its first run.
pub fn measurement(names: &Names<'_>, draw: &Draw, reported: CommandReport, kept_samples: usize) -> Measurement {
    let first = draw.run(reported, kept_samples);
    let others = (1..RUNS).map(|_| RunRecord { samples: Vec::new(), ..first.clone() });
    let mut runs: Vec<RunRecord> = others.collect();
    runs.insert(0, first);
    // Two runs would be enough.
    let (summary, _) = Summary::of(&mut runs).expect("five runs");
    Measurement {
        schema: Measurement::SCHEMA,
        application: names.application.to_owned(),
        size: names.size.to_owned(),
        hardware: names.hardware.to_owned(),
        cores: names.cores,
        cap_w: names.cap_w,
        clocks: names.clocks,
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: "limo-2018".to_owned(),
            kernel: "none".to_owned(),
            started_ms: 0,
            command: Vec::new(),
            emulated: true,
            meter: "a replayed wattmeter".to_owned(),
            sheet: SHEET,
            idle_s: IDLE_S,
            seed: None,
            warm_up_s: Vec::new(),
        },
        summary: Some(summary),
        reasons: Vec::new(),
        runs,
    }
}
