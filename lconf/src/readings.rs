//! `lconf readings`: draw of a node or the cluster over time, as recorded by the master.

use limo_client::json::SCHEMA;
use limo_client::{Align, Clock, Failure, Master, Table, answer, answer_json, exit, marked};
use limo_model::{Drawn, Energy, Time};
use serde::Serialize;

use crate::args::Readings;

#[derive(Serialize)]
struct ReadingsJson {
    schema: u32,
    /// Name of the node; `null` means the whole cluster.
    node: Option<String>,
    /// True if any of the watts are modelled by emulated hardware.
    emulated: bool,
    energy_j: f64,
    readings: Vec<ReadingJson>,
}

#[derive(Serialize)]
struct ReadingJson {
    at_unix_ms: i64,
    mean_w: f64,
    low_w: f64,
    high_w: f64,
    energy_j: f64,
    /// Part of the interval for which the draw is known.
    seen_s: f64,
    looks: u64,
}

/// Prints the readings.
///
/// # Errors
/// If a time is invalid, the master cannot be asked, or it does not know the node.
pub async fn run(readings: Readings, json: bool, master: &Master) -> Result<u8, Failure> {
    let Readings { node, from, until, csv } = readings;
    let clock = Clock::system();
    let time = |option: &str, text: &str| {
        clock.parse_past(text).map_err(|error| Failure::new(format_args!("{option}: {error}")))
    };
    let range: (Time, Time) = (time("--from", &from)?, time("--until", &until)?);
    if range.1 <= range.0 {
        let (from, until) = (clock.show(range.0), clock.show(range.1));
        return Err(Failure::new(format_args!(
            "the time range ends at {until}, which is not after its begin at {from}"
        )));
    }
    let (emulated, intervals) = master.readings(node.clone(), range).await?;
    if json {
        let readings = intervals.iter().map(as_json).collect();
        let energy_j = total(&intervals).joules();
        answer_json(&ReadingsJson { schema: SCHEMA, node, emulated, energy_j, readings })?;
    } else if csv {
        answer(&as_csv(&intervals, emulated))?;
    } else {
        answer(&table(&intervals, emulated, &clock))?;
    }
    Ok(exit::DONE)
}

fn total(intervals: &[Drawn]) -> Energy {
    intervals.iter().map(|drawn| drawn.energy).sum()
}

fn as_json(drawn: &Drawn) -> ReadingJson {
    ReadingJson {
        at_unix_ms: drawn.at.unix_ms(),
        mean_w: drawn.mean.watts(),
        low_w: drawn.low.watts(),
        high_w: drawn.high.watts(),
        energy_j: drawn.energy.joules(),
        seen_s: drawn.seen.secs(),
        looks: drawn.looks,
    }
}

fn as_csv(intervals: &[Drawn], emulated: bool) -> String {
    let mut text = "time,mean_w,low_w,high_w,energy_j,seen_s,looks,emulated\n".to_owned();
    for drawn in intervals {
        let ReadingJson { mean_w, low_w, high_w, energy_j, seen_s, looks, .. } = as_json(drawn);
        let time = Clock::rfc3339(drawn.at);
        text += &format!("{time},{mean_w},{low_w},{high_w},{energy_j},{seen_s},{looks},{emulated}\n");
    }
    text
}

fn table(intervals: &[Drawn], emulated: bool, clock: &Clock) -> String {
    let mut table = Table::new(&[
        ("TIME", Align::Left),
        ("MEAN", Align::Figure),
        ("LOW", Align::Figure),
        ("HIGH", Align::Figure),
        ("ENERGY", Align::Figure),
        ("SEEN", Align::Right),
        ("LOOKS", Align::Right),
    ]);
    for drawn in intervals {
        table.row([
            clock.show_full(drawn.at),
            drawn.mean.to_string(),
            drawn.low.to_string(),
            drawn.high.to_string(),
            drawn.energy.to_string(),
            drawn.seen.to_string(),
            drawn.looks.to_string(),
        ]);
    }
    format!("{}\nenergy  {}\n", table.render(), marked(total(intervals), emulated))
}
