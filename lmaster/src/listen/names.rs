//! The names of the users that call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use limo_proto::user_name;

/// Time for which the name of a user is cached. A user with a new name connects again soon.
const KNOWN: Duration = Duration::from_secs(60);

/// The names of users that called before. A remote directory may give a name slowly.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<HashMap<u32, (Instant, String)>>>);

impl Names {
    pub(super) async fn of(&self, uid: u32) -> Result<String> {
        if let Some((_, name)) = self.lock().get(&uid).filter(|(since, _)| since.elapsed() < KNOWN) {
            return Ok(name.clone());
        }
        let name = tokio::task::spawn_blocking(move || user_name(uid)).await?;
        self.lock().insert(uid, (Instant::now(), name.clone()));
        Ok(name)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, (Instant, String)>> {
        // Every change leaves the map consistent, even if a holder of the lock panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
