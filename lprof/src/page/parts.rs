//! Parts that all sections share: numbers in words, charts with their captions, and notes about what is missing.

use limo_plot::{Axis, Chart, PlotLine, escaped, legend};

use super::point::{Point, is_usable};

/// Most groups of measurements that a section shows.
pub const MOST_GROUPS: usize = 40;

/// Returns a number with about four digits.
pub fn number(value: f64) -> String {
    let places = match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        1.0.. => 2,
        _ => 4,
    };
    format!("{value:.places$}")
}

/// Returns a part in percent.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Returns the mark of a measurement that cannot be trusted.
pub fn mark(point: &Point) -> &'static str {
    if point.is_good() { "" } else { " *" }
}

/// Names of a chart and its axes.
#[derive(Debug, Clone, Copy)]
pub struct ChartText<'a> {
    /// Caption.
    pub caption: &'a str,
    /// Name of the horizontal axis, with its unit.
    pub across: &'a str,
    /// Name of the vertical axis, with its unit.
    pub down: &'a str,
}

/// Returns an axis for values that can be drawn.
pub fn axis(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Axis {
    Axis::of_values(values.filter(|value| is_usable(*value)), is_logarithmic)
}

/// Returns a chart with caption and legend. Its vertical axis fits all values that can be drawn; others are left out.
pub fn chart(text: ChartText<'_>, across: &Axis, is_logarithmic: bool, series: &[PlotLine]) -> String {
    let drawn = |line: &PlotLine| {
        let points = line.points.iter().filter(|(at, value, _)| is_usable(*at) && is_usable(*value));
        PlotLine { points: points.cloned().collect(), ..line.clone() }
    };
    let series: Vec<PlotLine> = series.iter().map(drawn).collect();
    let down = axis(series.iter().flat_map(|line| line.points.iter().map(|(_, value, _)| *value)), is_logarithmic);
    let scale = if down.is_logarithmic() { ", logarithmic" } else { "" };
    let chart = Chart {
        across,
        down: &down,
        across_name: text.across,
        down_name: &format!("{}{scale}", text.down),
        series: &series,
    };
    let lines = legend(series.iter().map(|line| line.name.as_str()));
    format!("<figure>\n<figcaption>{}</figcaption>\n{lines}{}</figure>\n", escaped(text.caption), chart.svg())
}

/// Says what is left out, and how to get it. `how` is HTML.
pub fn missing(what: &str, how: &str) -> String {
    format!("<p>Left out: {}, because {how}</p>\n", escaped(what))
}

/// Says how many groups are not shown.
pub fn cut(groups: usize, what: &str) -> String {
    match groups.saturating_sub(MOST_GROUPS) {
        0 => String::new(),
        more => format!("<p>{more} further {what} are not shown; report fewer results at a time.</p>\n"),
    }
}
