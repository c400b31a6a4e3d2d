//! The picture of the demo: the draw of each run over the band, and the price below. Written as text, without a drawing
//! library.

use std::fmt::Write;

use limo_model::{Band, Curve, Power, Price, Time};

use super::workload::{BEGIN, END};

/// Returns the style of a run. Colours also differ in grey and for most colour-blind people, and the lines also differ
/// in their dashes.
fn style(run: &str) -> &'static str {
    match run {
        "slurm" => "stroke=\"#000\" stroke-width=\"1.1\" stroke-dasharray=\"2 3\"",
        "fifo" => "stroke=\"#d55e00\" stroke-width=\"1.3\" stroke-dasharray=\"5 2\"",
        "limo-prototype" => "stroke=\"#7a7a7a\" stroke-width=\"1.3\" stroke-dasharray=\"9 3 2 3\"",
        "limo" => "stroke=\"#0b4f8a\" stroke-width=\"1.8\"",
        _ => "stroke=\"#cc79a7\" stroke-width=\"1.1\" stroke-dasharray=\"1.5 1.5\"",
    }
}

const BAND: &str = "fill=\"#9ecf9e\" fill-opacity=\"0.55\"";
const PRICE: &str = "stroke=\"#444\" stroke-width=\"1.3\"";

const WIDTH: f64 = 980.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 958.0;

/// A run in the picture.
pub struct Line<'a> {
    pub run: &'a str,
    pub label: String,
    pub draw: &'a Curve<Power>,
}

/// A panel: its place, and its range of values.
struct Panel {
    top: f64,
    bottom: f64,
    low: f64,
    high: f64,
}

impl Panel {
    /// Makes a panel for the range of `values`, widened to whole `step`s.
    fn spanning(top: f64, bottom: f64, step: f64, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        Self { top, bottom, low: (low / step).floor() * step, high: ((high / step).ceil() * step).max(step) }
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)
    }

    /// Draws horizontal lines at whole `step`s with their values, and a title.
    fn grid(&self, svg: &mut String, step: f64, title: &str) {
        let steps = ((self.high - self.low) / step).round() as usize;
        for index in 0..=steps {
            let value = self.low + step * index as f64;
            let y = self.y(value);
            let colour = if value == 0.0 { "#888" } else { "#ddd" };
            *svg += &format!("<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>\n");
            *svg += &text(LEFT - 8.0, y + 4.0, "end", &format!("{value:.0}"));
        }
        let middle = f64::midpoint(self.top, self.bottom);
        *svg += &format!(
            "<text transform=\"translate(20 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{title}</text>\n"
        );
    }

    /// Converts a step function to the data of a path.
    fn steps(&self, pieces: impl Iterator<Item = (Time, Time, f64)>) -> String {
        let mut path = String::new();
        for (from, to, value) in pieces {
            let (start, y, end) = (x(from), self.y(value), x(to));
            let command = if path.is_empty() { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(path, "{command}{start:.2} {y:.1}H{end:.2}");
        }
        path
    }
}

fn x(at: Time) -> f64 {
    LEFT + (at - BEGIN).secs() / (END - BEGIN).secs() * (RIGHT - LEFT)
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws the picture of the hour.
pub fn draw(lines: &[Line<'_>], limits: &Curve<Band>, prices: &Curve<Price>, price_source: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    svg += &format!(
        "<text x=\"{LEFT}\" y=\"24\" font-size=\"17\">{}</text>\n",
        "Draw of the emulated cluster of limo-2018, section 4.4, over its hour"
    );
    svg += &legend(lines);
    upper(&mut svg, lines, limits);
    lower(&mut svg, prices, price_source);
    svg + "</svg>\n"
}

/// Draws the legend in two lines.
fn legend(lines: &[Line<'_>]) -> String {
    let place = |index: usize| (LEFT + 300.0 * (index / 2) as f64, 44.0 + 18.0 * (index % 2) as f64);
    let mut svg = String::new();
    for (index, line) in lines.iter().enumerate() {
        let ((x, y), style) = (place(index), style(line.run));
        svg += &format!("<path d=\"M{x} {y}h34\" fill=\"none\" {style}/>\n");
        svg += &text(x + 42.0, y + 4.0, "start", &line.label);
    }
    let (x, y) = place(lines.len());
    svg += &format!("<rect x=\"{x}\" y=\"{}\" width=\"34\" height=\"12\" {BAND}/>\n", y - 6.0);
    svg + &text(x + 42.0, y + 4.0, "start", "power band")
}

fn upper(svg: &mut String, lines: &[Line<'_>], limits: &Curve<Band>) {
    let band = || limits.pieces(BEGIN, END);
    let drawn = lines.iter().flat_map(|line| line.draw.pieces(BEGIN, END)).map(|(_, _, draw)| draw.watts());
    let panel = Panel::spanning(80.0, 400.0, 20.0, drawn.chain(band().map(|(_, _, band)| band.high().watts())));
    for (from, to, band) in band() {
        let (top, bottom) = (panel.y(band.high().watts()), panel.y(band.low().watts()));
        let (left, width, height) = (x(from), x(to) - x(from), bottom - top);
        *svg += &format!("<rect x=\"{left:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" {BAND}/>\n");
    }
    panel.grid(svg, 20.0, "draw (W, emulated)");
    minutes(svg, &panel);
    for line in lines {
        let style = style(line.run);
        let path = panel.steps(line.draw.pieces(BEGIN, END).map(|(from, to, draw)| (from, to, draw.watts())));
        *svg += &format!("<path d=\"{path}\" fill=\"none\" {style}/>\n");
    }
}

fn lower(svg: &mut String, prices: &Curve<Price>, source: &str) {
    let pieces = || prices.pieces(BEGIN, END).map(|(from, to, price)| (from, to, price.eur_per_mwh()));
    let panel = Panel::spanning(448.0, 590.0, 25.0, pieces().map(|(_, _, price)| price));
    *svg += &text(LEFT, panel.top - 8.0, "start", &format!("price: {source}, pressed into the hour"));
    panel.grid(svg, 25.0, "EUR/MWh");
    minutes(svg, &panel);
    *svg += &format!("<path d=\"{}\" fill=\"none\" {PRICE}/>\n", panel.steps(pieces()));
    *svg += &text(f64::midpoint(LEFT, RIGHT), HEIGHT - 12.0, "middle", "time (min of the hour)");
}

/// Draws vertical lines at the sections, with their minutes.
fn minutes(svg: &mut String, panel: &Panel) {
    for minute in (0..=60).step_by(10) {
        let x = LEFT + f64::from(minute) / 60.0 * (RIGHT - LEFT);
        let (top, bottom) = (panel.top, panel.bottom);
        *svg += &format!("<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\n");
        *svg += &text(x, bottom + 18.0, "middle", &minute.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Span;

    fn picture() -> String {
        let minute = |minute: i64| BEGIN + Span::from_secs(60 * minute);
        let watts = Power::from_watts;
        let fifo = Curve::new(vec![(minute(0), watts(40)), (minute(30), watts(100))], None).expect("a curve");
        let limo = Curve::constant(watts(60));
        let limits = super::super::workload::Day::of_2018().limits().expect("limits");
        let steps = vec![(minute(0), "50 EUR/MWh"), (minute(30), "-20 EUR/MWh")];
        let steps = steps.into_iter().map(|(at, text)| (at, text.parse().expect("a price"))).collect();
        let prices = Curve::new(steps, None).expect("a curve");
        let line = |run, label: &str, draw| Line { run, label: label.into(), draw };
        let lines = [
            line("slurm", "slurm", &limo),
            line("fifo", "fifo", &fifo),
            line("limo-prototype", "prototype", &limo),
            line("limo", "limo <6>", &limo),
            line("limo, unwarned", "unwarned", &limo),
        ];
        draw(&lines, &limits, &prices, "an example")
    }

    #[test]
    fn values_are_where_the_axes_say() {
        let svg = picture();
        // The panel has 0 to 160 W over 320 pixels above y = 400, and 60 minutes over 884 pixels right of x = 74.
        assert!(svg.contains("<path d=\"M74.00 320.0H516.00L516.00 200.0H958.00\""), "{svg}");
        // The panel has -25 to 50 EUR/MWh over 142 pixels above y = 590.
        assert!(svg.contains("<path d=\"M74.00 448.0H516.00L516.00 580.5H958.00\""), "{svg}");
        // The band is from 39 to 60 W in the first ten minutes.
        assert!(svg.contains("<rect x=\"74.00\" y=\"280.0\" width=\"147.33\" height=\"42.0\""), "{svg}");
    }

    #[test]
    fn the_picture_names_its_contents() {
        let svg = picture();
        let texts =
            ["emulated", "draw (W, emulated)", "EUR/MWh", "time (min of the hour)", "power band", "limo &lt;6&gt;"];
        for text in texts {
            assert!(svg.contains(text), "{text}");
        }
        // Each run and the band have their own place in the legend, and each of five runs has its own line style.
        for place in ["M74 44", "M74 62", "M374 44", "M374 62", "M674 44", "x=\"674\" y=\"56\""] {
            assert_eq!(svg.matches(place).count(), 1, "{place}");
        }
        let styles = ["slurm", "fifo", "limo-prototype", "limo", "limo, unwarned"].map(style);
        for style in styles {
            assert_eq!(svg.matches(style).count(), 2, "{style}");
        }
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
