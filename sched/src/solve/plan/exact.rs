//! Branch and bound over lists.

use super::PlanProblem;
use super::profile::Profile;

/// A search, depth first.
struct Search<'a> {
    problem: &'a PlanProblem,
    list: Vec<u32>,
    best: (i128, Vec<u32>),
}

/// Returns the list with the best schedule. `order` is a good one, which bounds the search.
pub(super) fn best(problem: &PlanProblem, order: Vec<u32>) -> Vec<u32> {
    let cost = super::Decoder::new(problem).cost(&order, i128::MAX).unwrap_or(i128::MAX);
    let mut profile = Profile::default();
    profile.begin(&problem.free);
    let mut rest = order.clone();
    let mut search = Search { problem, list: Vec::new(), best: (cost, order) };
    search.extend(&profile, &mut rest, 0);
    search.best.1
}

impl Search<'_> {
    /// Tries each of the remaining jobs as the next one.
    fn extend(&mut self, profile: &Profile, rest: &mut Vec<u32>, cost: i128) {
        if rest.is_empty() {
            if cost < self.best.0 {
                self.best = (cost, self.list.clone());
            }
            return;
        }
        // No job starts earlier when others are placed first.
        let waits = rest.iter().map(|job| {
            let entry = &self.problem.jobs[*job as usize];
            entry.weight * i128::from(profile.earliest(entry).0)
        });
        if cost + waits.sum::<i128>() >= self.best.0 {
            return;
        }
        for place in 0..rest.len() {
            let job = rest.remove(place);
            let entry = &self.problem.jobs[job as usize];
            let mut after = profile.clone();
            let start = after.book(entry);
            self.list.push(job);
            self.extend(&after, rest, cost + entry.weight * i128::from(start));
            self.list.pop();
            rest.insert(place, job);
        }
    }
}
