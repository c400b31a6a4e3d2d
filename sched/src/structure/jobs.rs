//! Jobs by number, for consecutive numbers that are added and removed mostly in order.
//!
//! It is a window of pages from the smallest to the largest number in use, with access by index. Memory grows with
//! the stored jobs, plus one word for every 64 numbers between the first and the last of them.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

use limo_model::JobId;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Numbers in a page: the bits of a word.
const PAGE: u64 = 64;

/// Largest range of numbers that can be read: a larger window would not fit the memory.
const WIDEST: u64 = 1 << 32;

/// Consecutive pages; an empty one takes only its place.
#[derive(Debug, Clone)]
struct Window<P> {
    /// The number of the first page.
    first: u64,
    pages: VecDeque<P>,
}

impl<P> Default for Window<P> {
    fn default() -> Self {
        Self { first: 0, pages: VecDeque::new() }
    }
}

impl<P: Default> Window<P> {
    fn place(&self, page: u64) -> Option<usize> {
        page.checked_sub(self.first).and_then(|place| usize::try_from(place).ok())
    }

    fn get(&self, page: u64) -> Option<&P> {
        self.pages.get(self.place(page)?)
    }

    fn get_mut(&mut self, page: u64) -> Option<&mut P> {
        let place = self.place(page)?;
        self.pages.get_mut(place)
    }

    /// Returns the page with that number; adds all pages up to it.
    fn reach(&mut self, page: u64) -> &mut P {
        let place = self.place(page).filter(|place| *place < self.pages.len()).unwrap_or_else(|| self.widen(page));
        &mut self.pages[place]
    }

    /// Adds a place for a page; returns the place.
    #[cold]
    fn widen(&mut self, page: u64) -> usize {
        if self.pages.is_empty() {
            self.first = page;
        }
        while page < self.first {
            self.pages.push_front(P::default());
            self.first -= 1;
        }
        let place = (page - self.first) as usize;
        self.pages.resize_with(self.pages.len().max(place + 1), P::default);
        place
    }

    /// Removes empty pages at the front.
    fn trim(&mut self, is_empty: impl Fn(&P) -> bool) {
        while self.pages.pop_front_if(|page| is_empty(page)).is_some() {
            self.first += 1;
        }
    }
}

/// Numbers of jobs, in order.
#[derive(Clone, Default)]
pub struct JobSet {
    /// A bit for each number, from the first word on.
    words: Window<u64>,
    len: usize,
}

impl JobSet {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, job: JobId) -> bool {
        self.words.get(job.0 / PAGE).is_some_and(|word| word >> (job.0 % PAGE) & 1 == 1)
    }

    /// Returns true if the job is new.
    pub fn insert(&mut self, job: JobId) -> bool {
        let (word, bit) = (self.words.reach(job.0 / PAGE), 1 << (job.0 % PAGE));
        let is_new = *word & bit == 0;
        *word |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    /// Returns true if the job was a member.
    pub fn remove(&mut self, job: JobId) -> bool {
        let bit = 1 << (job.0 % PAGE);
        let Some(word) = self.words.get_mut(job.0 / PAGE).filter(|word| **word & bit != 0) else { return false };
        *word &= !bit;
        self.len -= 1;
        self.words.trim(|word| *word == 0);
        true
    }

    pub fn last(&self) -> Option<JobId> {
        let (page, word) = self.words.pages.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        Some(JobId((self.words.first + page as u64) * PAGE + u64::from(word.ilog2())))
    }

    /// Makes a set of the jobs that were read.
    pub(super) fn of<E: Error>(jobs: impl Iterator<Item = JobId>) -> Result<Self, E> {
        let (mut set, mut spread) = (Self::default(), Spread::default());
        for job in jobs {
            spread.take(job)?;
            set.insert(job);
        }
        Ok(set)
    }

    pub fn iter(&self) -> impl Iterator<Item = JobId> {
        self.iter_from(JobId(0))
    }

    /// Returns the jobs from this number on.
    pub fn iter_from(&self, from: JobId) -> impl Iterator<Item = JobId> {
        let before = usize::try_from((from.0 / PAGE).saturating_sub(self.words.first)).unwrap_or(usize::MAX);
        let words = (self.words.first..).zip(&self.words.pages).skip(before);
        let jobs = words.flat_map(|(page, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = u64::from(left.trailing_zeros());
                left &= left.wrapping_sub(1);
                (bit < PAGE).then(|| JobId(page * PAGE + bit))
            })
        });
        jobs.skip_while(move |job| *job < from)
    }
}

impl PartialEq for JobSet {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for JobSet {}

impl fmt::Debug for JobSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Values by the number of a job, in order.
#[derive(Clone)]
pub struct JobMap<T> {
    keys: JobSet,
    pages: Window<Option<Box<Slots<T>>>>,
}

type Slots<T> = [Option<T>; PAGE as usize];

impl<T> Default for JobMap<T> {
    fn default() -> Self {
        Self { keys: JobSet::default(), pages: Window::default() }
    }
}

impl<T> JobMap<T> {
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn get(&self, job: JobId) -> Option<&T> {
        self.pages.get(job.0 / PAGE)?.as_ref()?[(job.0 % PAGE) as usize].as_ref()
    }

    pub fn get_mut(&mut self, job: JobId) -> Option<&mut T> {
        self.pages.get_mut(job.0 / PAGE)?.as_mut()?[(job.0 % PAGE) as usize].as_mut()
    }

    /// Returns the previous value.
    pub fn insert(&mut self, job: JobId, value: T) -> Option<T> {
        self.keys.insert(job);
        let slots = self.pages.reach(job.0 / PAGE).get_or_insert_with(|| Box::new([const { None }; PAGE as usize]));
        slots[(job.0 % PAGE) as usize].replace(value)
    }

    pub fn remove(&mut self, job: JobId) -> Option<T> {
        let number = job.0 / PAGE;
        let page = self.pages.get_mut(number)?;
        let value = page.as_mut()?[(job.0 % PAGE) as usize].take()?;
        self.keys.remove(job);
        if self.keys.words.get(number).is_none_or(|word| *word == 0) {
            *page = None;
            self.pages.trim(Option::is_none);
        }
        Some(value)
    }

    /// Returns the number of pages, including empty ones.
    #[cfg(test)]
    pub(super) fn pages(&self) -> usize {
        self.pages.pages.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (JobId, &T)> {
        self.iter_from(JobId(0))
    }

    /// Returns the jobs from this number on.
    pub fn iter_from(&self, from: JobId) -> impl Iterator<Item = (JobId, &T)> {
        self.keys.iter_from(from).filter_map(|job| self.get(job).map(|value| (job, value)))
    }
}

impl<T: PartialEq> PartialEq for JobMap<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for JobMap<T> {}

impl<T: fmt::Debug> fmt::Debug for JobMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for JobSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<T: Serialize> Serialize for JobMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Range of the numbers that were read so far.
#[derive(Default)]
struct Spread(Option<(JobId, JobId)>);

impl Spread {
    fn take<E: Error>(&mut self, job: JobId) -> Result<(), E> {
        let (first, last) = self.0.unwrap_or((job, job));
        let (first, last) = (first.min(job), last.max(job));
        self.0 = Some((first, last));
        if last.0 - first.0 > WIDEST {
            return Err(E::custom(format_args!("jobs {first} and {last} are too far apart to be of one queue")));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for JobSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = JobSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("numbers of jobs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<JobSet, A::Error> {
                let (mut set, mut spread) = (JobSet::default(), Spread::default());
                while let Some(job) = read.next_element()? {
                    spread.take(job)?;
                    set.insert(job);
                }
                Ok(set)
            }
        }
        deserializer.deserialize_seq(Numbers)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JobMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = JobMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("jobs by number")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut read: A) -> Result<JobMap<T>, A::Error> {
                let (mut map, mut spread) = (JobMap::default(), Spread::default());
                while let Some((job, value)) = read.next_entry()? {
                    spread.take(job)?;
                    map.insert(job, value);
                }
                Ok(map)
            }
        }
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}
