//! Answers of the master that all callers share for a while, so that its cost does not grow with the number of callers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

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
    ///
    /// # Errors
    /// If there is no answer. The next caller asks again.
    pub async fn get<E>(&self, ask: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut newest = self.newest.lock().await;
        if let Some((asked, answer)) = &*newest
            && asked.elapsed() < self.life
        {
            return Ok(Arc::clone(answer));
        }
        let now = Instant::now();
        let answer = Arc::new(ask().await?);
        *newest = Some((now, Arc::clone(&answer)));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_share_an_answer_until_it_is_old() {
        let (cached, asked) = (Cached::new(Duration::from_secs(1)), AtomicUsize::new(0));
        let ask = async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<_, ()>(asked.fetch_add(1, Ordering::Relaxed))
        };
        let (first, second) = tokio::join!(cached.get(ask), cached.get(ask));
        assert_eq!((first, second), (Ok(Arc::new(0)), Ok(Arc::new(0))));
        tokio::time::sleep(Duration::from_millis(899)).await;
        assert_eq!(cached.get(ask).await, Ok(Arc::new(0)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(cached.get(ask).await, Ok(Arc::new(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_not_kept() {
        let cached = Cached::new(Duration::from_secs(1));
        assert_eq!(cached.get(async || Err("stopping")).await, Err("stopping"));
        assert_eq!(cached.get(async || Ok::<_, &str>(7)).await, Ok(Arc::new(7)));
    }
}
