//! Figures 4.2 to 4.4: duration, draw and kernel share over the clocks of a GPU, and the energy as a heat map.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::ProfileKey;
use limo_plot::{Axis, Cell, PlotLine, Table, escaped};
use limo_power::ClockPair;

use super::parts::{ChartText, MOST_GROUPS, chart, cut, mark, missing, number, percent};
use super::point::Point;

/// Kernel share below which an energy says more about the rest of the program. In limo-2018 it was 26 %.
const LEAST_SHARE: f64 = 0.9;

/// Most memory clocks of a figure, each a line.
const MOST_MEMORIES: usize = 10;

/// Measured pairs of one application.
type Pairs<'p> = BTreeMap<ClockPair, &'p Point>;

/// Returns the figures of each application that was measured with pairs of clocks.
pub fn section(points: &[Point]) -> String {
    let mut groups: BTreeMap<ProfileKey, Pairs<'_>> = BTreeMap::new();
    for point in points {
        if let Some(pair) = point.key.clocks {
            groups.entry(point.subject()).or_default().insert(pair, point);
        }
    }
    let html = "<h2>Clocks of a GPU</h2>\n".to_owned();
    if groups.is_empty() {
        let how = "no result has clocks; <code>lprof sweep --unit gpu0=nvml:0 --clocks all --memory-clocks all -- \
                   COMMAND</code> measures them.";
        return html + &missing("Figures 4.2 to 4.4 of limo-2018", how);
    }
    let shown: String = groups.iter().take(MOST_GROUPS).map(|(key, pairs)| group(key, pairs)).collect();
    html + &shown + &cut(groups.len(), "applications with clocks")
}

fn group(key: &ProfileKey, pairs: &Pairs<'_>) -> String {
    let graphics: BTreeSet<u32> = pairs.keys().map(|pair| pair.graphics_mhz).collect();
    let memories: Vec<u32> =
        pairs.keys().map(|pair| pair.memory_mhz).collect::<BTreeSet<_>>().into_iter().take(MOST_MEMORIES).collect();
    let at: Vec<f64> = graphics.iter().map(|clock| f64::from(*clock)).collect();
    // An axis between equal ends has no marks.
    let axis = match at.as_slice() {
        [only] => Axis::stepped(only - 1.0, only + 1.0, 1.0),
        _ => Axis::between(&at),
    };
    let lines = |of: fn(&Point) -> Option<f64>, name: &str| -> Vec<PlotLine> {
        let line = |memory: &u32| {
            let of_memory = pairs.iter().filter(|(pair, _)| pair.memory_mhz == *memory);
            let points = of_memory.filter_map(|(pair, point)| {
                Some((f64::from(pair.graphics_mhz), of(point)?, format!("{} MHz", pair.graphics_mhz)))
            });
            PlotLine {
                index: 0,
                name: format!("{name}, memory {memory} MHz"),
                points: points.collect(),
                is_marked: true,
            }
        };
        memories.iter().map(line).filter(|line| !line.points.is_empty()).collect()
    };
    let figure = |number: &str, what: &str, down: &str, mut series: Vec<PlotLine>| {
        series.iter_mut().enumerate().for_each(|(index, line)| line.index = index);
        let caption = format!("{what} by clocks: {key} (Figure {number} of limo-2018)");
        chart(ChartText { caption: &caption, across: "graphics clock (MHz)", down }, &axis, false, &series)
    };
    let mut durations = lines(|point| Some(point.duration_s), "whole run");
    durations.extend(lines(|point| point.reported.kernel_s, "kernel"));
    let mut draws = lines(|point| Some(point.mean_w()), "mean");
    draws.extend(lines(|point| point.highest_w, "highest"));
    let shares = lines(|point| point.kernel_share().map(|share| share * 100.0), "kernel share");
    let mut html = format!("<h2>{}</h2>\n", escaped(&key.to_string()));
    html += &figure("4.2", "Duration", "duration (s)", durations);
    html += &figure("4.3", "Draw of the node", "draw (W)", draws);
    html += &if shares.is_empty() {
        missing("Figure 4.4", "the command does not report <code>kernel_s</code> on <code>LPROF_REPORT_FD</code>.")
    } else {
        figure("4.4", "Share of the kernel in the duration", "kernel share (%)", shares) + &warning(pairs)
    };
    let heat = |caption: &str, of: fn(&Point) -> f64| heat(pairs, &graphics, &memories, (caption, of));
    html += &heat("Energy of the node (J) by graphics and memory clock", |point| point.node_j);
    html += &heat("Duration (s)", |point| point.duration_s);
    html += &heat("Mean draw of the node (W)", Point::mean_w);
    html += &heat("Highest draw of the node (W)", |point| point.highest_w.unwrap_or(f64::NAN));
    html + &heat("Kernel share (%)", |point| point.kernel_share().map_or(f64::NAN, |share| share * 100.0))
}

/// Says that most of the time is not that of the kernel.
fn warning(pairs: &Pairs<'_>) -> String {
    let shares: Vec<f64> = pairs.values().filter_map(|point| point.kernel_share()).collect();
    let mean = shares.iter().sum::<f64>() / (shares.len() as f64).max(1.0);
    let (least, most) =
        shares.iter().fold((1.0_f64, 0.0_f64), |(low, high), share| (low.min(*share), high.max(*share)));
    let range = format!("The kernel share is {} to {}, in the mean {}", percent(least), percent(most), percent(mean));
    if least >= LEAST_SHARE {
        return format!("<p>{range}.</p>\n");
    }
    let limit = percent(LEAST_SHARE);
    format!(
        "<p>{range}: below {limit} the energies say little about the clocks, since the rest is the same at all.</p>\n"
    )
}

/// Returns a table with a row for each graphics clock and a column for each memory clock. Empty if no pair has a value.
fn heat(
    pairs: &Pairs<'_>,
    graphics: &BTreeSet<u32>,
    memories: &[u32],
    (caption, of): (&str, fn(&Point) -> f64),
) -> String {
    let values = || pairs.values().map(|point| of(point)).filter(|value| value.is_finite());
    let range = values().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    if values().next().is_none() {
        return String::new();
    }
    let cell = |graphics_mhz: u32, memory_mhz: u32| -> Cell {
        let point = pairs.get(&ClockPair { graphics_mhz, memory_mhz });
        let valued = point.map(|point| (point, of(point))).filter(|(_, value)| value.is_finite());
        valued.map_or_else(
            || "".into(),
            |(point, value)| Cell::shaded(format!("{}{}", number(value), mark(point)), value, range),
        )
    };
    let row = |clock: &u32| {
        let cells = memories.iter().map(|memory| cell(*clock, *memory));
        [Cell::from(format!("{clock} MHz"))].into_iter().chain(cells).collect()
    };
    let memory = |clock: &u32| format!("memory {clock} MHz");
    Table {
        caption: format!("{caption}, from {} (light) to {} (dark)", number(range.0), number(range.1)),
        head: ["graphics clock".to_owned()].into_iter().chain(memories.iter().map(memory)).collect(),
        rows: graphics.iter().map(row).collect(),
    }
    .html()
}
