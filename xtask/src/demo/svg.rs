//! The picture of the demo: the draw of each run over the band, and the price below.

use limo_model::{Band, Curve, Power, Price, Time};
use limo_plot::{Anchor, Area, Axis, Drawing, Panel, PanelStyle};

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
const GRID: &str = "stroke=\"#ddd\"";
const AXIS: &str = "stroke=\"#888\" fill=\"none\"";

const WIDTH: f64 = 980.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 958.0;
const DRAW: Area = Area { left: LEFT, right: RIGHT, top: 80.0, bottom: 400.0 };
const COST: Area = Area { top: 448.0, bottom: 590.0, ..DRAW };

/// A run in the picture.
pub struct Line<'a> {
    pub run: &'a str,
    pub label: String,
    pub draw: &'a Curve<Power>,
}

/// Draws the picture of the hour.
pub fn draw(lines: &[Line<'_>], limits: &Curve<Band>, prices: &Curve<Price>, price_source: &str) -> String {
    let attributes = format!(
        "xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#222\""
    );
    let mut drawing = Drawing::new(WIDTH, HEIGHT, &attributes);
    drawing.rect("fill=\"white\"", Area { left: 0.0, right: WIDTH, top: 0.0, bottom: HEIGHT });
    let title = "Draw of the emulated cluster of limo-2018, section 4.4, over its hour";
    drawing.group("font-size=\"17\"", |drawing| drawing.text((LEFT, 24.0), Anchor::Start, title));
    legend(&mut drawing, lines);
    let hour = Axis::stepped(0.0, minutes(END), 10.0);
    upper(&mut drawing, &hour, lines, limits);
    lower(&mut drawing, &hour, prices, price_source);
    drawing.finish()
}

fn minutes(at: Time) -> f64 {
    (at - BEGIN).secs() / 60.0
}

/// Draws the legend in two lines.
fn legend(drawing: &mut Drawing, lines: &[Line<'_>]) {
    let place = |index: usize| (LEFT + 300.0 * (index / 2) as f64, 44.0 + 18.0 * (index % 2) as f64);
    for (index, line) in lines.iter().enumerate() {
        let (x, y) = place(index);
        drawing.path(&format!("fill=\"none\" {}", style(line.run)), &format!("M{x} {y}h34"));
        drawing.text((x + 42.0, y + 4.0), Anchor::Start, &line.label);
    }
    let (x, y) = place(lines.len());
    drawing.rect(BAND, Area { left: x, right: x + 34.0, top: y - 6.0, bottom: y + 6.0 });
    drawing.text((x + 42.0, y + 4.0), Anchor::Start, "power band");
}

/// Draws axes, a line at each section, and a line at zero.
fn frame(drawing: &mut Drawing, panel: &Panel<'_>, name: &str) {
    let Area { left, right, top, bottom } = panel.area;
    panel.frame(drawing, PanelStyle { grid: GRID, axis: AXIS });
    for (at, _) in panel.across.marks() {
        drawing.path(GRID, &format!("M{:.1} {top}V{bottom}", left + at * (right - left)));
    }
    drawing.path(AXIS, &format!("M{left} {:.1}H{right}", panel.y(0.0)));
    panel.name_down(drawing, 20.0, name);
}

fn upper(drawing: &mut Drawing, hour: &Axis, lines: &[Line<'_>], limits: &Curve<Band>) {
    let band = || limits.pieces(BEGIN, END);
    let drawn = lines.iter().flat_map(|line| line.draw.pieces(BEGIN, END)).map(|(_, _, draw)| draw.watts());
    let watts = Axis::spanning(drawn.chain(band().map(|(_, _, band)| band.high().watts())), 20.0);
    let panel = Panel { area: DRAW, across: hour, down: &watts };
    for (from, to, band) in band() {
        let (left, right) = (panel.x(minutes(from)), panel.x(minutes(to)));
        let (top, bottom) = (panel.y(band.high().watts()), panel.y(band.low().watts()));
        drawing.rect(BAND, Area { left, right, top, bottom });
    }
    frame(drawing, &panel, "draw (W, emulated)");
    for line in lines {
        let pieces = line.draw.pieces(BEGIN, END).map(|(from, to, draw)| (minutes(from), minutes(to), draw.watts()));
        drawing.path(&format!("fill=\"none\" {}", style(line.run)), &panel.steps(pieces));
    }
}

fn lower(drawing: &mut Drawing, hour: &Axis, prices: &Curve<Price>, source: &str) {
    let pieces = || prices.pieces(BEGIN, END).map(|(from, to, price)| (minutes(from), minutes(to), price.per_mwh()));
    let euros = Axis::spanning(pieces().map(|(_, _, price)| price), 25.0);
    let panel = Panel { area: COST, across: hour, down: &euros };
    drawing.text((LEFT, COST.top - 8.0), Anchor::Start, &format!("price: {source}, pressed into the hour"));
    frame(drawing, &panel, "EUR/MWh");
    drawing.path(&format!("fill=\"none\" {PRICE}"), &panel.steps(pieces()));
    panel.name_across(drawing, HEIGHT - 12.0, "time (min of the hour)");
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
        assert!(svg.contains("d=\"M74.00 320.0H516.00L516.00 200.0H958.00\""), "{svg}");
        // The panel has -25 to 50 EUR/MWh over 142 pixels above y = 590.
        assert!(svg.contains("d=\"M74.00 448.0H516.00L516.00 580.5H958.00\""), "{svg}");
        // The band is from 39 to 60 W in the first ten minutes.
        assert!(svg.contains("x=\"74.00\" y=\"280.0\" width=\"147.33\" height=\"42.0\""), "{svg}");
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
        for place in ["M74 44h", "M74 62h", "M374 44h", "M374 62h", "M674 44h", "x=\"674.00\" y=\"56.0\""] {
            assert_eq!(svg.matches(place).count(), 1, "{place}");
        }
        let styles = ["slurm", "fifo", "limo-prototype", "limo", "limo, unwarned"].map(style);
        for style in styles {
            assert_eq!(svg.matches(style).count(), 2, "{style}");
        }
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
