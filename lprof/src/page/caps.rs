//! Figure 4.5 and Table 4.4: the draw over time at each cap, and duration, draw and energy by cap.

use std::collections::BTreeMap;

use limo_model::ProfileKey;
use limo_plot::{Area, Axis, Cell, Drawing, Panel, PanelStyle, PlotLine, Table, escaped, legend};

use super::parts::{ChartText, MOST_GROUPS, chart, cut, mark, missing, number, percent};
use super::point::Point;
use crate::machine::Setting;

/// Most caps of a figure of the draw over time.
const MOST_TRACES: usize = 12;

/// Returns the figures of each application that was measured with caps.
pub fn section(points: &[Point]) -> String {
    let mut groups: BTreeMap<ProfileKey, Vec<&Point>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.key.clocks.is_none()) {
        groups.entry(point.subject()).or_default().push(point);
    }
    groups.retain(|_, points| points.iter().any(|point| point.key.profile.cap.is_some()));
    let html = "<h2>Caps</h2>\n".to_owned();
    if groups.is_empty() {
        let how =
            "no result has a cap; <code>lprof sweep --unit cpu=rapl --grid 8W,12W,16W -- COMMAND</code> measures them.";
        return html + &missing("Figure 4.5 and Table 4.4 of limo-2018", how);
    }
    // Those with samples first: the others have no figure of the draw.
    let (traced, others): (Vec<_>, Vec<_>) =
        groups.iter().partition(|(_, points)| points.iter().any(|point| !point.trace.is_empty()));
    let shown: String =
        traced.iter().chain(&others).take(MOST_GROUPS).map(|(key, points)| group(key, points)).collect();
    let none = if traced.is_empty() { missing("Figure 4.5", "the results have no samples.") } else { String::new() };
    html + &none + &shown + &cut(groups.len(), "applications with caps")
}

fn group(key: &ProfileKey, points: &[&Point]) -> String {
    // No cap is the last one.
    let mut points = points.to_vec();
    points.sort_by_key(|point| (point.key.profile.cap.is_none(), point.key.profile.cap));
    let mut html = format!("<h2>{}</h2>\n", escaped(&key.to_string()));
    html += &traces(key, &points);
    html += &energies(key, &points);
    html + &table(key, &points)
}

/// Returns the name of a cap.
pub fn cap(setting: Setting) -> String {
    if setting == Setting::Original { "no cap".to_owned() } else { setting.to_string() }
}

/// Figure 4.5: the draw over time of a run at each cap.
fn traces(key: &ProfileKey, points: &[&Point]) -> String {
    let traced: Vec<&&Point> = points.iter().filter(|point| !point.trace.is_empty()).take(MOST_TRACES).collect();
    if traced.is_empty() {
        return String::new();
    }
    let pieces = || traced.iter().flat_map(|point| point.trace.iter());
    let across = Axis::of_values(pieces().map(|(_, until, _)| *until), false);
    let down = Axis::of_values(pieces().map(|(_, _, draw_w)| *draw_w), false);
    let caption = format!("Draw of the node over a run at each cap: {key} (Figure 4.5 of limo-2018)");
    let attributes = format!("role=\"img\" aria-label=\"{}\"", escaped(&caption));
    let mut drawing = Drawing::new(760.0, 340.0, &attributes);
    let area = Area { left: 76.0, right: 748.0, top: 12.0, bottom: 288.0 };
    let panel = Panel { area, across: &across, down: &down };
    panel.frame(&mut drawing, PanelStyle { grid: "class=\"grid\"", axis: "class=\"axis\"" });
    panel.name_across(&mut drawing, 330.0, "time since the begin of the run (s)");
    panel.name_down(&mut drawing, 16.0, "draw of the node (W)");
    for (index, point) in traced.iter().enumerate() {
        let path = panel.steps(point.trace.iter().copied());
        let title = format!("{}: highest {} W", cap(point.setting()), point.highest_w.map_or_else(String::new, number));
        drawing.group(&limo_plot::line_colour(index), |drawing| {
            drawing.titled_path(&limo_plot::line_style(index), &path, &title);
        });
    }
    let names: Vec<String> = traced.iter().map(|point| cap(point.setting())).collect();
    let lines = legend(names.iter().map(String::as_str));
    format!("<figure>\n<figcaption>{}</figcaption>\n{lines}{}</figure>\n", escaped(&caption), drawing.finish())
}

/// Energy by cap.
fn energies(key: &ProfileKey, points: &[&Point]) -> String {
    let names: Vec<String> = points.iter().map(|point| cap(point.setting())).collect();
    let line = |index: usize, name: &str, of: fn(&Point) -> f64| PlotLine {
        index,
        name: name.to_owned(),
        points: points
            .iter()
            .zip(&names)
            .enumerate()
            .map(|(at, (point, name))| (at as f64, of(point), name.clone()))
            .collect(),
        is_marked: true,
    };
    let series = [line(0, "node", |point| point.node_j), line(1, "above idle", |point| point.above_j)];
    let caption = format!("Energy by cap: {key} (Table 4.4 of limo-2018)");
    let text = ChartText { caption: &caption, across: "cap", down: "energy of a run (J)" };
    chart(text, &Axis::of_labels(names.clone()), false, &series)
}

/// Table 4.4, with the saving and the slowdown against no cap.
fn table(key: &ProfileKey, points: &[&Point]) -> String {
    let uncapped = points.iter().find(|point| point.key.profile.cap.is_none());
    let change = |value: f64, of: fn(&Point) -> f64| {
        let without = uncapped.map(|uncapped| of(uncapped)).filter(|without| *without > 0.0);
        without.map_or_else(String::new, |without| percent(value / without - 1.0))
    };
    let row = |point: &&Point| -> Vec<Cell> {
        let cells = [
            format!("{}{}", cap(point.setting()), mark(point)),
            number(point.duration_s),
            number(point.mean_w()),
            point.highest_w.map_or_else(String::new, number),
            number(point.node_j),
            number(point.above_j),
            change(point.node_j, |point| point.node_j),
            change(point.duration_s, |point| point.duration_s),
        ];
        cells.into_iter().map(Cell::from).collect()
    };
    let head = [
        "cap",
        "duration (s)",
        "mean draw (W)",
        "highest draw (W)",
        "energy (J)",
        "above idle (J)",
        "energy against no cap",
        "duration against no cap",
    ];
    let table = Table {
        caption: format!("Results by cap: {key} (Table 4.4 of limo-2018)"),
        head: head.map(str::to_owned).to_vec(),
        rows: points.iter().map(row).collect(),
    };
    let best = points.iter().filter(|point| point.is_good() || point.key.profile.cap.is_none());
    let best = best.min_by(|one, other| one.node_j.total_cmp(&other.node_j));
    let least = best.map_or_else(String::new, |best| {
        let saved = uncapped.map_or_else(String::new, |uncapped| {
            format!(", {} less than without a cap", percent(1.0 - best.node_j / uncapped.node_j))
        });
        format!("<p>Least energy: {} J at {}{saved}.</p>\n", number(best.node_j), cap(best.setting()))
    });
    table.html() + &least
}
