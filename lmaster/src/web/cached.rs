//! Answers of the master that all callers share for a while, so that its cost does not grow with the number of callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// The newest answer, with the time at which it was asked for.
pub struct Cached<T> {
    life: Duration,
    newest: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Cached<T> {
    /// Answers are shared for this time.
    pub fn new(life: Duration) -> Self {
        Self { life, newest: Mutex::new(None) }
    }

    /// Returns the newest answer, or asks for one. Only one caller asks at a time; the others wait for the answer.
    /// `now` is the time at which the caller came.
    ///
    /// # Errors
    /// That of `ask`, which is not kept: the next caller asks again.
    pub async fn get<E>(&self, now: Instant, ask: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut newest = self.newest.lock().await;
        if let Some((asked, answer)) = &*newest
            && now.saturating_duration_since(*asked) < self.life
        {
            return Ok(Arc::clone(answer));
        }
        let answer = Arc::new(ask().await?);
        *newest = Some((now, Arc::clone(&answer)));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn callers_share_an_answer_until_it_is_old() {
        let (cached, asked) = (Cached::new(Duration::from_secs(1)), AtomicUsize::new(0));
        let ask = async || {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, ()>(number)
        };
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let (first, second) = tokio::join!(cached.get(at(1), ask), cached.get(at(0), ask));
        assert_eq!((first, second), (Ok(Arc::new(0)), Ok(Arc::new(0))), "the second waits for the answer to the first");
        assert_eq!(cached.get(at(1_000), ask).await, Ok(Arc::new(0)));
        assert_eq!(cached.get(at(1_001), ask).await, Ok(Arc::new(1)));
    }

    #[tokio::test]
    async fn an_error_is_not_kept() {
        let (cached, now) = (Cached::new(Duration::from_secs(1)), Instant::now());
        assert_eq!(cached.get(now, async || Err("stopping")).await, Err("stopping"));
        assert_eq!(cached.get(now, async || Ok::<_, &str>(7)).await, Ok(Arc::new(7)));
    }
}
