//! What `lsim run` leaves behind: one folder with `jobs.csv`, `draw.csv`, `schedule.json` and `report.html`.
//!
//! Writes what [`crate::record`] hands over; simulates nothing and decides nothing.
#![allow(dead_code)] // Lead: remove when `lsim run` uses it.
