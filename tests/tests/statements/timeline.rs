//! A value that changes over time.

/// A time span in Unix milliseconds, both ends included.
#[derive(Debug, Clone, Copy)]
pub struct While {
    pub from: i64,
    pub to: i64,
}

/// Values in order, each with the time from which it holds.
#[derive(Debug, Clone)]
pub struct Timeline<T>(Vec<(i64, T)>);

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Timeline<T> {
    /// Sets the value from `at` on, or from the last change on if that is later.
    pub fn set(&mut self, at: i64, value: T) {
        if self.now() != Some(&value) {
            let at = self.0.last().map_or(at, |(last, _)| at.max(*last));
            self.0.push((at, value));
        }
    }

    /// Returns the last value.
    pub fn now(&self) -> Option<&T> {
        self.0.last().map(|(_, value)| value)
    }

    /// Returns the value at `at`; `None` before the first.
    pub fn at(&self, at: i64) -> Option<&T> {
        let begun = self.0.partition_point(|(from, _)| *from <= at);
        Some(&self.0.get(begun.checked_sub(1)?)?.1)
    }

    /// Returns the values in a time span.
    pub fn during(&self, of: While) -> impl Iterator<Item = &T> {
        self.changes(of).iter().map(|(_, value)| value)
    }

    /// Returns the times of the changes in a time span.
    pub fn times(&self, of: While) -> impl Iterator<Item = i64> {
        self.changes(of).iter().map(|(at, _)| *at)
    }

    /// Returns all changes: each time, and the value from then on.
    pub fn steps(&self) -> impl Iterator<Item = (i64, &T)> {
        self.0.iter().map(|(at, value)| (*at, value))
    }

    /// Returns true if some value in a time span passes the test.
    pub fn was(&self, of: While, test: impl Fn(&T) -> bool) -> bool {
        self.during(of).any(test)
    }

    fn changes(&self, of: While) -> &[(i64, T)] {
        let first = self.0.partition_point(|(at, _)| *at <= of.from).saturating_sub(1);
        let end = self.0.partition_point(|(at, _)| *at <= of.to);
        &self.0[first.min(end)..end]
    }
}

#[test]
fn values_of_a_while() {
    let mut timeline = Timeline::default();
    for (at, value) in [(10, 'a'), (20, 'b'), (25, 'b'), (30, 'c')] {
        timeline.set(at, value);
    }
    let during = |from, to| timeline.during(While { from, to }).collect::<String>();
    assert_eq!([during(0, 9), during(0, 10), during(12, 15), during(20, 29)], ["", "a", "a", "b"]);
    assert_eq!([during(15, 20), during(19, 99), during(40, 50)], ["ab", "abc", "c"]);
    assert_eq!([timeline.at(9), timeline.at(29), timeline.at(30)], [None, Some(&'b'), Some(&'c')]);
}
