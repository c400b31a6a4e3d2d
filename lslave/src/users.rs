//! Users and groups of jobs. A name service may take for ever, so every look-up runs beside the loop and has a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::time::Duration;

use limo_shepherd::Identity;
use nix::unistd::{Uid, User, geteuid, getgrouplist};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::launch::LaunchError;
use crate::node::Input;

/// How long a look-up counts: a user that is put into another group has it after this time.
const FRESH: Duration = Duration::from_secs(60);

/// How long a job waits for a look-up, in seconds.
pub const PATIENCE_S: u64 = 10;

/// Look-ups at a time, those that nobody waits for any more included.
const MOST: usize = 32;

/// Users that are kept.
const KEPT: usize = 1024;

/// The users that jobs ran as lately.
#[derive(Debug, Default)]
pub struct Users {
    known: BTreeMap<u32, (Instant, Identity)>,
    asked: BTreeSet<u32>,
}

/// What is known of a user.
pub enum Found {
    /// `None` if the daemon is that user.
    Known(Option<Identity>),
    /// [`Input::UserFound`] follows.
    Asked,
}

impl Users {
    /// The identity for a job of user `uid`.
    ///
    /// # Errors
    /// If this daemon cannot become that user, or too many look-ups are open.
    pub fn find(&mut self, uid: u32, inputs: &mpsc::WeakSender<Input>) -> Result<Found, LaunchError> {
        let own = geteuid();
        if !own.is_root() {
            let is_own = own.as_raw() == uid;
            return if is_own {
                Ok(Found::Known(None))
            } else {
                Err(LaunchError::OtherUser { own: own.as_raw(), uid })
            };
        }
        let now = Instant::now();
        if let Some((at, identity)) = self.known.get(&uid)
            && now.duration_since(*at) < FRESH
        {
            return Ok(Found::Known(Some(identity.clone())));
        }
        if self.asked.contains(&uid) {
            return Ok(Found::Asked);
        }
        if self.asked.len() >= MOST {
            return Err(LaunchError::LookUpLate { uid, limit_s: PATIENCE_S });
        }
        let Some(inputs) = inputs.upgrade() else { return Ok(Found::Asked) };
        self.asked.insert(uid);
        tokio::task::spawn_blocking(move || {
            let result = look_up(uid);
            // A loop that is gone has ended with the daemon.
            let _ = inputs.blocking_send(Input::UserFound { uid, result });
        });
        Ok(Found::Asked)
    }

    /// A look-up has ended.
    pub fn found(&mut self, uid: u32, result: &Result<Identity, LaunchError>) {
        self.asked.remove(&uid);
        let Ok(identity) = result else { return };
        if self.known.len() >= KEPT {
            let now = Instant::now();
            self.known.retain(|_, (at, _)| now.duration_since(*at) < FRESH);
        }
        if self.known.len() < KEPT {
            self.known.insert(uid, (Instant::now(), identity.clone()));
        }
    }
}

/// Blocks for as long as the name service takes.
fn look_up(uid: u32) -> Result<Identity, LaunchError> {
    let failed = |source| LaunchError::LookUp { uid, source };
    let user = User::from_uid(Uid::from_raw(uid)).map_err(failed)?.ok_or(LaunchError::UnknownUser { uid })?;
    let name = CString::new(user.name).map_err(|_| LaunchError::Nul)?;
    let groups = getgrouplist(&name, user.gid).map_err(failed)?;
    Ok(Identity { uid, gid: user.gid.as_raw(), groups: groups.into_iter().map(|group| group.as_raw()).collect() })
}
