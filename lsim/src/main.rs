//! `lsim`: runs policies over traces, in simulated time, on the scheduling core of the master.

mod output;
mod record;

fn main() {}
