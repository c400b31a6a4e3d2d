//! The page of `lprof report`: the figures and tables of limo-2018, sections 4.2 and 4.3, from results.
//!
//! A figure without data is left out, and the page says which command gives it. Each figure has a table with its values.
//! Pure: text from points.

mod caps;
mod clocks;
mod parts;
mod point;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use limo_plot::{Cell, Table, escaped};

pub use point::{Collector, Point};

use parts::{number, percent};

/// Most rows of the table of all measurements.
const MOST_ROWS: usize = 2_000;

/// Makes the page. `left_out` is the number of results without usable figures.
pub fn page(title: &str, points: &[Point], left_out: usize) -> String {
    let mut body = intro(points, left_out);
    body += &clocks::section(points);
    body += &caps::section(points);
    body += &targets::section(points);
    body += &all(points);
    limo_plot::page(title, &body)
}

fn intro(points: &[Point], left_out: usize) -> String {
    let meters: BTreeMap<(&str, &str), usize> = points.iter().fold(BTreeMap::new(), |mut counts, point| {
        *counts.entry((point.host.as_str(), point.meter.as_str())).or_default() += 1;
        counts
    });
    let sources: Vec<String> =
        meters.iter().take(20).map(|((host, meter), count)| format!("{count} on {host} by {meter}")).collect();
    let mut text = format!(
        "<p>{} measurements: {}. Energies and draws are those of the node, idle draw included. Cells marked * cannot be \
         trusted; the last table has the reasons.</p>\n",
        points.len(),
        escaped(&sources.join(", "))
    );
    if points.iter().any(|point| point.emulated) {
        text += "<p>Some watts are emulated, and not measured.</p>\n";
    }
    if left_out > 0 {
        text += &format!("<p>{left_out} results have no usable figures and are left out.</p>\n");
    }
    text
}

/// Table of all measurements.
fn all(points: &[Point]) -> String {
    let head = [
        "measurement",
        "duration (s)",
        "±",
        "energy (J)",
        "above idle (J)",
        "±",
        "mean draw (W)",
        "highest (W)",
        "kernel share",
        "verdict",
    ];
    let row = |point: &Point| -> Vec<Cell> {
        let verdict = if point.is_good() { "good".to_owned() } else { format!("* {}", point.reasons.join("; ")) };
        let cells = [
            point.key.to_string(),
            number(point.duration_s),
            percent(point.duration_error),
            number(point.node_j),
            number(point.above_j),
            percent(point.energy_error),
            number(point.mean_w()),
            point.highest_w.map_or_else(String::new, number),
            point.kernel_share().map_or_else(String::new, percent),
            verdict,
        ];
        cells.into_iter().map(Cell::from).collect()
    };
    let table = Table {
        caption: "All measurements".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: points.iter().take(MOST_ROWS).map(row).collect(),
    };
    let more = points.len().saturating_sub(MOST_ROWS);
    let cut = if more > 0 { format!("<p>{more} further measurements are not shown.</p>\n") } else { String::new() };
    format!("<h2>All measurements</h2>\n{}{cut}", table.html())
}
