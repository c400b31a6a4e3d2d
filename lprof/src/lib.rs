//! `lprof`, the profile generator of limo-2018, sections 3.2 and 4: runs applications, measures their time and energy,
//! and finds the cap at which they need the least.

#![warn(missing_docs)]

pub mod apps;
pub mod commands;
pub mod explore;
pub mod interrupt;
pub mod machine;
pub mod measure;
pub mod page;
pub mod progress;
mod quantity;
pub mod report;
pub mod results;
pub mod session;
pub mod workload;
