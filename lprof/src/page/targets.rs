//! Figures 4.6 to 4.10 and Tables 4.3 and 4.5: the energy of workloads on several targets, each at its best setting.
//!
//! A target is an application on a hardware, and a workload a size class whose runs reported jobs and operations.

use std::collections::BTreeMap;

use limo_plot::{Cell, PlotLine, Table};

use super::caps::cap;
use super::parts::{ChartText, MOST_GROUPS, axis, chart, mark, missing, number};
use super::point::Point;
use crate::machine::Setting;
use crate::quantity::si;

/// Most workloads and targets that are shown.
const MOST_WORKLOADS: usize = 100;

/// A workload: its size class, and what it consists of.
#[derive(Debug, Clone, PartialEq)]
struct MeasuredWorkload {
    name: String,
    jobs: f64,
    operations: f64,
    rows: Option<f64>,
    /// Shortest duration of all targets and settings, which gives the throughput.
    duration_s: f64,
}

impl MeasuredWorkload {
    /// Returns the millions of operations of a job.
    fn job_mop(&self) -> f64 {
        self.operations / self.jobs / 1e6
    }

    /// Returns the billions of operations in a second.
    fn gop_per_s(&self) -> f64 {
        self.operations / self.duration_s / 1e9
    }

    /// Returns the name of its job size and its idle time: `m256` and `0` of `m256_i0`.
    fn parts(&self) -> (&str, &str) {
        self.name.rsplit_once("_i").unwrap_or((&self.name, "0"))
    }
}

/// Settings that were measured of a workload on a target.
type Cells<'p> = BTreeMap<(String, String), Vec<&'p Point>>;

/// The measured workloads on the measured targets.
struct Targets<'p> {
    workloads: Vec<MeasuredWorkload>,
    names: Vec<String>,
    /// By target and workload.
    cells: Cells<'p>,
}

/// Returns the figures of all workloads.
pub fn section(points: &[Point]) -> String {
    let html = "<h2>Workloads</h2>\n".to_owned();
    let targets = Targets::of(points);
    if targets.workloads.is_empty() {
        let how = "no result has jobs and operations; <code>lprof sweep --unit cpu=rapl --grid 8W,12W -- lprof workload run \
                   FILE --app lud-cpu --stdio 'lprof serve --stdio'</code> measures a workload.";
        return html + &missing("Figures 4.6 to 4.10, and Tables 4.3 and 4.5, of limo-2018", how);
    }
    html + &targets.specification()
        + &targets.by_size()
        + &targets.by_throughput()
        + &targets.savings()
        + &targets.optimal()
}

impl<'p> Targets<'p> {
    fn of(points: &'p [Point]) -> Self {
        let mut workloads: BTreeMap<&str, MeasuredWorkload> = BTreeMap::new();
        let mut cells = Cells::new();
        for point in points {
            let report = &point.reported;
            let (Some(jobs), Some(operations)) = (report.jobs, report.operations) else { continue };
            if jobs <= 0.0 || operations <= 0.0 {
                continue;
            }
            let size = point.key.profile.size.as_str();
            let new = || MeasuredWorkload {
                name: size.to_owned(),
                jobs,
                operations,
                rows: report.rows,
                duration_s: f64::INFINITY,
            };
            let workload = workloads.entry(size).or_insert_with(new);
            workload.duration_s = workload.duration_s.min(point.duration_s);
            cells.entry((target(point), size.to_owned())).or_default().push(point);
        }
        let mut workloads: Vec<MeasuredWorkload> = workloads.into_values().collect();
        workloads.sort_by(|one, other| {
            let by_size = one.parts().0.cmp(other.parts().0);
            let order = if by_size.is_eq() {
                other.gop_per_s().total_cmp(&one.gop_per_s())
            } else {
                one.job_mop().total_cmp(&other.job_mop())
            };
            order.then_with(|| one.name.cmp(&other.name))
        });
        workloads.truncate(MOST_WORKLOADS);
        let mut names: Vec<String> = cells.keys().map(|(target, _)| target.clone()).collect();
        names.dedup();
        names.truncate(MOST_GROUPS);
        Self { workloads, names, cells }
    }

    fn points(&self, target: &str, workload: &MeasuredWorkload) -> &[&'p Point] {
        self.cells.get(&(target.to_owned(), workload.name.clone())).map_or(&[], Vec::as_slice)
    }

    /// Returns the measurement with the least energy; others than the original setting must be trusted.
    fn best(&self, target: &str, workload: &MeasuredWorkload) -> Option<&'p Point> {
        let points = self.points(target, workload).iter().copied();
        let eligible = points.filter(|point| point.is_good() || point.setting() == Setting::Original);
        eligible.min_by(|one, other| one.node_j.total_cmp(&other.node_j))
    }

    /// Returns the part of the energy that the best setting saves, 0 to 1.
    fn saved(&self, target: &str, workload: &MeasuredWorkload) -> Option<f64> {
        let points = self.points(target, workload);
        let original = points.iter().find(|point| point.setting() == Setting::Original)?;
        let best = self.best(target, workload).filter(|_| points.len() > 1 && original.node_j > 0.0)?;
        Some(1.0 - best.node_j / original.node_j)
    }

    /// Table 4.3.
    fn specification(&self) -> String {
        let row = |workload: &MeasuredWorkload| -> Vec<Cell> {
            let dimension = workload.rows.map(|rows| format!("{0:.0} × {0:.0}", rows / workload.jobs));
            let cells = [
                workload.name.clone(),
                dimension.unwrap_or_default(),
                si(workload.jobs, "").trim().to_owned(),
                si(workload.job_mop() * 1e6, "Op"),
                si(workload.gop_per_s() * 1e9, "Op/s"),
                format!("{} s", number(workload.duration_s)),
            ];
            cells.into_iter().map(Cell::from).collect()
        };
        let head = ["name", "matrix size", "jobs", "job size", "throughput", "shortest duration"];
        Table {
            caption: "Workloads (Table 4.3 of limo-2018); Op as in its Equation (4.1)".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: self.workloads.iter().map(row).collect(),
        }
        .html()
    }

    /// Returns a line for each target.
    fn lines<'w>(
        &self,
        workloads: impl Iterator<Item = &'w MeasuredWorkload> + Clone,
        at: fn(&MeasuredWorkload) -> f64,
        value: impl Fn(&str, &MeasuredWorkload) -> Option<f64>,
    ) -> Vec<PlotLine> {
        let line = |(index, target): (usize, &String)| PlotLine {
            index,
            name: target.clone(),
            points: workloads
                .clone()
                .filter_map(|workload| Some((at(workload), value(target, workload)?, workload.name.clone())))
                .collect(),
            is_marked: true,
        };
        let lines = self.names.iter().enumerate().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }

    fn energy(&self, target: &str, workload: &MeasuredWorkload) -> Option<f64> {
        self.best(target, workload).map(|point| point.node_j)
    }

    /// Figure 4.6, and the table of energies that all figures share.
    fn by_size(&self) -> String {
        let full: Vec<&MeasuredWorkload> = self.workloads.iter().filter(|workload| workload.parts().1 == "0").collect();
        let series = self
            .lines(full.iter().copied(), MeasuredWorkload::job_mop, |target, workload| self.energy(target, workload));
        let text = ChartText {
            caption: "Energy by job size, workloads without idle time, each at the setting with the least energy (Figure 4.6 \
                      of limo-2018)",
            across: "job size (MOp)",
            down: "energy of the node (J)",
        };
        let across = axis(full.iter().map(|workload| workload.job_mop()), true);
        let row = |workload: &MeasuredWorkload| -> Vec<Cell> {
            let energies = self.names.iter().map(|target| {
                let best = self.best(target, workload);
                Cell::from(best.map_or_else(String::new, |best| format!("{}{}", number(best.node_j), mark(best))))
            });
            [Cell::from(workload.name.as_str())].into_iter().chain(energies).collect()
        };
        let table = Table {
            caption: "Least energy of the node (J), the values of Figures 4.6 to 4.9".to_owned(),
            head: ["workload".to_owned()].into_iter().chain(self.names.iter().cloned()).collect(),
            rows: self.workloads.iter().map(row).collect(),
        };
        let figure = if series.is_empty() {
            missing("Figure 4.6", "no workload has a name that ends in _i0.")
        } else {
            chart(text, &across, true, &series)
        };
        figure + &table.html() + &self.ratios()
    }

    /// How many times the energy of the best target the worst one needs.
    fn ratios(&self) -> String {
        let ratio = |workload: &MeasuredWorkload| {
            let energies: Vec<f64> = self
                .names
                .iter()
                .filter_map(|target| self.energy(target, workload))
                .filter(|energy| *energy > 0.0)
                .collect();
            let (low, high) =
                energies.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
            (energies.len() > 1).then_some((high / low, workload.name.clone()))
        };
        let ratios: Vec<(f64, String)> = self.workloads.iter().filter_map(ratio).collect();
        let Some(least) = ratios.iter().min_by(|one, other| one.0.total_cmp(&other.0)) else { return String::new() };
        let count = ratios.len() as f64;
        let mean = ratios.iter().map(|(ratio, _)| ratio).sum::<f64>() / count;
        let geometric = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / count).exp();
        format!(
            "<p>The worst target needs {} times the energy of the best one in the mean of the workloads, {} times in \
             the geometric mean, and at least {} times, for {}.</p>\n",
            number(mean),
            number(geometric),
            number(least.0),
            limo_plot::escaped(&least.1)
        )
    }

    /// Figures 4.7 to 4.9: of all workloads, and of each job size.
    fn by_throughput(&self) -> String {
        let figure = |caption: &str, workloads: Vec<&MeasuredWorkload>| {
            let series = self.lines(workloads.iter().copied(), MeasuredWorkload::gop_per_s, |target, workload| {
                self.energy(target, workload)
            });
            let across = axis(workloads.iter().map(|workload| workload.gop_per_s()), true);
            chart(
                ChartText { caption, across: "throughput (GOp/s)", down: "energy of the node (J)" },
                &across,
                true,
                &series,
            )
        };
        let mut html =
            figure("Energy by throughput, all workloads (Figure 4.7 of limo-2018)", self.workloads.iter().collect());
        let mut sizes: Vec<&str> = self.workloads.iter().map(|workload| workload.parts().0).collect();
        sizes.dedup();
        for size in sizes.into_iter().take(MOST_GROUPS) {
            let of_size: Vec<&MeasuredWorkload> =
                self.workloads.iter().filter(|workload| workload.parts().0 == size).collect();
            if of_size.len() > 1 {
                html += &figure(
                    &format!("Energy by throughput, workloads {size} (Figures 4.8 and 4.9 of limo-2018)"),
                    of_size,
                );
            }
        }
        html
    }

    /// Figure 4.10.
    fn savings(&self) -> String {
        let percents =
            |target: &str, workload: &MeasuredWorkload| self.saved(target, workload).map(|saved| saved * 100.0);
        let series = self.lines(self.workloads.iter(), MeasuredWorkload::gop_per_s, percents);
        let all: Vec<f64> = series.iter().flat_map(|line| line.points.iter().map(|(_, value, _)| *value)).collect();
        if all.is_empty() {
            return missing("Figure 4.10", "no workload has results with and without a cap or clocks on one target.");
        }
        let text = ChartText {
            caption: "Energy that the best setting saves against the default (Figure 4.10 of limo-2018)",
            across: "throughput (GOp/s)",
            down: "saved energy (%)",
        };
        let across = axis(self.workloads.iter().map(MeasuredWorkload::gop_per_s), true);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let row = |line: &PlotLine| -> Vec<Cell> {
            let values: Vec<f64> = line.points.iter().map(|(_, value, _)| *value).collect();
            let (low, high) = range(&values);
            let cells = [line.name.clone(), format!("{:.1}", mean(&values)), format!("{low:.1}"), format!("{high:.1}")];
            cells.into_iter().map(Cell::from).collect()
        };
        let table = Table {
            caption: "Saved energy by target".to_owned(),
            head: ["target", "mean (%)", "least (%)", "most (%)"].map(str::to_owned).to_vec(),
            rows: series.iter().map(row).collect(),
        };
        let (low, high) = range(&all);
        let sum = format!("<p>Saved: {:.1} % in the mean, {low:.1} to {high:.1} %.</p>\n", mean(&all));
        chart(text, &across, false, &series) + &table.html() + &sum
    }

    /// Table 4.5.
    fn optimal(&self) -> String {
        let row = |target: &String| -> Vec<Cell> {
            let settings = self.workloads.iter().map(|workload| {
                self.best(target, workload).map_or_else(|| "".into(), |best| Cell::from(cap(best.setting())))
            });
            [Cell::from(target.as_str())].into_iter().chain(settings).collect()
        };
        let names = self.workloads.iter().map(|workload| workload.name.clone());
        Table {
            caption: "Setting with the least energy by target and workload (Table 4.5 of limo-2018)".to_owned(),
            head: ["target".to_owned()].into_iter().chain(names).collect(),
            rows: self.names.iter().map(row).collect(),
        }
        .html()
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// Names a target.
fn target(point: &Point) -> String {
    let profile = &point.key.profile;
    match profile.cores {
        Some(cores) if cores > 1 => format!("{} on {}, {cores} cores", profile.application, profile.hardware),
        _ => format!("{} on {}", profile.application, profile.hardware),
    }
}
