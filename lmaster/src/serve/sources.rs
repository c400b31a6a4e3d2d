//! The next input of the loop, from all of its sources.

use std::time::Duration;

use limo_feeds::grid::Word;
use limo_model::Time;
use limo_proto::PULSE_EVERY;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::time::Instant;

use crate::clock::Clocks;
use crate::controller::Input;
use crate::listen::Arrival;
use crate::web::Asker;

/// The receivers of all inputs.
pub(super) struct Sources {
    pub from_store: UnboundedReceiver<Input>,
    pub from_peers: Receiver<Input>,
    pub arrivals: Receiver<Arrival>,
    pub words: Receiver<(usize, Word)>,
    /// Callers who wait for figures, if metrics are served.
    pub asked: Option<Receiver<Asker>>,
    pub hang_up: Signal,
    pub terminate: Signal,
    pub interrupt: Signal,
}

/// One event of the loop.
pub(super) enum Happened {
    Input(Input),
    Turn,
    Asked(Asker),
    Arrived(Arrival),
    HangUp,
    Stop,
}

impl Sources {
    /// Returns the next input. `turn` is the time of the next slice of a query, if nothing else happens before.
    pub async fn next(&mut self, clocks: &Clocks, deadline: Option<Time>, turn: Option<Instant>) -> Happened {
        let left = |at: Time| Duration::from_millis(u64::try_from((at - clocks.now().at).ms()).unwrap_or(0));
        let timer = tokio::time::sleep(deadline.map_or(PULSE_EVERY, left).min(PULSE_EVERY));
        // The journal comes first, because other clients wait for its answers.
        tokio::select! {
            biased;
            Some(input) = self.from_store.recv() => Happened::Input(input),
            _ = self.terminate.recv() => Happened::Stop,
            _ = self.interrupt.recv() => Happened::Stop,
            _ = self.hang_up.recv() => Happened::HangUp,
            Some(arrival) = self.arrivals.recv() => Happened::Arrived(arrival),
            () = timer => Happened::Input(Input::Timer),
            Some((source, word)) = self.words.recv() => Happened::Input(Input::Word(source, word)),
            Some(input) = self.from_peers.recv() => Happened::Input(input),
            Some(asker) = asked(&mut self.asked) => Happened::Asked(asker),
            () = tokio::time::sleep_until(turn.unwrap_or_else(Instant::now)), if turn.is_some() => Happened::Turn,
        }
    }
}

/// Waits for the next caller who wants figures; without a server of metrics forever.
async fn asked(asked: &mut Option<Receiver<Asker>>) -> Option<Asker> {
    match asked {
        Some(asked) => asked.recv().await,
        None => std::future::pending().await,
    }
}
