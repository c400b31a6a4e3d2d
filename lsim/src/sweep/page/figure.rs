//! One figure of the page: a panel, and lines with a mark at each point. Colours are those of the page.

use crate::plot::{Area, Axis, Drawing, Panel, PanelStyle, escaped};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const AREA: Area = Area { left: 76.0, right: 748.0, top: 12.0, bottom: 288.0 };
const STYLE: PanelStyle = PanelStyle { grid: "class=\"grid\"", axis: "class=\"axis\"" };

/// Colours in the style; further lines differ by marks and dashes.
const COLOURS: usize = 7;
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];
const SHAPES: usize = 4;

pub struct PlotLine {
    /// Selects colour, dash and mark.
    pub index: usize,
    pub name: String,
    /// Values on both axes, and the budget's label.
    pub points: Vec<(f64, f64, String)>,
}

pub struct Figure<'a> {
    pub across: &'a Axis,
    pub down: &'a Axis,
    pub across_name: &'a str,
    pub down_name: &'a str,
    pub series: &'a [PlotLine],
}

impl Figure<'_> {
    pub fn svg(&self) -> String {
        let label = format!("{} against {}", escaped(self.down_name), escaped(self.across_name));
        let mut drawing = Drawing::new(WIDTH, HEIGHT, &format!("role=\"img\" aria-label=\"{label}\""));
        let panel = Panel { area: AREA, across: self.across, down: self.down };
        panel.frame(&mut drawing, STYLE);
        panel.name_across(&mut drawing, HEIGHT - 10.0, self.across_name);
        panel.name_down(&mut drawing, 16.0, self.down_name);
        for series in self.series {
            let colour = format!("class=\"c{}\"", series.index % COLOURS);
            drawing.group(&colour, |drawing| line(drawing, &panel, series));
        }
        drawing.finish()
    }
}

fn line(drawing: &mut Drawing, panel: &Panel<'_>, series: &PlotLine) {
    let mut points: Vec<&(f64, f64, String)> = series.points.iter().collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let place = |point: &&(f64, f64, String)| format!("{:.1} {:.1}", panel.x(point.0), panel.y(point.1));
    let places: Vec<String> = points.iter().map(place).collect();
    if places.len() > 1 {
        drawing.path(&format!("class=\"line\"{}", dash(series.index)), &format!("M{}", places.join("L")));
    }
    for point in points {
        let title = format!("{}, budget {}: {:.4}", series.name, point.2, point.1);
        drawing.titled_path("class=\"mark\"", &mark(series.index, panel.x(point.0), panel.y(point.1)), &title);
    }
}

fn dash(index: usize) -> String {
    match DASHES[index % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}

/// Draws a circle, a square, a triangle or a diamond around a point.
fn mark(index: usize, x: f64, y: f64) -> String {
    match index % SHAPES {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.5 8h-9z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0),
    }
}

/// Draws a line with its mark, for the legend.
pub fn swatch(index: usize) -> String {
    let (colour, dash, mark) = (index % COLOURS, dash(index), mark(index, 17.0, 7.0));
    format!(
        "<svg class=\"c{colour}\" width=\"34\" height=\"14\" aria-hidden=\"true\"><path class=\"line\"{dash} d=\"M0 7H34\"/><path class=\"mark\" d=\"{mark}\"/></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_in_place() {
        let across = Axis::of_labels(vec!["<a>".to_owned(), "b".to_owned()]);
        let down = Axis::of_values([10.0].into_iter(), false);
        let series = [PlotLine {
            index: 1,
            name: "x & y".to_owned(),
            points: vec![(0.0, 10.0, "a".to_owned()), (1.0, 0.0, "b".to_owned())],
        }];
        let svg =
            Figure { across: &across, down: &down, across_name: "budget", down_name: "kWh", series: &series }.svg();
        // A quarter and three quarters of 672 from 76 on; the top and the foot of the area.
        assert!(svg.contains("d=\"M244.0 12.0L580.0 288.0\""), "{svg}");
        assert!(svg.contains("<title>x &amp; y, budget a: 10.0000</title>") && svg.contains("&lt;a&gt;"), "{svg}");
    }
}
