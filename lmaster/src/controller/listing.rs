//! Lists of unfinished jobs in an order, a page at a time. A page takes one look at each job, in slices, and keeps only
//! as many jobs as the page has. In order of their numbers, it looks at no job before or behind the page.

use std::collections::BTreeSet;

use limo_model::{Cores, JobId, Span};
use limo_proto::{Answer, JobOrder, ListingQuery};
use limo_sched::Job;

use super::pages::Cursor;
use super::queries::Serve;
use super::sift::Sieve;
use super::{Controller, PeerId};
use crate::states;

/// Most jobs of a page.
const LIMIT: u32 = 1_000;

/// Most jobs per slice, and most of them that need a report: a few milliseconds without service for other requests.
const LOOKS: usize = 10_000;
const REPORTS: usize = 1_000;

/// A page that is being collected.
#[derive(Debug)]
pub(super) struct Listing {
    query: ListingQuery,
    /// First job of the next slice.
    next: JobId,
    /// The first jobs so far, with their values, and one more, which shows that further ones follow.
    best: BTreeSet<(i64, JobId)>,
}

impl Serve for ListingQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let query = Self { limit: self.limit.clamp(1, LIMIT), ..self };
        let next = query.after.filter(|_| in_turn(&query)).map_or(JobId(0), |(_, job)| job);
        controller.tell_pages(peer, Cursor::listing(Listing { query, next, best: BTreeSet::new() }));
    }
}

/// Returns true if jobs come in the order of the list.
fn in_turn(query: &ListingQuery) -> bool {
    query.order == JobOrder::Number && !query.descending
}

impl Listing {
    /// Returns true if no further job can be on the page.
    fn is_full(&self) -> bool {
        in_turn(&self.query) && self.best.len() > self.query.limit as usize
    }

    fn add(&mut self, found: (i64, JobId)) {
        let ListingQuery { after, descending, limit, .. } = &self.query;
        let is_later = |after: &(i64, JobId)| if *descending { found < *after } else { found > *after };
        if !after.as_ref().is_none_or(is_later) {
            return;
        }
        self.best.insert(found);
        if self.best.len() > *limit as usize + 1 {
            let _ = if *descending { self.best.pop_first() } else { self.best.pop_last() };
        }
    }
}

impl Controller {
    /// Looks at one slice of jobs. Returns true after the last one.
    pub(super) fn list(&self, listing: &mut Listing) -> bool {
        let filter = listing.query.filter.clone();
        let (sieve, states) = (Sieve::new(&filter), filter.states.iter().collect::<BTreeSet<_>>());
        let mut reports = 0;
        let mut jobs = self.tx.core.jobs_from(listing.next);
        for (id, job) in jobs.by_ref().take(LOOKS) {
            if self.is_folded(id, job) || !sieve.may_pass(job) {
                continue;
            }
            // The state of an array is that of its tasks.
            let is_array = self.tx.core.array(id).is_some();
            if !is_array && !states.is_empty() && !states.contains(&states::of_job(job)) {
                continue;
            }
            if !filter.nodes.is_empty() || (is_array && !states.is_empty()) {
                reports += 1;
                if !sieve.passes(&self.job_report(id, job)) {
                    continue;
                }
            }
            listing.add((self.value(listing.query.order, job), id));
            if listing.is_full() {
                return true;
            }
            if reports >= REPORTS {
                break;
            }
        }
        match jobs.next() {
            Some((next, _)) => {
                listing.next = next;
                false
            }
            None => true,
        }
    }

    /// Returns the value of a job as [`JobOrder::key`] finds it in the report.
    fn value(&self, order: JobOrder, job: &Job) -> i64 {
        match order {
            JobOrder::Number => 0,
            JobOrder::Start => {
                let started = job.running().map(|running| self.tx.core.clock().shown(running.started));
                started.map_or(i64::MAX, limo_model::Time::unix_ms)
            }
            JobOrder::TimeLimit => job.request.time_limit.map_or(i64::MAX, Span::ms),
            JobOrder::Cores => match job.request.cores {
                Cores::Count(count) => i64::from(count.get()),
                Cores::All => i64::MAX,
            },
        }
    }

    /// Makes the answer of a complete page.
    pub(super) fn listed(&self, Listing { query, best, .. }: &Listing) -> Answer {
        let limit = query.limit as usize;
        let ids: Vec<JobId> = match query.descending {
            true => best.iter().rev().take(limit).map(|(_, id)| *id).collect(),
            false => best.iter().take(limit).map(|(_, id)| *id).collect(),
        };
        // A job may have ended since its slice.
        let report = |id: JobId| Some(self.job_report(id, self.tx.core.job(id)?));
        Answer::History { jobs: ids.into_iter().filter_map(report).collect(), more: best.len() > limit }
    }
}

#[cfg(test)]
mod tests {
    use limo_proto::JobFilter;

    use super::*;

    #[test]
    fn only_a_list_by_number_ends_before_the_last_job() {
        let is_full = |order, descending, jobs: u64| {
            let query = ListingQuery { filter: JobFilter::default(), order, descending, after: None, limit: 2 };
            let mut listing = Listing { query, next: JobId(0), best: BTreeSet::new() };
            (1..=jobs).for_each(|job| listing.add((0, JobId(job))));
            listing.is_full()
        };
        assert!(!is_full(JobOrder::Number, false, 2), "no job shows that a page follows");
        assert!(is_full(JobOrder::Number, false, 3));
        assert!(!is_full(JobOrder::Number, true, 3) && !is_full(JobOrder::Start, false, 3));
    }
}
