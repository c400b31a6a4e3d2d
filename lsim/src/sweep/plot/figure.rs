//! One figure as SVG: grid, axes with their units, lines with a mark at each point. Colours are those of the page.

use std::fmt::Write as _;

use super::axis::Axis;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 52.0;

/// Number of colours in the style; further lines differ by marks and dashes.
const COLOURS: usize = 7;
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];
const SHAPES: usize = 4;

pub struct PlotLine {
    /// Number that selects colour, dash and mark.
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
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} against {}\">\n",
            escaped(self.down_name),
            escaped(self.across_name)
        );
        self.axes(&mut svg);
        for series in self.series {
            self.line(&mut svg, series);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.across.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.down.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut String) {
        let (right, foot) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        // Writing to a `String` cannot fail.
        for (at, label) in self.down.marks() {
            let y = foot - at * (foot - TOP);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, y + 4.0);
        }
        for (at, label) in self.across.marks() {
            let x = LEFT + at * (right - LEFT);
            let _ = writeln!(svg, "<path class=\"axis\" d=\"M{x:.1} {foot}v5\"/>");
            let label = escaped(label);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", foot + 19.0);
        }
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{foot}H{right}\"/>");
        let (middle, half) = ((LEFT + right) / 2.0, (TOP + foot) / 2.0);
        let across = escaped(self.across_name);
        let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{across}</text>", HEIGHT - 10.0);
        let down = escaped(self.down_name);
        let _ =
            writeln!(svg, "<text transform=\"translate(16 {half}) rotate(-90)\" text-anchor=\"middle\">{down}</text>");
    }

    fn line(&self, svg: &mut String, series: &PlotLine) {
        let mut points: Vec<&(f64, f64, String)> = series.points.iter().collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let place = |point: &&(f64, f64, String)| format!("{:.1} {:.1}", self.x(point.0), self.y(point.1));
        let places: Vec<String> = points.iter().map(place).collect();
        let (colour, dash) = (series.index % COLOURS, dash(series.index));
        let _ = writeln!(svg, "<g class=\"c{colour}\">");
        if places.len() > 1 {
            let _ = writeln!(svg, "<path class=\"line\"{dash} d=\"M{}\"/>", places.join("L"));
        }
        for point in points {
            let title = format!("{}, budget {}: {:.4}", series.name, point.2, point.1);
            let mark = mark(series.index, self.x(point.0), self.y(point.1));
            let _ = writeln!(svg, "<path class=\"mark\" d=\"{mark}\"><title>{}</title></path>", escaped(&title));
        }
        svg.push_str("</g>\n");
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

/// Escapes text for HTML and its attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
        // The places are a quarter and three quarters of 672 from 76 on, and the top and the foot of the area.
        assert!(svg.contains("d=\"M244.0 12.0L580.0 288.0\""), "{svg}");
        assert!(svg.contains("<title>x &amp; y, budget a: 10.0000</title>") && svg.contains("&lt;a&gt;"), "{svg}");
    }
}
