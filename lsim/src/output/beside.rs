//! Hands the records of a simulation to a sink on another thread: formatting and writing take a good part of the time of
//! a simulation of short rounds.

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::record::{JobRow, Sample, Sink, Summary, WriteError};

/// Records in a message: enough of them that the other thread is seldom woken, and few enough for the cache.
const RECORDS: usize = 1_024;

/// Messages that may wait for the sink; then the simulation waits.
const MESSAGES: usize = 16;

/// One record; a job with the range of its nodes in [`Message::nodes`].
enum Record {
    Job(JobRow<'static>, usize, usize),
    Sample(Sample),
}

#[derive(Default)]
struct Message {
    records: Vec<Record>,
    nodes: Vec<(u32, u32)>,
    summary: Option<Summary>,
}

/// The [`Sink`] of [`beside`]: collects records, and sends them to the other thread.
pub struct Records {
    next: Message,
    sent: SyncSender<Message>,
    /// Messages to be filled again.
    used: Receiver<Message>,
}

/// Runs a simulation, with `sink` on a thread of its own. Samples and jobs come to `sink` in the same order. It sees
/// neither rounds nor evictions.
///
/// # Errors
/// Those of `sink`, else those of `simulate`.
pub fn beside<S: Sink + Send, T, E: From<WriteError>>(
    sink: &mut S,
    simulate: impl FnOnce(&mut Records) -> Result<T, E>,
) -> Result<T, E> {
    thread::scope(|scope| {
        let (sent, received) = sync_channel(MESSAGES);
        let (back, used) = channel();
        let writer = scope.spawn(move || hand_over(sink, &received, &back));
        let mut records = Records { next: Message::default(), sent, used };
        let simulated = simulate(&mut records);
        // The thread ends after the last message.
        drop(records);
        writer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        simulated
    })
}

fn hand_over(sink: &mut impl Sink, received: &Receiver<Message>, back: &Sender<Message>) -> Result<(), WriteError> {
    for mut message in received {
        for record in message.records.drain(..) {
            match record {
                Record::Job(row, from, to) => sink.job(&JobRow { allocated: &message.nodes[from..to], ..row })?,
                Record::Sample(sample) => sink.sample(&sample)?,
            }
        }
        message.nodes.clear();
        if let Some(summary) = message.summary.take() {
            sink.finish(&summary)?;
        }
        // Nobody wants the last ones.
        let _ = back.send(message);
    }
    Ok(())
}

impl Records {
    fn add(&mut self, record: Record) -> Result<(), WriteError> {
        self.next.records.push(record);
        if self.next.records.len() < RECORDS { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<(), WriteError> {
        let next = self.used.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut self.next, next);
        // A closed channel ends the simulation; `beside` then returns the error of the sink.
        let closed = || WriteError::new(Path::new("the results"), io::ErrorKind::BrokenPipe.into());
        self.sent.send(full).map_err(|_| closed())
    }
}

impl Sink for Records {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        let from = self.next.nodes.len();
        self.next.nodes.extend_from_slice(job.allocated);
        let to = self.next.nodes.len();
        self.add(Record::Job(JobRow { allocated: &[], ..*job }, from, to))
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.add(Record::Sample(*sample))
    }

    fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
        self.next.summary = Some(summary.clone());
        self.send()
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Energy, Time};

    use super::*;
    use crate::engine::SimulationError;
    use crate::record::Fate;

    /// Writes down what comes, and fails at a job.
    #[derive(Default)]
    struct Heard {
        lines: Vec<String>,
        fails_at: Option<i64>,
    }

    impl Sink for Heard {
        fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
            if self.fails_at == Some(job.number) {
                return Err(WriteError::new(Path::new("jobs.csv"), io::ErrorKind::StorageFull.into()));
            }
            self.lines.push(format!("job {} on {:?}", job.number, job.allocated));
            Ok(())
        }

        fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
            self.lines.push(format!("sample {}", sample.at.unix_ms()));
            Ok(())
        }

        fn finish(&mut self, summary: &Summary) -> Result<(), WriteError> {
            self.lines.push(format!("end {}", summary.end.unix_ms()));
            Ok(())
        }
    }

    fn job(number: i64, allocated: &[(u32, u32)]) -> JobRow<'_> {
        JobRow {
            number,
            submit: Time::from_unix_ms(0),
            processors: 1,
            walltime: None,
            user: 0,
            fate: Fate::Completed,
            start: None,
            end: None,
            allocated,
            energy: Energy::ZERO,
            cost: None,
        }
    }

    fn sample(at: i64) -> Sample {
        Sample { at: Time::from_unix_ms(at), ..Sample::default() }
    }

    fn summary(end: i64) -> Summary {
        Summary { end: Time::from_unix_ms(end), ..Summary::default() }
    }

    /// Hands over a job with its own node, and a sample, for each number below `count`.
    fn play(records: &mut Records, count: u32) -> Result<(), WriteError> {
        for number in 0..count {
            records.job(&job(i64::from(number), &[(number, number), (number + 2, number + 3)]))?;
            records.sample(&sample(i64::from(number)))?;
        }
        records.finish(&summary(i64::from(count)))
    }

    #[test]
    fn all_records_come_in_order() {
        let (mut direct, mut heard) = (Heard::default(), Heard::default());
        // Many more than wait in the channel.
        let count = 20_000;
        beside(&mut heard, |records| play(records, count)).expect("nothing fails");
        for number in 0..count {
            let nodes = [(number, number), (number + 2, number + 3)];
            direct.job(&job(i64::from(number), &nodes)).expect("heard");
            direct.sample(&sample(i64::from(number))).expect("heard");
        }
        direct.finish(&summary(i64::from(count))).expect("heard");
        assert_eq!(heard.lines, direct.lines);
    }

    #[test]
    fn an_error_of_the_sink_stops_the_simulation_and_is_its_own() {
        let mut full = Heard { fails_at: Some(10), ..Heard::default() };
        // Without a failed record this would never end.
        let endless = |records: &mut Records| -> Result<(), WriteError> {
            loop {
                play(records, 1_000)?;
            }
        };
        let error = beside(&mut full, endless).expect_err("a full disk");
        assert!(error.to_string().starts_with("cannot write jobs.csv: "), "{error}");
    }

    #[test]
    fn an_error_of_the_simulation_is_returned() {
        let refused = SimulationError::Refused {
            at: Time::from_unix_ms(7),
            refused: limo_sched::Refused::NoSuchNode { node: limo_model::NodeId(3) },
        };
        let mut heard = Heard::default();
        let error = beside(&mut heard, |records| -> Result<(), SimulationError> {
            records.sample(&sample(1))?;
            Err(refused)
        });
        assert!(matches!(error, Err(SimulationError::Refused { at, .. }) if at == Time::from_unix_ms(7)));
        assert!(heard.lines.is_empty(), "an incomplete message is dropped");
    }
}
