//! Long answers in pieces that fit into frames.

use serde::Serialize;

use crate::encoding::encoded_len;
use crate::queries::Answer;

impl Answer {
    /// Removes a piece of at most `size` encoded bytes, but at least one entry, from a longer list.
    pub fn cut(&mut self, size: usize) -> Option<Self> {
        Some(match self {
            Self::Jobs(list) => Self::Jobs(front(list, size)?),
            Self::JobsUpTo { jobs, next } => Self::JobsUpTo { jobs: front(jobs, size)?, next: *next },
            Self::Nodes(list) => Self::Nodes(front(list, size)?),
            Self::Accounts(list) => Self::Accounts(front(list, size)?),
            Self::Profiles(list) => Self::Profiles(front(list, size)?),
            Self::Variation(list) => Self::Variation(front(list, size)?),
            Self::Selected(list) => Self::Selected(front(list, size)?),
            Self::History { jobs, more } => Self::History { jobs: front(jobs, size)?, more: *more },
            Self::Changes { changes, more } => Self::Changes { changes: front(changes, size)?, more: *more },
            Self::Readings { emulated, intervals } => {
                Self::Readings { emulated: *emulated, intervals: front(intervals, size)? }
            }
            _ => return None,
        })
    }

    /// Prepends the earlier pieces of a list, which [`cut`](Self::cut) removed.
    #[must_use]
    pub fn joined(mut self, pieces: Vec<Self>) -> Self {
        for piece in pieces.into_iter().rev() {
            match (piece, &mut self) {
                (Self::Jobs(before), Self::Jobs(after))
                | (Self::JobsUpTo { jobs: before, .. }, Self::JobsUpTo { jobs: after, .. })
                | (Self::History { jobs: before, .. }, Self::History { jobs: after, .. }) => {
                    drop(after.splice(0..0, before));
                }
                (Self::Profiles(before), Self::Profiles(after)) => drop(after.splice(0..0, before)),
                (Self::Variation(before), Self::Variation(after)) => drop(after.splice(0..0, before)),
                (Self::Nodes(before), Self::Nodes(after)) => drop(after.splice(0..0, before)),
                (Self::Accounts(before), Self::Accounts(after)) => drop(after.splice(0..0, before)),
                (Self::Selected(before), Self::Selected(after)) => drop(after.splice(0..0, before)),
                (Self::Changes { changes: before, .. }, Self::Changes { changes: after, .. }) => {
                    drop(after.splice(0..0, before));
                }
                (Self::Readings { intervals: before, .. }, Self::Readings { intervals: after, .. }) => {
                    drop(after.splice(0..0, before));
                }
                // Other answers are never sent in pieces.
                _ => {}
            }
        }
        self
    }
}

/// Removes as many of the first entries as fit, at least one. Returns an empty list if all entries fit.
fn front<T: Serialize>(list: &mut Vec<T>, most: usize) -> Option<Vec<T>> {
    let mut size = 0;
    let fits = |entry: &&T| {
        size += encoded_len(*entry);
        size <= most
    };
    let count = list.iter().take_while(fits).count().max(1);
    if count >= list.len() {
        return None;
    }
    let rest = list.split_off(count);
    let mut page = std::mem::replace(list, rest);
    // Without this, the page would keep the capacity of the whole list.
    page.shrink_to_fit();
    Some(page)
}

#[cfg(test)]
mod tests {
    use limo_model::JobId;

    use super::*;

    const PAGE: usize = 256 * 1024;

    #[test]
    fn a_long_list_is_cut_into_pages_that_keep_its_order_and_no_more_memory_than_they_need() {
        let mut answer = Answer::Selected((0..500_000).map(JobId).collect());
        let mut pages = Vec::new();
        while let Some(page) = answer.cut(PAGE) {
            assert!(encoded_len(&page) <= PAGE + 16, "{} bytes", encoded_len(&page));
            let Answer::Selected(jobs) = &page else { panic!("another answer") };
            assert!(jobs.capacity() <= 2 * jobs.len(), "{} places for {} numbers", jobs.capacity(), jobs.len());
            pages.push(page);
        }
        assert!((5..20).contains(&pages.len()), "{}", pages.len());
        assert_eq!(answer.joined(pages), Answer::Selected((0..500_000).map(JobId).collect()));
        assert_eq!(Answer::Selected(vec![JobId(1)]).cut(PAGE), None);
        assert_eq!(Answer::Done.cut(PAGE), None);
    }
}
