//! Progress of a sweep on standard error: one line that changes in place on a terminal, otherwise an occasional line.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use limo_model::Span;

const WIDTH: usize = 30;
/// Interval between lines without a terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// Progress, counted in jobs of the workloads, which determine the time of a simulation.
#[derive(Debug)]
pub struct Progress {
    count: usize,
    work: u64,
    done: usize,
    worked: u64,
    begun: Instant,
    told: Instant,
    terminal: bool,
}

impl Progress {
    pub fn new(count: usize, work: u64) -> Self {
        let (now, terminal) = (Instant::now(), std::io::stderr().is_terminal());
        let progress = Self { count, work, done: 0, worked: 0, begun: now, told: now, terminal };
        if terminal {
            progress.tell();
        }
        progress
    }

    /// Notes the end of one simulation, with its work.
    pub fn step(&mut self, work: u64) {
        self.done += 1;
        self.worked += work;
        if self.terminal || self.told.elapsed() >= PAUSE {
            self.told = Instant::now();
            self.tell();
        }
    }

    /// Clears the line.
    pub fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn tell(&self) {
        let permille = self.worked * 1_000 / self.work.max(1);
        let line = line(self.done, self.count, permille, self.left());
        let shown = if self.terminal { format!("\r\x1b[K{} {line}", bar(permille)) } else { format!("lsim: {line}\n") };
        // A closed standard error has no reader.
        let _ = std::io::stderr().write_all(shown.as_bytes());
    }

    /// Estimates the remaining time from the pace so far.
    fn left(&self) -> Option<Span> {
        let elapsed = i64::try_from(self.begun.elapsed().as_secs()).ok()?;
        let (worked, left) = (i128::from(self.worked), i128::from(self.work - self.worked.min(self.work)));
        if worked == 0 {
            return None;
        }
        i64::try_from(i128::from(elapsed) * left / worked).ok().map(Span::from_secs)
    }
}

fn bar(permille: u64) -> String {
    let full = usize::try_from(permille).map_or(WIDTH, |permille| permille * WIDTH / 1_000).min(WIDTH);
    format!("[{}{}]", "#".repeat(full), "-".repeat(WIDTH - full))
}

fn line(done: usize, count: usize, permille: u64, left: Option<Span>) -> String {
    let left = left.map_or_else(String::new, |left| format!(", about {left} left"));
    format!("{done} of {count} simulations, {} %{left}", permille / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(line(3, 10, 255, Some(Span::from_secs(130))), "3 of 10 simulations, 25 %, about 2min10s left");
        assert_eq!(line(0, 10, 0, None), "0 of 10 simulations, 0 %");
        assert_eq!(bar(500), format!("[{}{}]", "#".repeat(15), "-".repeat(15)));
        assert_eq!(bar(1_000), format!("[{}]", "#".repeat(30)));
    }
}
