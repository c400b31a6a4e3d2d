//! Stacked bands over two axes. The colours of the bands are those of the page, by their classes `b0`, `b1`, ...

use std::fmt::Write as _;

use super::chart::{AREA, HEIGHT, STYLE, WIDTH};
use super::{Axis, Drawing, Panel, escaped};

/// Bands, the first one at the bottom.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    /// Horizontal axis.
    pub across: &'a Axis,
    /// Vertical axis, from zero to the greatest sum at least.
    pub down: &'a Axis,
    /// Name of the horizontal axis, with its unit.
    pub across_name: &'a str,
    /// Name of the vertical axis, with its unit.
    pub down_name: &'a str,
    /// Names of the bands, each with its values at the places.
    pub bands: &'a [(&'a str, Vec<f64>)],
    /// Places on the horizontal axis.
    pub places: &'a [f64],
}

impl Stack<'_> {
    /// Returns the picture.
    pub fn svg(&self) -> String {
        let label = format!("{} against {}", escaped(self.down_name), escaped(self.across_name));
        let mut drawing = Drawing::new(WIDTH, HEIGHT, &format!("role=\"img\" aria-label=\"{label}\""));
        let panel = Panel { area: AREA, across: self.across, down: self.down };
        let mut below = vec![0.0; self.places.len()];
        for (index, (name, values)) in self.bands.iter().enumerate() {
            let above: Vec<f64> = below.iter().zip(values).map(|(below, value)| below + value).collect();
            let point = |(place, value): (&f64, &f64)| format!("{:.1} {:.1}", panel.x(*place), panel.y(*value));
            let forth = self.places.iter().zip(&above).map(point);
            let back = self.places.iter().zip(&below).rev().map(point);
            let outline: Vec<String> = forth.chain(back).collect();
            drawing.titled_path(&format!("class=\"b{index}\""), &format!("M{}z", outline.join("L")), name);
            below = above;
        }
        panel.frame(&mut drawing, STYLE);
        panel.name_across(&mut drawing, HEIGHT - 10.0, self.across_name);
        panel.name_down(&mut drawing, 16.0, self.down_name);
        drawing.finish()
    }

    /// Returns a list of the bands as HTML: the colour of each, and its name.
    pub fn legend(&self) -> String {
        let mut html = "<ul class=\"legend\">\n".to_owned();
        for (index, (name, _)) in self.bands.iter().enumerate() {
            let swatch = "<svg width=\"26\" height=\"14\" aria-hidden=\"true\"><rect width=\"26\" height=\"14\"";
            // Writing to a `String` cannot fail.
            let _ = writeln!(html, "<li>{swatch} class=\"b{index}\"/></svg>{}</li>", escaped(name));
        }
        html + "</ul>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_lies_on_those_below_it() {
        let places = [0.0, 10.0];
        let (across, down) = (Axis::between(&places), Axis::of_values([10.0].into_iter(), false));
        let bands = [("a", vec![5.0, 10.0]), ("<b>", vec![5.0, 0.0])];
        let stack =
            Stack { across: &across, down: &down, across_name: "hour", down_name: "n", bands: &bands, places: &places };
        let (left, right) = (across.place(0.0), across.place(10.0));
        let x = |place: f64| AREA.left + place * (AREA.right - AREA.left);
        let svg = stack.svg();
        // The area is from 12 at the value 10 to 288 at 0, so 5 is at 150.
        let first = format!("M{:.1} 150.0L{1:.1} 12.0L{1:.1} 288.0L{0:.1} 288.0z", x(left), x(right));
        let second = format!("M{:.1} 12.0L{1:.1} 12.0L{1:.1} 12.0L{0:.1} 150.0z", x(left), x(right));
        assert!(svg.contains(&first) && svg.contains(&second), "{svg}");
        assert!(svg.contains("<title>&lt;b&gt;</title>") && stack.legend().contains("class=\"b1\"/></svg>&lt;b&gt;"));
    }
}
