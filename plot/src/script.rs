//! Scripts and colours of pages that draw their figures in the browser: a report of `lsim`, and the page of `lmaster`.
//! The scripts may stand one after the other in one element.

/// Units, numbers, durations and axes.
pub const SCALE: &str = include_str!("scale.js");

/// Elements, legends, tables and patterns.
pub const PARTS: &str = include_str!("parts.js");

/// Colours of a light and a dark page.
pub const PALETTE: &str = include_str!("palette.css");
