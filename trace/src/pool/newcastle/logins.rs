//! Sessions of the users of the computers, and the dumps in which they are recorded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::calendar::{self, Opening};
use super::groups::{self, PoolGroup};
use super::numbers as n;
use super::{Purpose, lognormal, picked};
use crate::generate::Dice;
use crate::pool::session::{Session, Sessions};

const HOUR_MS: i64 = 3_600_000;
const QUARTER_MS: i64 = HOUR_MS / 4;
const QUARTERS: usize = n::DAYS * 96;

/// Login before it has a computer. Ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    /// In milliseconds since the start of the year.
    at: i64,
    group: usize,
    is_class: bool,
}

/// Makes the sessions of the year, in order of login.
pub(super) fn sessions(seed: u64) -> Sessions {
    let groups = groups::all();
    let mut arrivals = classes(&groups, &mut Dice::of_purpose(seed, Purpose::Classes as usize));
    arrivals.extend(others(n::LOGINS - arrivals.len(), &groups, &mut Dice::of_purpose(seed, Purpose::Logins as usize)));
    seated(arrivals, &groups, &mut Dice::of_purpose(seed, Purpose::Stays as usize))
}

/// Draws classes: hours by their weight, groups of those that are open then, none twice in an hour.
fn classes(groups: &[PoolGroup], dice: &mut Dice) -> Vec<Arrival> {
    let count = n::LOGINS * n::CLASS_PERCENT / 100;
    let weights = (0..n::DAYS * 24).map(|hour| calendar::weight(hour / 24) * n::HOURS[hour % 24]);
    let hours = sums(weights);
    let mut taken = HashSet::new();
    let mut arrivals = Vec::with_capacity(count + 200);
    while arrivals.len() < count {
        let hour = picked(&hours, dice);
        let open: Vec<usize> =
            (0..groups.len()).filter(|group| groups[*group].opening.is_open(hour / 24, hour % 24)).collect();
        // The groups that are open for 24 h always are.
        let group = open[dice.integer(0, open.len() as u32 - 1) as usize];
        if !taken.insert((hour, group)) {
            continue;
        }
        let [low, high] = n::CLASS_SHARE;
        let size = (f64::from(groups[group].computers) * dice.between(low, high)).round() as usize;
        for _ in 0..size.min(count - arrivals.len()) {
            let at = hour as i64 * HOUR_MS + dice.between(0.0, n::CLASS_ARRIVAL_MS) as i64;
            arrivals.push(Arrival { at, group, is_class: true });
        }
    }
    arrivals
}

/// Draws the other logins. Their numbers in each quarter of an hour are proportional to its weight and to the computers
/// that are open, with the largest remainders rounded up.
fn others(count: usize, groups: &[PoolGroup], dice: &mut Dice) -> Vec<Arrival> {
    let open = |quarter: usize| {
        let is_open = move |opening: Opening| opening.is_open(quarter / 96, quarter / 4 % 24);
        groups.iter().map(move |group| if is_open(group.opening) { f64::from(group.computers) } else { 0.0 })
    };
    let weight = |quarter: usize| calendar::weight(quarter / 96) * n::HOURS[quarter / 4 % 24];
    let weights: Vec<f64> = (0..QUARTERS).map(|quarter| weight(quarter) * open(quarter).sum::<f64>()).collect();
    let mut arrivals = Vec::with_capacity(count);
    for (quarter, logins) in largest_remainders(&weights, count).into_iter().enumerate() {
        let groups = sums(open(quarter));
        for _ in 0..logins {
            let group = picked(&groups, dice);
            // The shortest session ends before the group closes.
            let within = dice.between(0.0, (QUARTER_MS - n::SESSION_MIN_MS) as f64) as i64;
            arrivals.push(Arrival { at: quarter as i64 * QUARTER_MS + within, group, is_class: false });
        }
    }
    arrivals
}

/// Returns whole numbers in proportion to the weights, with this sum.
fn largest_remainders(weights: &[f64], count: usize) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| weight / total * count as f64).collect();
    let mut numbers: Vec<usize> = exact.iter().map(|exact| exact.floor() as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let rest = |index: usize| exact[index] - exact[index].floor();
    order.sort_by(|a, b| rest(*b).total_cmp(&rest(*a)));
    let missing = count - numbers.iter().sum::<usize>();
    order.into_iter().take(missing).for_each(|index| numbers[index] += 1);
    numbers
}

fn sums(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

/// Computers of a group.
struct Seats {
    free: Vec<u32>,
    /// Times from which taken computers are free.
    taken: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Seats {
    /// Returns the number of free computers.
    fn free_at(&mut self, at: i64) -> usize {
        while self.taken.peek().is_some_and(|Reverse((until, _))| *until <= at) {
            self.free.extend(self.taken.pop().map(|Reverse((_, computer))| computer));
        }
        self.free.len()
    }
}

/// Gives each login a computer and a duration. If its group is full, it goes to a group that is not, else it comes again
/// a quarter of an hour later.
fn seated(arrivals: Vec<Arrival>, groups: &[PoolGroup], dice: &mut Dice) -> Sessions {
    let seats = |group: &PoolGroup| Seats { free: (0..group.computers).collect(), taken: BinaryHeap::new() };
    let mut seats: Vec<Seats> = groups.iter().map(seats).collect();
    let mut first = vec![0; groups.len()];
    let mut sessions = Sessions::default();
    for (group, first) in groups.iter().zip(&mut first) {
        for computer in 0..group.computers {
            // There are fewer computers and users than names are allowed.
            let index = sessions.computers.index(group.computer(computer).as_bytes()).unwrap_or_default();
            if computer == 0 {
                *first = index;
            }
        }
    }
    for user in 0..n::OWNERS {
        sessions.users.index(format!("u{user:05}").as_bytes());
    }
    let mut waiting: BinaryHeap<Reverse<Arrival>> = arrivals.into_iter().map(Reverse).collect();
    while let Some(Reverse(arrival)) = waiting.pop() {
        let at = arrival.at;
        let day = (at / (24 * HOUR_MS)) as usize;
        let is_open = |group: usize| groups[group].opening.is_open(day, (at / HOUR_MS % 24) as usize);
        let mut group = arrival.group;
        if !is_open(group) || seats[group].free_at(at) == 0 {
            let free =
                (0..groups.len()).map(|group| if is_open(group) { seats[group].free_at(at) as f64 } else { 0.0 });
            let free = sums(free);
            if free.last().is_none_or(|free| *free == 0.0) {
                waiting.push(Reverse(Arrival { at: at + QUARTER_MS, ..arrival }));
                continue;
            }
            group = picked(&free, dice);
        }
        let free = &mut seats[group].free;
        let computer = free.swap_remove(dice.integer(0, free.len() as u32 - 1) as usize);
        let stay = if arrival.is_class {
            dice.between(n::CLASS_MS[0], n::CLASS_MS[1])
        } else {
            lognormal(dice, n::SESSION_MEDIAN_MS, n::SESSION_SIGMA).min(n::SESSION_MAX_MS)
        };
        let closes = groups[group].opening.closes(day).map(|hour| day as i64 * 24 * HOUR_MS + hour as i64 * HOUR_MS);
        let logout = (at + stay as i64).min(closes.unwrap_or(i64::MAX)).max(at + n::SESSION_MIN_MS);
        seats[group].taken.push(Reverse((logout + n::GAP_MS, computer)));
        let (login, logout) = (n::START * 1_000 + at, n::START * 1_000 + logout);
        let user = dice.integer(0, n::OWNERS - 1);
        sessions.sessions.push(Session { login, logout, computer: first[group] + computer, user });
    }
    sessions.sort();
    sessions
}

/// Line of a dump: time in milliseconds since 1970, computer and user.
pub(super) type DumpLine = (i64, u32, u32);

/// Makes the dumps of logins and of logouts: with duplicates, with logins of computers that crash, and shuffled.
pub(super) fn dumps(sessions: &[Session], seed: u64) -> [Vec<DumpLine>; 2] {
    let mut dice = Dice::of_purpose(seed, Purpose::Dumps as usize);
    let crash = |number: usize, dice: &mut Dice| {
        let share = sessions.len() / n::CRASHES;
        let session = sessions[number * share + dice.integer(0, share as u32 - 1) as usize];
        (session.logout + n::CRASH_MS, session.computer, dice.integer(0, n::OWNERS - 1))
    };
    let mut logins: Vec<DumpLine> = (0..n::CRASHES).map(|number| crash(number, &mut dice)).collect();
    logins.extend(sessions.iter().map(|session| (session.login, session.computer, session.user)));
    let logouts = sessions.iter().map(|session| (session.logout, session.computer, session.user)).collect();
    [logins, logouts].map(|mut lines: Vec<DumpLine>| {
        for index in 0..lines.len() {
            if dice.unit() < n::DUPLICATES {
                let later = if dice.unit() < n::LATER { dice.integer(1, n::LATER_MS) } else { 0 };
                let (at, computer, user) = lines[index];
                lines.push((at + i64::from(later), computer, user));
            }
        }
        for index in (1..lines.len()).rev() {
            // A dump has fewer than 2^32 lines.
            lines.swap(index, dice.integer(0, index as u32) as usize);
        }
        lines
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_keep_the_sum() {
        assert_eq!(largest_remainders(&[1.0, 1.0, 2.0], 4), [1, 1, 2]);
        // 1.2, 3.6 and 1.2: the largest remainder is .6.
        assert_eq!(largest_remainders(&[1.0, 3.0, 1.0], 6), [1, 4, 1]);
        assert_eq!(largest_remainders(&[0.0, 5.0], 3), [0, 3]);
    }
}
