//! Section 4.3: the twenty workloads on five targets, at seven caps and none.

use lprof::measure::command_report::CommandReport;
use lprof::results::Measurement;
use lprof::workload::recipe::{Job, Recipe, operations};

use super::meter::{Draw, Names, measurement};

/// Seed of the recipe's matrices. With it, m4096_i0 has 21 and m4096_i200 11 matrices, as in Table 4.3.
const SEED: u64 = 102;

/// Duration of a workload that no target is too slow for. That of m4096 is longer: its last matrices are large.
const GOAL_S: f64 = 61.3;
const GOAL_OF_4096_S: f64 = 67.4;

/// Cap in watts (infinite without one), peak of the draw of the Xeon in watts, and slowdown: from Figure 4.5 and Table 4.4.
const CAPS: [(f64, f64, f64); 8] = [
    (8.0, 38.2, 2.926),
    (12.0, 40.0, 2.1),
    (16.0, 48.3, 1.67),
    (22.0, 56.6, 1.37),
    (30.0, 67.8, 1.20),
    (40.0, 81.4, 1.08),
    (60.0, 90.8, 1.0),
    (f64::INFINITY, 91.1, 1.0),
];

/// Idle draw of the Xeon, with which the peaks and slowdowns give the energies of Table 4.4.
const IDLE_W: f64 = 21.0;

/// The time at work of m4096_i200 by OpenCL on the Xeon: (3524 J - 21 W * 67.4 s) / (91.1 W - 21 W).
const WORK_S: f64 = 30.08;

/// A target: an implementation on a hardware.
struct Target {
    application: &'static str,
    hardware: &'static str,
    cores: u32,
    idle_w: f64,
    /// Time of a job beside its operations: of any job, and for each block of 16 in a row.
    job_s: f64,
    block_s: f64,
    /// Operations in a second.
    op_per_s: f64,
    /// Draw at work above that of the capped host.
    device_w: f64,
    /// Draw of the host as a share of that of the busy Xeon, and the lowest cap that does not slow it down.
    host: f64,
    free_w: f64,
}

/// Chosen so that the ratios in the text come out: see docs/lprof-report.md.
const TARGETS: [Target; 5] = [
    Target {
        application: "lud-openmp",
        hardware: "xeon-e3-1275v5",
        cores: 8,
        idle_w: IDLE_W,
        job_s: 9e-6,
        block_s: 0.0,
        op_per_s: 73e9,
        device_w: 0.0,
        host: 1.0,
        free_w: 60.0,
    },
    Target {
        application: "lud-opencl",
        hardware: "xeon-e3-1275v5",
        cores: 8,
        idle_w: IDLE_W,
        job_s: 20e-6,
        block_s: 90e-6,
        op_per_s: 190e9,
        device_w: 0.0,
        host: 1.0,
        free_w: 60.0,
    },
    Target {
        application: "lud-opencl",
        hardware: "intel-hd-p530",
        cores: 1,
        idle_w: IDLE_W,
        job_s: 0.245e-3,
        block_s: 0.37e-3,
        op_per_s: 75e9,
        device_w: 6.0,
        host: 0.12,
        free_w: 30.0,
    },
    Target {
        application: "lud-cuda",
        hardware: "quadro-p2000",
        cores: 1,
        idle_w: 26.0,
        job_s: 0.21e-3,
        block_s: 0.06e-3,
        op_per_s: 284e9,
        device_w: 40.0,
        host: 0.25,
        free_w: 8.0,
    },
    Target {
        application: "lud-opencl",
        hardware: "quadro-p2000",
        cores: 1,
        idle_w: 26.0,
        job_s: 0.2e-3,
        block_s: 0.06e-3,
        op_per_s: 230e9,
        device_w: 40.0,
        host: 0.08,
        free_w: 8.0,
    },
];

impl Target {
    fn work_s(&self, job: &Job) -> f64 {
        self.job_s + self.block_s * f64::from(job.blocks) + operations(job.blocks) / self.op_per_s
    }

    /// Returns draw and slowdown at work.
    fn at_work(&self, (cap_w, peak_w, slowdown): (f64, f64, f64)) -> (f64, f64) {
        let slowdown = if cap_w >= self.free_w { 1.0 } else { 1.0 + (slowdown - 1.0) * self.host.max(0.3) };
        (self.idle_w + self.device_w + self.host * (peak_w - IDLE_W), slowdown)
    }

    /// Returns the draw over time: idle and work in turn for m4096_i200 on the Xeon, otherwise all work first.
    fn draw(&self, recipe: Recipe, jobs: &[Job], at_work: (f64, f64)) -> Draw {
        let (watts, slowdown) = at_work;
        let name = recipe.to_string();
        if self.is_of_figure_4_5(&name) {
            return Draw { idle_w: self.idle_w, pieces: self.peaks(jobs, at_work) };
        }
        let goal_s = if name.starts_with("m4096") { GOAL_OF_4096_S } else { GOAL_S };
        let work_s = jobs.iter().map(|job| self.work_s(job)).sum::<f64>() * slowdown;
        Draw { idle_w: self.idle_w, pieces: vec![(work_s, watts), ((goal_s - work_s).max(0.01), self.idle_w)] }
    }

    fn is_of_figure_4_5(&self, workload: &str) -> bool {
        self.application == "lud-opencl" && self.hardware == "xeon-e3-1275v5" && workload == "m4096_i200"
    }

    /// Figure 4.5: each matrix begins when it is due, or when the one before has ended. Its part of the goal, and of the
    /// time at work, is that of its operations.
    fn peaks(&self, jobs: &[Job], (watts, slowdown): (f64, f64)) -> Vec<(f64, f64)> {
        let all: f64 = jobs.iter().map(|job| operations(job.blocks)).sum();
        let (mut now_s, mut due_s, mut pieces) = (0.0_f64, 0.0_f64, Vec::new());
        for job in jobs {
            let part = operations(job.blocks) / all;
            if due_s > now_s {
                pieces.push((due_s - now_s, self.idle_w));
                now_s = due_s;
            }
            pieces.push((part * WORK_S * slowdown, watts));
            now_s += part * WORK_S * slowdown;
            due_s += part * GOAL_OF_4096_S;
        }
        pieces.push(((GOAL_OF_4096_S - now_s).max(0.7), self.idle_w));
        pieces
    }
}

pub fn measurements() -> impl Iterator<Item = Measurement> {
    Recipe::all().flat_map(|recipe| {
        let jobs: Vec<Job> = recipe.jobs(SEED).collect();
        let count = jobs.len() as f64;
        let reported = CommandReport {
            kernel_s: None,
            jobs: Some(count),
            operations: Some(jobs.iter().map(|job| operations(job.blocks)).sum()),
            rows: Some(jobs.iter().map(|job| job.dimension() as f64).sum()),
        };
        TARGETS.iter().flat_map(move |target| {
            let size = recipe.to_string();
            let kept_samples = if target.is_of_figure_4_5(&size) { 1000 } else { 0 };
            let measured = |cap: &(f64, f64, f64)| {
                let names = Names {
                    application: target.application,
                    size: &size,
                    hardware: target.hardware,
                    cores: target.cores,
                    cap_w: Some(cap.0).filter(|cap| cap.is_finite()),
                    clocks: None,
                };
                measurement(&names, &target.draw(recipe, &jobs, target.at_work(*cap)), reported, kept_samples)
            };
            CAPS.iter().map(measured).collect::<Vec<_>>()
        })
    })
}
