//! The area of one plot with its two axes: places of values, frame, marks and names.

use super::axis::Axis;
use super::drawing::{Anchor, Drawing};

/// A rectangle, in units of the picture; `y` grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say what they are")]
pub struct Area {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// Attributes of the lines of a panel.
#[derive(Debug, Clone, Copy)]
pub struct PanelStyle {
    /// Lines through the area at the marks of the vertical axis.
    pub grid: &'static str,
    /// The two axes, and the marks of the horizontal one.
    pub axis: &'static str,
}

/// Space between an axis and its labels.
const GAP: f64 = 8.0;
/// Half the height of a digit, which centres a label.
const HALF_DIGIT: f64 = 4.0;

/// An area and its axes.
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a> {
    /// The area.
    pub area: Area,
    /// Horizontal axis.
    pub across: &'a Axis,
    /// Vertical axis.
    pub down: &'a Axis,
}

impl Panel<'_> {
    /// Returns the horizontal place of a value.
    pub fn x(&self, value: f64) -> f64 {
        self.area.left + self.across.place(value) * (self.area.right - self.area.left)
    }

    /// Returns the vertical place of a value.
    pub fn y(&self, value: f64) -> f64 {
        self.area.bottom - self.down.place(value) * (self.area.bottom - self.area.top)
    }

    /// Draws the axes with their marks and labels, and the lines of the grid.
    pub fn frame(&self, drawing: &mut Drawing, style: PanelStyle) {
        let Area { left, right, top, bottom } = self.area;
        for (at, label) in self.down.marks() {
            let y = bottom - at * (bottom - top);
            drawing.path(style.grid, &format!("M{left} {y:.1}H{right}"));
            drawing.text((left - GAP, y + HALF_DIGIT), Anchor::End, label);
        }
        for (at, label) in self.across.marks() {
            let x = left + at * (right - left);
            drawing.path(style.axis, &format!("M{x:.1} {bottom}v5"));
            drawing.text((x, bottom + 19.0), Anchor::Middle, label);
        }
        drawing.path(style.axis, &format!("M{left} {top}V{bottom}H{right}"));
    }

    /// Writes the name of the vertical axis along its left side, at `x`.
    pub fn name_down(&self, drawing: &mut Drawing, x: f64, name: &str) {
        drawing.vertical_text((x, f64::midpoint(self.area.top, self.area.bottom)), name);
    }

    /// Writes the name of the horizontal axis below it, at `y`.
    pub fn name_across(&self, drawing: &mut Drawing, y: f64, name: &str) {
        drawing.text((f64::midpoint(self.area.left, self.area.right), y), Anchor::Middle, name);
    }

    /// Converts a step function, as pieces of begin, end and value, to the data of a path.
    pub fn steps(&self, pieces: impl Iterator<Item = (f64, f64, f64)>) -> String {
        let piece = |(index, (from, to, value)): (usize, (f64, f64, f64))| {
            let command = if index == 0 { 'M' } else { 'L' };
            format!("{command}{:.2} {:.1}H{:.2}", self.x(from), self.y(value), self.x(to))
        };
        pieces.enumerate().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area = Area { left: 20.0, right: 120.0, top: 10.0, bottom: 60.0 };

    #[test]
    fn values_are_where_the_axes_say() {
        let (across, down) = (Axis::stepped(0.0, 10.0, 5.0), Axis::stepped(-5.0, 20.0, 5.0));
        let panel = Panel { area: AREA, across: &across, down: &down };
        // A tenth of 100 for each unit to the right, a 25th of 50 for each unit upwards, from -5 on.
        assert_eq!((panel.x(3.0), panel.y(0.0)), (50.0, 50.0));
        let pieces = [(0.0, 2.0, 20.0), (2.0, 10.0, -5.0)];
        assert_eq!(panel.steps(pieces.into_iter()), "M20.00 10.0H40.00L40.00 60.0H120.00");
        let mut drawing = Drawing::new(130.0, 80.0, "");
        panel.frame(&mut drawing, PanelStyle { grid: "class=\"grid\"", axis: "class=\"axis\"" });
        let svg = drawing.finish();
        for part in ["class=\"grid\" d=\"M20 50.0H120\"", "class=\"axis\" d=\"M70.0 60v5\"", ">-5<", ">10<"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
