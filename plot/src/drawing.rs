//! Shapes as SVG text. Attributes of shapes, such as classes and colours, are constants of the caller and not escaped.

use std::fmt::Write as _;

use super::panel::Area;

/// Side of a text that is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its begin.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A picture in the making. Writing to its text cannot fail.
#[derive(Debug)]
pub struct Drawing {
    svg: String,
}

impl Drawing {
    /// Begins a picture of this size.
    pub fn new(width: f64, height: f64, attributes: &str) -> Self {
        Self { svg: format!("<svg viewBox=\"0 0 {width} {height}\" {attributes}>\n") }
    }

    /// Draws the path `data`.
    pub fn path(&mut self, attributes: &str, data: &str) {
        let _ = writeln!(self.svg, "<path {attributes} d=\"{data}\"/>");
    }

    /// Draws the path `data`, which shows `title` under the pointer.
    pub fn titled_path(&mut self, attributes: &str, data: &str, title: &str) {
        let title = escaped(title);
        let _ = writeln!(self.svg, "<path {attributes} d=\"{data}\"><title>{title}</title></path>");
    }

    /// Fills a rectangle.
    pub fn rect(&mut self, attributes: &str, area: Area) {
        let Area { left, right, top, bottom } = area;
        let (width, height) = (right - left, bottom - top);
        let _ = writeln!(
            self.svg,
            "<rect {attributes} x=\"{left:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{height:.1}\"/>"
        );
    }

    /// Writes a text whose base line begins, is centred or ends at `x`.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        let _ = writeln!(self.svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }

    /// Writes a text from the bottom to the top, centred at the place.
    pub fn vertical_text(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        let place = format!("translate({x:.1} {y:.1}) rotate(-90)");
        let _ = writeln!(self.svg, "<text transform=\"{place}\" text-anchor=\"middle\">{text}</text>");
    }

    /// Draws shapes that share attributes.
    pub fn group(&mut self, attributes: &str, draw: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.svg, "<g {attributes}>");
        draw(self);
        self.svg.push_str("</g>\n");
    }

    /// Ends the picture and returns it.
    pub fn finish(self) -> String {
        self.svg + "</svg>\n"
    }
}

/// Escapes text for HTML, SVG and their attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_escaped_texts() {
        let mut drawing = Drawing::new(10.0, 20.0, "role=\"img\"");
        drawing.rect("fill=\"red\"", Area { left: 1.0, right: 3.5, top: 2.0, bottom: 4.0 });
        drawing.group("class=\"c\"", |drawing| drawing.titled_path("class=\"m\"", "M0 0", "a < \"b\""));
        drawing.text((5.0, 6.25), Anchor::End, "x & y");
        drawing.vertical_text((1.0, 2.0), "W");
        let expected = "<svg viewBox=\"0 0 10 20\" role=\"img\">\n\
            <rect fill=\"red\" x=\"1.00\" y=\"2.0\" width=\"2.50\" height=\"2.0\"/>\n\
            <g class=\"c\">\n<path class=\"m\" d=\"M0 0\"><title>a &lt; &quot;b&quot;</title></path>\n</g>\n\
            <text x=\"5.0\" y=\"6.2\" text-anchor=\"end\">x &amp; y</text>\n\
            <text transform=\"translate(1.0 2.0) rotate(-90)\" text-anchor=\"middle\">W</text>\n</svg>\n";
        assert_eq!(drawing.finish(), expected);
    }
}
