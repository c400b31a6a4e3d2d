//! A chart: a panel, and lines with marks at their points. Colours are those of the page.

use super::{Area, Axis, Drawing, Panel, PanelStyle, escaped};

pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 340.0;
pub(super) const AREA: Area = Area { left: 76.0, right: 748.0, top: 12.0, bottom: 288.0 };
pub(super) const STYLE: PanelStyle = PanelStyle { grid: "class=\"grid\"", axis: "class=\"axis\"" };

/// Colours in the style; further lines differ by marks and dashes.
const COLOURS: usize = 7;
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];
const SHAPES: usize = 4;

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotLine {
    /// Selects colour, dash and mark.
    pub index: usize,
    /// Name, for the legend and the points.
    pub name: String,
    /// Values on both axes, and the name of the point.
    pub points: Vec<(f64, f64, String)>,
    /// True if each point has a mark that shows its value under the pointer.
    pub is_marked: bool,
}

/// Lines over two axes.
#[derive(Debug, Clone, Copy)]
pub struct Chart<'a> {
    /// Horizontal axis.
    pub across: &'a Axis,
    /// Vertical axis.
    pub down: &'a Axis,
    /// Name of the horizontal axis, with its unit.
    pub across_name: &'a str,
    /// Name of the vertical axis, with its unit.
    pub down_name: &'a str,
    /// The lines.
    pub series: &'a [PlotLine],
}

impl Chart<'_> {
    /// Returns the picture.
    pub fn svg(&self) -> String {
        let label = format!("{} against {}", escaped(self.down_name), escaped(self.across_name));
        let mut drawing = Drawing::new(WIDTH, HEIGHT, &format!("role=\"img\" aria-label=\"{label}\""));
        let panel = Panel { area: AREA, across: self.across, down: self.down };
        panel.frame(&mut drawing, STYLE);
        panel.name_across(&mut drawing, HEIGHT - 10.0, self.across_name);
        panel.name_down(&mut drawing, 16.0, self.down_name);
        for series in self.series {
            drawing.group(&line_colour(series.index), |drawing| line(drawing, &panel, series));
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
        drawing.path(&line_style(series.index), &format!("M{}", places.join("L")));
    }
    if !series.is_marked {
        return;
    }
    for point in points {
        let title = format!("{}, {}: {:.4}", series.name, point.2, point.1);
        drawing.titled_path("class=\"mark\"", &mark(series.index, panel.x(point.0), panel.y(point.1)), &title);
    }
}

/// Returns the attributes of the line with this index, as in the [`legend`]. Its group has the class `cN` of its colour.
pub fn line_style(index: usize) -> String {
    format!("class=\"line\"{}", dash(index))
}

/// Returns the class of the colour of the line with this index.
pub fn line_colour(index: usize) -> String {
    format!("class=\"c{}\"", index % COLOURS)
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

/// Returns a list of the lines as HTML: how each is drawn, and its name.
pub fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let line = |(index, name)| format!("<li>{}{}</li>\n", swatch(index), escaped(name));
    format!("<ul class=\"legend\">\n{}</ul>\n", names.enumerate().map(line).collect::<String>())
}

/// Draws a line with its mark.
fn swatch(index: usize) -> String {
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
            points: vec![(0.0, 10.0, "budget a".to_owned()), (1.0, 0.0, "b".to_owned())],
            is_marked: true,
        }];
        let svg =
            Chart { across: &across, down: &down, across_name: "budget", down_name: "kWh", series: &series }.svg();
        // A quarter and three quarters of 672 from 76 on; the top and the foot of the area.
        assert!(svg.contains("d=\"M244.0 12.0L580.0 288.0\""), "{svg}");
        assert!(svg.contains("<title>x &amp; y, budget a: 10.0000</title>") && svg.contains("&lt;a&gt;"), "{svg}");
    }
}
