//! `lconf history` and `lconf undo`: shows and undoes operators' changes.

use limo_client::json::{HistoryJson, ItemJson, SCHEMA};
use limo_client::{Align, Clock, Failure, Master, Table, answer, answer_json, exit, plain};
use limo_proto::{ChangeReport, ChangesQuery, ItemReport, UndoReport};
use serde::Serialize;

/// Number of changes shown by default: they fit a screen.
const SHOWN: u32 = 30;

#[derive(Debug, clap::Args)]
pub struct History {
    /// Show only changes at this time or later, e.g. 18:00, 2026-10-26 or now-2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show only changes of this user; `grid`, `price feed` and `configuration` stand for changes without a user
    #[arg(long, value_name = "USER")]
    by: Option<String>,
    /// Show only the newest N [default: 30; with --since, all]
    #[arg(short = 'n', long = "number", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub struct Undo {
    /// Number of the change in `lconf history` [default: the newest that can be undone]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    /// Also undo values that were changed again since
    #[arg(long)]
    force: bool,
    /// Only show the result; change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct UndoJson {
    schema: u32,
    undone: u64,
    dry_run: bool,
    items: Vec<ItemJson>,
}

/// Shows the changes.
///
/// # Errors
/// If a time is invalid, or the master cannot be asked.
pub async fn run(History { since, by, count }: History, json: bool, master: &Master) -> Result<u8, Failure> {
    let clock = Clock::system();
    let since = since.map(|text| clock.parse_past(&text)).transpose();
    let since = since.map_err(|error| Failure::new(format_args!("--since: {error}")))?;
    let mut left = count.unwrap_or(if since.is_some() { u32::MAX } else { SHOWN });
    let mut changes: Vec<ChangeReport> = Vec::new();
    loop {
        let before = changes.last().map(|change| change.number);
        let page = master.ask(ChangesQuery { since, by: by.clone(), before, limit: left }).await?;
        left = left.saturating_sub(u32::try_from(page.changes.len()).unwrap_or(u32::MAX));
        let goes_on = page.more && left > 0 && !page.changes.is_empty();
        changes.extend(page.changes);
        if !goes_on {
            break;
        }
    }
    changes.reverse();
    if json {
        answer_json(&HistoryJson::new(changes))?;
    } else {
        answer(&table(&changes, &clock))?;
    }
    Ok(exit::DONE)
}

/// Undoes a change.
///
/// # Errors
/// If the master cannot be asked, or the change cannot be undone.
pub async fn undo(Undo { number, force, dry_run }: Undo, json: bool, master: &Master) -> Result<u8, Failure> {
    let UndoReport { change, items } = master.undo(limo_proto::Undo { number, force, dry_run }).await?;
    if json {
        let items = items.into_iter().map(ItemJson::from).collect();
        answer_json(&UndoJson { schema: SCHEMA, undone: change.number, dry_run, items })?;
        return Ok(exit::DONE);
    }
    let what = if dry_run { "would undo" } else { "undid" };
    let when = Clock::system().show(change.at);
    let mut text = format!("{what} change {} by {}, {when}\n", change.number, plain(&change.by));
    for item in &items {
        text += &format!("{}\n", plain(&in_words(item)));
    }
    answer(&text)?;
    Ok(exit::DONE)
}

/// Formats an item, for example `limits: none -> at most 60.0 W`.
fn in_words(item: &ItemReport) -> String {
    match item.old.as_str() {
        "" => format!("{}: {}", item.subject, item.new),
        old => format!("{}: {old} -> {}", item.subject, item.new),
    }
}

/// Makes a row for each item. Columns of the change have values only in the row of its first item.
fn table(changes: &[ChangeReport], clock: &Clock) -> String {
    let mut table =
        Table::new(&[("NUMBER", Align::Right), ("TIME", Align::Left), ("BY", Align::Left), ("CHANGE", Align::Left)]);
    for change in changes {
        let mut own = [change.number.to_string(), clock.show_full(change.at), change.by.clone()];
        let undo = change.undo_of.map(|of| format!("undo of {of}: ")).unwrap_or_default();
        let more = (change.more > 0).then(|| format!("and {} more", change.more));
        for line in change.items.iter().map(in_words).chain(more) {
            let first = !own.iter().all(String::is_empty);
            let line = if first { format!("{undo}{line}") } else { line };
            table.row(own.iter_mut().map(std::mem::take).chain([line]));
        }
    }
    table.render()
}
