//! `plot.html`: utilisation, AVEbsld and energy against the budget, one line for each policy and variant. The page
//! works offline and has no script.

use std::fmt::Write as _;

use limo_model::decimal::divide;
use limo_plot::{Axis, Chart, PlotLine, legend};

use super::file::{Period, Plan};
use super::table::{Combination, Table};
use crate::setup::Amount;

/// Line of the plot, in the order of the sweep's budgets.
struct Curve<'t> {
    name: String,
    lines: Vec<&'t Combination>,
}

/// Figure of a combination.
type Figured = dyn Fn(&Combination) -> Option<f64>;

/// Plotted figure: a caption, the unit of the axis, and the value in that unit.
struct PlottedMeasure {
    caption: &'static str,
    unit: String,
    value: Box<Figured>,
    /// True for ratios without an upper bound, which may have a logarithmic axis.
    logarithmic: bool,
}

/// Makes the page.
pub fn page(title: &str, plan: &Plan, table: &Table) -> String {
    let curves = curves(plan, table);
    let (name, places) = across(&plan.budgets);
    let mut body = String::new();
    // Writing to a `String` cannot fail.
    for measure in measures(table) {
        let series = |(index, curve): (usize, &Curve<'_>)| PlotLine {
            index,
            name: curve.name.clone(),
            points: curve
                .lines
                .iter()
                .zip(&places.at)
                .filter_map(|(line, at)| Some((*at, (measure.value)(line)?, format!("budget {}", line.budget))))
                .collect(),
            is_marked: true,
        };
        let series: Vec<PlotLine> = curves.iter().enumerate().map(series).collect();
        let values = || series.iter().flat_map(|series| series.points.iter().map(|(_, value, _)| *value));
        let down = Axis::of_values(values(), measure.logarithmic);
        let scale = if down.is_logarithmic() { ", logarithmic" } else { "" };
        let chart = Chart {
            across: &places.axis,
            down: &down,
            across_name: &name,
            down_name: &format!("{}{scale}", measure.unit),
            series: &series,
        };
        let _ = write!(body, "<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", measure.caption, chart.svg());
    }
    body.push_str(&overhead(&curves).unwrap_or_default());
    let noun = if plan.sources.len() == 1 { "workload" } else { "workloads" };
    let intro = format!(
        "<p>Means over {} {noun}. The figures are in table.csv, those of single simulations in results.csv.</p>\n",
        plan.sources.len()
    );
    let legend = legend(curves.iter().map(|curve| curve.name.as_str()));
    limo_plot::page(title, &(intro + &legend + &body))
}

/// Makes a line for each policy and variant.
fn curves<'t>(plan: &Plan, table: &'t Table) -> Vec<Curve<'t>> {
    let mut curves = Vec::new();
    for policy in &plan.policies {
        for variant in &plan.variants {
            let lines = table.lines.iter().filter(|line| line.policy == policy.name() && line.set == variant.name);
            let name =
                if variant.name.is_empty() { policy.name().to_owned() } else { format!("{policy}, {}", variant.name) };
            curves.push(Curve { name, lines: lines.collect() });
        }
    }
    curves
}

/// Draws overhead against energy, with a mark for each combination; `None` if no figures are those of pools.
fn overhead(curves: &[Curve<'_>]) -> Option<String> {
    let point = |line: &&Combination| {
        let (energy, overhead) = (line.energy? as f64 / 3.6e12, line.mean("mean_overhead_s")? as f64 / 3.6e9);
        let [evictions, wasted] =
            ["evictions", "wasted_energy_j"].map(|name| line.mean(name).unwrap_or(0) as f64 / 1e6);
        Some((energy, overhead, format!("{evictions:.0} evictions, {:.3} kWh wasted", wasted / 3.6e6)))
    };
    let series = |(index, curve): (usize, &Curve<'_>)| PlotLine {
        index,
        name: curve.name.clone(),
        points: curve.lines.iter().filter_map(point).collect(),
        is_marked: true,
    };
    let series: Vec<PlotLine> = curves.iter().enumerate().map(series).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    points().next()?;
    let across = Axis::of_values(points().map(|(energy, ..)| *energy), false);
    let down = Axis::of_values(points().map(|(_, overhead, _)| *overhead), false);
    let (across_name, down_name) = ("energy (kWh)", "mean overhead (h)");
    let chart = Chart { across: &across, down: &down, across_name, down_name, series: &series };
    let caption = "Mean overhead of jobs against energy";
    Some(format!("<figure>\n<figcaption>{caption}</figcaption>\n{}</figure>\n", chart.svg()))
}

fn measures(table: &Table) -> [PlottedMeasure; 3] {
    let most = table.lines.iter().filter_map(|line| line.energy).max().unwrap_or(0);
    // The unit goes from 10^-6 J to kWh, or to MWh from 10 MWh on.
    let (unit, size) = if most >= 36_000_000_000_000_000 { ("MWh", 3_600_000_000) } else { ("kWh", 3_600_000) };
    let millionths = |value: i128| value as f64 / 1e6;
    [
        PlottedMeasure {
            caption: "Utilisation",
            unit: "utilisation (%)".to_owned(),
            value: Box::new(move |line| line.mean("utilisation").map(|value| millionths(value * 100))),
            logarithmic: false,
        },
        PlottedMeasure {
            caption: "Average bounded slowdown, jobs below 10 s counted as 10 s",
            unit: "AVEbsld (no unit)".to_owned(),
            value: Box::new(move |line| line.mean("avebsld").map(millionths)),
            logarithmic: true,
        },
        PlottedMeasure {
            caption: "Energy over the same time: the window, else until the last simulation of a workload has ended",
            unit: format!("energy ({unit})"),
            value: Box::new(move |line| line.energy.map(|value| millionths(divide(value, size)))),
            logarithmic: false,
        },
    ]
}

/// Axis of the budgets, and the place of each.
struct Places {
    axis: Axis,
    at: Vec<f64>,
}

/// Places budgets by size if all are of one kind and period. Otherwise side by side.
fn across(budgets: &[Period]) -> (String, Places) {
    let same = budgets.windows(2).all(|pair| pair[0].from == pair[1].from && pair[0].until == pair[1].until);
    let percent = |period: &Period| match period.amount {
        Some(Amount::Percent(ratio)) => Some(ratio.numerator as f64 / ratio.denominator as f64),
        _ => None,
    };
    let kwh = |period: &Period| match period.amount {
        Some(Amount::Energy(energy)) => Some(energy.mj() as f64 / 3.6e9),
        _ => None,
    };
    let all = |size: &dyn Fn(&Period) -> Option<f64>| budgets.iter().map(size).collect::<Option<Vec<f64>>>();
    let sizes = match (all(&percent), all(&kwh)) {
        (Some(at), _) => Some(("budget (% of what all processors use while they compute)", at)),
        (_, Some(at)) => Some(("budget (kWh)", at)),
        _ => None,
    };
    match sizes.filter(|_| same && budgets.len() > 1) {
        Some((name, at)) => (name.to_owned(), Places { axis: Axis::between(&at), at }),
        None => {
            let labels = budgets.iter().map(|period| period.label.clone()).collect();
            (
                "budget".to_owned(),
                Places { axis: Axis::of_labels(labels), at: (0..budgets.len()).map(|at| at as f64).collect() },
            )
        }
    }
}
