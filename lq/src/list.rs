//! `lq`: prints the table of jobs, once or repeatedly.

use std::time::Duration;

use limo_client::json::JobsJson;
use limo_client::{AskError, Clock, Failure, Master, Screen, Session, answer_json, answer_screen, exit};
use limo_proto::JobReport;

use crate::args::ListArgs;
use crate::columns::{Usual, sort, table};

/// Default number of finished jobs with `--all`: a few screens.
const LIMIT: u32 = 100;

/// Columns for running and waiting jobs.
pub const COLUMNS: Usual = Usual {
    brief: &["jobid", "name", "user", "st", "time", "cores", "nodes(unit)", "energy", "reason"],
    long: &[
        "jobid",
        "name",
        "user",
        "queue",
        "state",
        "time",
        "timelimit",
        "submit",
        "start",
        "cores",
        "memory",
        "nodes(unit)",
        "energy",
        "cost",
        "reason",
    ],
};

/// Prints the selected jobs.
///
/// # Errors
/// If the master cannot be asked.
pub async fn run(args: &ListArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    if let Some(every) = args.watch {
        return watch(args, json, master, every.0).await;
    }
    let jobs = ask(args, &mut master.session().await?).await?;
    show(jobs, args, json, &Screen::of_stdout())?;
    Ok(exit::DONE)
}

async fn ask(args: &ListArgs, session: &mut Session) -> Result<Vec<JobReport>, AskError> {
    // A filter for final states must request finished jobs.
    let ended = args.all || args.filter.states.iter().any(|state| state.is_over());
    session.jobs(args.filter.filter(), if ended { args.limit.unwrap_or(LIMIT) } else { 0 }).await
}

fn show(mut jobs: Vec<JobReport>, args: &ListArgs, json: bool, screen: &Screen) -> Result<(), Failure> {
    let clock = Clock::system();
    sort(&mut jobs, &args.view.sort, &clock);
    if json {
        return answer_json(&JobsJson::new(&jobs, &clock));
    }
    answer_screen(&table(&jobs, &args.view, &COLUMNS, (&clock, screen)))
}

/// Refreshes until interrupted; redraws in place on a terminal, appends elsewhere. Reconnects if the master was
/// absent.
async fn watch(args: &ListArgs, json: bool, master: &Master, every: Duration) -> Result<u8, Failure> {
    let mut session = Some(master.session().await?);
    loop {
        let found = match &mut session {
            Some(open) => ask(args, open).await,
            None => match master.connect().await {
                Ok(connection) => ask(args, session.insert(connection.into())).await,
                Err(error) => Err(error),
            },
        };
        match found {
            Ok(jobs) if json => show(jobs, args, json, &Screen::PLAIN)?,
            Ok(mut jobs) => {
                let (clock, screen) = (Clock::system(), Screen::of_stdout());
                sort(&mut jobs, &args.view.sort, &clock);
                draw(&table(&jobs, &args.view, &COLUMNS, (&clock, &screen)), &clock, &screen)?;
            }
            Err(error) if error.may_pass() => {
                session = None;
                if !json {
                    let (clock, screen) = (Clock::system(), Screen::of_stdout());
                    draw(&format!("the master is unreachable: {error}\n"), &clock, &screen)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(every).await;
    }
}

fn draw(text: &str, clock: &Clock, screen: &Screen) -> Result<(), Failure> {
    let head = clock.show_full(clock.now());
    if !screen.is_terminal() {
        return answer_screen(&format!("{head}\n{text}\n"));
    }
    answer_screen(&redrawn(&head, text, screen.height.unwrap_or(usize::MAX)))
}

/// Redraws from the top of the screen without clearing it, to avoid flicker.
fn redrawn(head: &str, text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // Two lines are for the head and the cursor.
    let room = height.saturating_sub(2);
    let mut shown = format!("\x1b[H{head}\x1b[K\n");
    let more = lines.len() > room;
    for line in lines.iter().take(if more { room.saturating_sub(1) } else { room }) {
        shown += &format!("{line}\x1b[K\n");
    }
    if more {
        shown += &format!("... and {} more lines\x1b[K\n", lines.len() - room.saturating_sub(1));
    }
    shown + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_not_scrolled() {
        let check = |height, expected: &str| {
            assert_eq!(redrawn("now", "a\nb\nc\n", height).replace("\x1b[K", ""), expected, "{height}");
        };
        check(24, "\x1b[Hnow\na\nb\nc\n\x1b[J");
        check(5, "\x1b[Hnow\na\nb\nc\n\x1b[J");
        check(4, "\x1b[Hnow\na\n... and 2 more lines\n\x1b[J");
    }
}
