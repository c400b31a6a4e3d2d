//! `lq top`: shows the cluster on the whole screen, refreshed once a second over one connection. [`draw`] has the
//! layout, [`state`] the reactions to keys.

mod draw;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use limo_client::{Clock, Failure, Master, Session, exit};
use limo_model::Time;
use limo_proto::JobFilter;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Sender, channel};

use crate::args::TopArgs;
use state::{Look, Then, Top};
use terminal::Terminal;

/// Interval between refreshes.
const EVERY: Duration = Duration::from_secs(1);

/// A slow master gets fewer requests: they take at most one part in this many of the time.
const AT_MOST: u32 = 10;

/// Most jobs that are requested, which bounds the load of the master and the network.
const ENOUGH: usize = 10_000;

/// Initial range of the past, in minutes.
const PAST_MIN: i64 = 30;

/// Runs until a key ends it.
///
/// # Errors
/// If there is no terminal, or the master cannot be reached at the beginning.
pub async fn run(args: &TopArgs, master: &Master) -> Result<u8, Failure> {
    if !Terminal::is_there() {
        let failure = Failure::new("lq top needs a terminal for its screen and its keys");
        return Err(failure.hint("lq --watch"));
    }
    let session = master.session().await?;
    let failed = |error: std::io::Error| Failure::new(format_args!("cannot use the terminal: {error}"));
    let mut ends = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (looking, mut looks) = channel(1);
    let looker = tokio::spawn(look(session, master.clone(), looking));
    let mut top = Top::new(&master.address(), args.user.clone());
    let mut terminal = Terminal::open().map_err(failed)?;
    let mut keys = terminal::keys();
    let ended = loop {
        let clock = Clock::system();
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &mut top, &clock)) {
            break Err(failed(error));
        }
        tokio::select! {
            Some(look) = looks.recv() => top.looked(look, Clock::system().now()),
            event = keys.recv() => match event {
                Some(event) => if top.key(&event) == Then::Quit { break Ok(()) },
                // The channel is closed, so no key can come.
                None => break Ok(()),
            },
            _ = ends.recv() => break Ok(()),
            _ = hang_up.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
        }
    };
    drop(terminal);
    looker.abort();
    ended.map(|()| exit::DONE)
}

/// Polls without an end; sends each result or error.
async fn look(session: Session, master: Master, looks: Sender<Look>) {
    let mut open = Some(session);
    let mut past = true;
    loop {
        let begun = tokio::time::Instant::now();
        let seen = match &mut open {
            Some(session) => round(session, past).await,
            None => match master.connect().await {
                Ok(connection) => round(open.insert(connection.into()), past).await,
                Err(error) => Err(error),
            },
        };
        match &seen {
            Ok(_) => past = false,
            Err(_) => open = None,
        }
        if looks.send(seen.map_err(|error| error.to_string())).await.is_err() {
            return;
        }
        tokio::time::sleep(EVERY.max(begun.elapsed() * AT_MOST)).await;
    }
}

async fn round(session: &mut Session, past: bool) -> Result<state::Seen, limo_client::AskError> {
    let status = session.status().await?;
    let nodes = session.nodes().await?;
    let (jobs, more) = session.jobs_up_to(JobFilter::default(), 0, ENOUGH).await?;
    let past = if past {
        let from = status.now - limo_model::Span::from_secs(PAST_MIN * 60);
        session.readings((from, Time::MAX)).await?
    } else {
        Vec::new()
    };
    Ok(state::Seen { status, nodes, jobs, more, past })
}
