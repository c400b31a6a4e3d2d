//! Plots and tables as SVG and HTML text, and the page around them. Pages work offline and have no script. Also
//! has the scripts that pages with live figures share. Knows no data and accesses no file.
//!
//! Floating point is used only for drawing, with operations that give the same result everywhere.

#![warn(missing_docs)]

mod axis;
mod chart;
mod drawing;
mod page;
mod panel;
mod script;
mod stack;
mod table;

pub use axis::{Axis, Marks};
pub use chart::{Chart, PlotLine, legend, line_colour, line_style};
pub use drawing::{Anchor, Drawing, escaped};
pub use page::page;
pub use panel::{Area, Panel, PanelStyle};
pub use script::{PALETTE, PARTS, SCALE};
pub use stack::Stack;
pub use table::{Cell, SHADES, Table};
