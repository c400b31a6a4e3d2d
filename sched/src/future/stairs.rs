//! The times from which more and more chunks of a packed job fit on a node, and the first time at which enough of them
//! fit on several nodes together.

use limo_model::Time;

/// From `at` on, this many chunks fit on a node for all of their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stair {
    pub at: Time,
    pub chunks: u32,
}

/// Returns the first time from `from` on for each larger number of chunks, up to `most`. `first` returns the first time
/// from a time on at which this many fit; fewer must never fit later than more.
pub(crate) fn stairs(most: u32, from: Time, first: impl Fn(u32, Time) -> Option<Time>) -> Vec<Stair> {
    let mut found = Vec::new();
    let (mut at, mut chunks) = (from, 0);
    while chunks < most {
        let Some(next) = first(chunks + 1, at) else { break };
        at = next;
        let (mut low, mut high) = (chunks + 1, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if first(middle, at) == Some(at) { low = middle } else { high = middle - 1 }
        }
        chunks = low;
        found.push(Stair { at, chunks });
    }
    found
}

/// Returns the first time from which these additions make up `wanted`; `None` if they never do.
pub(crate) fn first_time(mut more: Vec<Stair>, wanted: u32) -> Option<Time> {
    more.sort_unstable_by_key(|stair| stair.at);
    let mut left = wanted;
    for stair in more {
        left = left.saturating_sub(stair.chunks);
        if left == 0 {
            return Some(stair.at);
        }
    }
    None
}

/// Returns the additions of each step over the one before.
pub(crate) fn additions(stairs: &[Stair]) -> impl Iterator<Item = Stair> {
    let before = std::iter::once(0).chain(stairs.iter().map(|stair| stair.chunks));
    stairs.iter().zip(before).map(|(stair, before)| Stair { chunks: stair.chunks - before, ..*stair })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn stair(ms: i64, chunks: u32) -> Stair {
        Stair { at: at(ms), chunks }
    }

    /// Two chunks from 0 to 10, five from 20 on, nine from 30 on.
    fn first(chunks: u32, from: Time) -> Option<Time> {
        match chunks {
            1..=2 if from < at(10) => Some(from),
            1..=5 => Some(from.max(at(20))),
            6..=9 => Some(from.max(at(30))),
            _ => None,
        }
    }

    #[test]
    fn each_step_holds_more_chunks() {
        assert_eq!(stairs(20, at(0), first), [stair(0, 2), stair(20, 5), stair(30, 9)]);
        assert_eq!(stairs(4, at(0), first), [stair(0, 2), stair(20, 4)]);
        assert_eq!(stairs(20, at(25), first), [stair(25, 5), stair(30, 9)]);
    }

    #[test]
    fn enough_chunks_on_all_nodes_together() {
        let (one, other) = ([stair(0, 2), stair(20, 5)], [stair(5, 1), stair(30, 4)]);
        let more = || additions(&one).chain(additions(&other)).collect::<Vec<_>>();
        assert_eq!([2, 3, 4, 7].map(|wanted| first_time(more(), wanted)), [0, 5, 20, 30].map(|ms| Some(at(ms))));
        assert_eq!(first_time(more(), 10), None);
    }
}
