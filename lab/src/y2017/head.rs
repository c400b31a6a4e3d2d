//! The reservation for the head of the queue: its expected processors and start.

use super::counter::{Terms, Trial, div_ceil};
use super::intervals::Interval;
use super::queue::Request;
use super::scheduler::Scheduler;

/// The expected state once all running jobs have ended.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    /// The last estimated end, or now if no job runs.
    end: i64,
    /// Energy saved by then, in uJ.
    expected: i128,
}

impl Scheduler {
    /// Returns the processors reserved for the head, and its start: the first estimated end at which a free interval
    /// becomes wide enough and the energy suffices. Reserves the energy.
    pub(super) fn reserve(&mut self, now: i64, request: Request) -> (Interval, i64) {
        let spends = self.variant.algorithm.spends();
        let mut outlook = Outlook { end: now, expected: 0 };
        let mut fits_at = now;
        self.growth.restart(self.free.list(), self.free.processors());
        for run in self.running.list() {
            let free = self.growth.free;
            let grown = self.growth.release(run.at);
            if spends {
                let excess = self.counter.excess(outlook.end, run.end, self.counter.power_mw(i64::from(free)));
                outlook.expected += if self.variant.sign_error { excess } else { -excess };
            }
            if request.processors <= grown.width() {
                if fits_at == now {
                    fits_at = run.end;
                }
                let trial = Trial { request, start: run.end, free: self.growth.free };
                let terms = Terms { spends, reserves: spends, expected: outlook.expected, lowered: None };
                if self.counter.admits(trial, terms) {
                    return (self.growth.place(grown, request.processors), run.end);
                }
            }
            outlook.end = run.end;
        }
        // After all ends the whole machine is one interval.
        let at = self.growth.place(Interval::new(0, self.growth.free - 1), request.processors);
        let start =
            if spends { self.start_when_saved(request, outlook) } else { self.counter.window.until.max(fits_at) };
        (at, start)
    }

    /// Returns the time at which an idle machine will have saved the energy for the head, at most the end of the
    /// window.
    fn start_when_saved(&mut self, request: Request, outlook: Outlook) -> i64 {
        let (window, free) = (self.counter.window, self.growth.free);
        let idle_gap = i128::from(self.counter.idle_gap_mw());
        let latest = window.until - request.ms;
        let by_latest = outlook.expected + idle_gap * i128::from(latest - outlook.end);
        let terms = Terms { spends: true, expected: by_latest, ..Terms::default() };
        let within = latest >= outlook.end && self.counter.admits(Trial { request, start: latest, free }, terms);
        let have = outlook.expected + self.counter.saved;
        let from = outlook.end.max(window.from);
        let power = self.counter.power_mw(i64::from(free) - i64::from(request.processors));
        let (missing, gain_mw) = if within {
            (self.counter.excess(latest, window.until, power) - have, idle_gap)
        } else {
            // A later start also shortens the part in the window.
            let over = i128::from(power - window.cap_mw);
            (over * i128::from(window.until - from) - have, idle_gap + over)
        };
        let idle = idling_ms(missing, gain_mw);
        let expected = outlook.expected + i128::from(idle) * idle_gap;
        let start = if within { from + idle } else { (from + idle).min(window.until) };
        let terms = Terms { spends: true, reserves: true, expected, lowered: None };
        // The reservation holds even if the energy does not suffice.
        self.counter.admits(Trial { request, start, free }, terms);
        start
    }
}

/// Returns the time needed to gain `missing` uJ, in ms: whole seconds, rounded up after adding a microsecond. Returns
/// 0 for a gain of zero, for which the published program has no result.
fn idling_ms(missing: i128, gain_mw: i128) -> i64 {
    if gain_mw == 0 {
        return 0;
    }
    let seconds = div_ceil(missing * 1_000 + gain_mw, gain_mw * 1_000_000);
    i64::try_from(seconds * 1_000).unwrap_or(0)
}
