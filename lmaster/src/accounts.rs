//! Counts of the encoded bytes that the master has queued for each user. Bytes are charged when they are queued and
//! credited when they are written. The callers that charge decide what happens above a limit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::limits::Limits;

/// Frames of one user that were read and are not yet handled, over all connections. Each is at most 1 MiB. Frames of
/// other users wait behind them.
const IN_FLIGHT: usize = 16;

/// The same limit for an operator.
const OPERATORS_IN_FLIGHT: usize = 128;

/// Bytes of memory for each permit of frames that are being read.
const READING_UNIT: usize = 1024;

/// Interval between two checks if other frames wait for the memory of a slow frame.
const LOOK: Duration = Duration::from_secs(1);

/// The accounts of all users that have connections.
#[derive(Debug, Default)]
pub struct Accounts(HashMap<u32, Weak<Account>>);

/// Bytes and requests that one user has queued, over all connections.
#[derive(Debug)]
pub struct Account {
    answers: AtomicUsize,
    output: AtomicUsize,
    input: AtomicUsize,
    /// Notified whenever input was taken.
    room: Notify,
    in_flight: Arc<Semaphore>,
    /// Memory for frames that are being read.
    reading: Arc<Semaphore>,
    /// Number of frames that wait for memory.
    announced: AtomicUsize,
    uid: u32,
    operator: bool,
    limits: RwLock<Limits>,
}

/// Bytes in an account; credited when dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    kind: BytesKind,
    size: usize,
}

/// Kinds of queued bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BytesKind {
    Answer,
    /// Output of jobs.
    Output,
    /// Input of jobs.
    Input,
}

impl Accounts {
    /// Returns the account of a user. It exists as long as a connection holds it.
    pub fn of(&mut self, uid: u32, operator: bool, limits: &Limits) -> Arc<Account> {
        if let Some(account) = self.0.get(&uid).and_then(Weak::upgrade) {
            return account;
        }
        self.0.retain(|_, account| account.strong_count() > 0);
        let in_flight = if operator { OPERATORS_IN_FLIGHT } else { IN_FLIGHT };
        let account = Arc::new(Account {
            answers: AtomicUsize::new(0),
            output: AtomicUsize::new(0),
            input: AtomicUsize::new(0),
            room: Notify::new(),
            in_flight: Arc::new(Semaphore::new(in_flight)),
            reading: Arc::new(Semaphore::new(limits.of(operator).reading / READING_UNIT)),
            announced: AtomicUsize::new(0),
            uid,
            operator,
            limits: RwLock::new(limits.of(operator)),
        });
        self.0.insert(uid, Arc::downgrade(&account));
        account
    }

    /// Applies changed limits.
    pub fn configure(&self, limits: &Limits) {
        for account in self.0.values().filter_map(Weak::upgrade) {
            account.configure(limits.of(account.operator));
        }
    }
}

impl Account {
    pub fn uid(&self) -> u32 {
        self.uid
    }

    fn configure(&self, limits: Limits) {
        let before = std::mem::replace(&mut *self.limits.write().unwrap_or_else(PoisonError::into_inner), limits);
        let (before, after) = (before.reading / READING_UNIT, limits.reading / READING_UNIT);
        self.reading.add_permits(after.saturating_sub(before));
        let surplus = before.saturating_sub(after);
        let left = surplus - self.reading.forget_permits(surplus);
        if let (Ok(runtime), Ok(left @ 1..)) = (tokio::runtime::Handle::try_current(), u32::try_from(left)) {
            // These permits are in use now.
            let reading = Arc::clone(&self.reading);
            runtime.spawn(async move { reading.acquire_many_owned(left).await.map(OwnedSemaphorePermit::forget) });
        }
    }

    fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, kind: BytesKind) -> &AtomicUsize {
        match kind {
            BytesKind::Answer => &self.answers,
            BytesKind::Output => &self.output,
            BytesKind::Input => &self.input,
        }
    }

    fn charge(self: &Arc<Self>, kind: BytesKind, size: usize) -> Charge {
        self.of(kind).fetch_add(size, Ordering::Relaxed);
        Charge { account: Arc::clone(self), kind, size }
    }

    /// Charges an answer of `size` bytes.
    ///
    /// # Errors
    /// If the user has too much queued: the message to show.
    pub fn answer(self: &Arc<Self>, size: usize) -> Result<Charge, String> {
        let limit = self.limits().answers;
        if self.answers.load(Ordering::Relaxed).saturating_add(size) > limit {
            return Err(format!(
                "its user has left answers of {limit} bytes unread: the limit is reached (limits.answers)"
            ));
        }
        Ok(self.charge(BytesKind::Answer, size))
    }

    /// Charges output of a job; `None` if that would exceed the limit. A connection with an empty queue is always
    /// below the limit, so the user's other connections cannot block it without end.
    pub fn output(self: &Arc<Self>, size: usize, has_queued: bool) -> Option<Charge> {
        let full = self.output.load(Ordering::Relaxed).saturating_add(size) > self.limits().stdio / 2;
        (!full || !has_queued).then(|| self.charge(BytesKind::Output, size))
    }

    /// Returns the same bytes, charged as input of a job until their last copy is dropped.
    pub fn input(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        let charge = self.charge(BytesKind::Input, bytes.len());
        Bytes::from_owner(Charged { bytes, _charge: charge })
    }

    /// Returns when the user's input is below its limit.
    pub async fn input_room(&self) {
        loop {
            let mut taken = std::pin::pin!(self.room.notified());
            // From here on, no notification is missed.
            taken.as_mut().enable();
            if self.input.load(Ordering::Relaxed) < self.limits().stdio / 2 {
                return;
            }
            taken.await;
        }
    }

    /// Waits until memory for a frame of `size` bytes is available. Frames of a user get memory in the order of their
    /// requests.
    pub async fn room(&self, size: usize) -> Option<OwnedSemaphorePermit> {
        // No frame is larger than the smallest limit.
        let permits = u32::try_from(size.div_ceil(READING_UNIT)).ok()?;
        let _waiting = Counted::new(&self.announced);
        Arc::clone(&self.reading).acquire_many_owned(permits).await.ok()
    }

    /// Returns when other frames of the user wait for memory, but not before `patience` is over.
    pub async fn crowded(&self, patience: Duration) {
        sleep(patience).await;
        while self.announced.load(Ordering::Relaxed) == 0 {
            sleep(LOOK).await;
        }
    }

    /// Waits for a place for one more frame that was read and is not yet handled.
    pub async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.in_flight).acquire_owned().await.ok()
    }
}

/// Counts a waiting frame from its creation until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.of(self.kind).fetch_sub(self.size, Ordering::Relaxed);
        if self.kind == BytesKind::Input {
            self.account.room.notify_waiters();
        }
    }
}

struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> (Accounts, Arc<Account>) {
        let mut accounts = Accounts::default();
        let limits = Limits { answers: 100, stdio: 200, ..Limits::default() };
        let account = accounts.of(7, false, &limits);
        (accounts, account)
    }

    #[test]
    fn queued_answers_count_over_all_connections_of_a_user() {
        let (mut accounts, account) = account();
        let other = accounts.of(7, false, &Limits::default());
        let first = account.answer(60).expect("room");
        let reason = other.answer(41).expect_err("no room");
        assert_eq!(reason, "its user has left answers of 100 bytes unread: the limit is reached (limits.answers)");
        drop(first);
        drop(other.answer(100).expect("room"));
        accounts.configure(&Limits { answers: 10, ..Limits::default() });
        assert!(other.answer(11).is_err());
        drop((account, other));
        let fresh = accounts.of(7, true, &Limits { answers: 10, ..Limits::default() });
        assert!(fresh.answer(100).is_ok(), "operators have ten times as much");
    }

    #[test]
    fn a_connection_that_has_nothing_queued_always_has_room_for_output() {
        let (_accounts, account) = account();
        let held = account.output(100, true).expect("room");
        assert!(account.output(1, true).is_none());
        let more = account.output(90, false).expect("nothing is queued");
        drop(held);
        assert!(account.output(10, true).is_some() && account.output(11, true).is_none());
        drop(more);
    }

    #[tokio::test]
    async fn input_above_the_limit_waits_until_the_last_copy_of_its_bytes_is_gone() {
        let (_accounts, account) = account();
        let bytes = account.input(Bytes::from(vec![1; 100]));
        let copy = bytes.slice(10..20);
        let mut room = std::pin::pin!(account.input_room());
        assert!(futures_now(room.as_mut()).await.is_none());
        drop(bytes);
        assert!(futures_now(room.as_mut()).await.is_none(), "a copy is left");
        assert_eq!(copy.as_ref(), [1; 10]);
        drop(copy);
        room.await;
    }

    #[tokio::test]
    async fn frames_of_a_user_share_their_room_and_a_slow_one_is_given_up_only_if_others_wait() {
        let mut accounts = Accounts::default();
        let account = accounts.of(7, false, &Limits { reading: 1 << 20, ..Limits::default() });
        let slow = account.room(1_000_000).await.expect("room");
        assert!(futures_now(std::pin::pin!(account.room(50_000))).await.is_none(), "977 KiB of 1024 are held");
        assert!(accounts.of(8, false, &Limits::default()).room(1 << 20).await.is_some(), "another user");
        let patience = Duration::from_millis(20);
        let crowded = account.crowded(Duration::ZERO);
        assert!(tokio::time::timeout(2 * patience, crowded).await.is_err(), "nobody waits");
        let begun = tokio::time::Instant::now();
        tokio::select! {
            _ = account.room(50_000) => panic!("there is no room"),
            () = account.crowded(patience) => assert!(begun.elapsed() >= patience),
        }
        accounts.configure(&Limits { reading: 2 << 20, ..Limits::default() });
        drop(account.room(1 << 20).await.expect("more room"));
        accounts.configure(&Limits { reading: 1 << 20, ..Limits::default() });
        drop(slow);
        tokio::task::yield_now().await;
        assert_eq!(account.reading.available_permits(), 1024);
    }

    /// Returns the output of a future that is ready at once.
    async fn futures_now<F: Future + Unpin>(future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            found = future => Some(found),
            () = std::future::ready(()) => None,
        }
    }
}
