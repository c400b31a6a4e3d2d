//! Plots as SVG: axes, panels and the shapes in them. Knows no page, no colours and no data; `xtask` draws with it, too.

mod axis;
mod drawing;
mod panel;

pub use axis::Axis;
pub use drawing::{Anchor, Drawing, escaped};
pub use panel::{Area, Panel, PanelStyle};
