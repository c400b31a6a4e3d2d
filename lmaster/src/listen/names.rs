//! The names of the users that call, and their groups.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use limo_proto::user_name;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// Time for which a user is cached. A user with a new name connects again soon.
const KNOWN: Duration = Duration::from_secs(60);

/// Most groups of a user that count; the first is its own.
const GROUPS_LIMIT: usize = 1_024;

/// A user of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KnownUser {
    pub(super) name: String,
    /// True if the user is in the group of operators.
    pub(super) is_admin: bool,
    /// The names of its groups.
    pub(super) groups: Arc<BTreeSet<String>>,
}

impl KnownUser {
    /// Looks up a user. A name service that fails gives nobody the rights of a group.
    fn look_up(uid: u32, admin_group: &str) -> Self {
        let groups = groups(uid);
        let admins = Group::from_name(admin_group).ok().flatten();
        let is_admin = admins.is_some_and(|admins| groups.contains(&admins.gid));
        let named = groups.into_iter().take(GROUPS_LIMIT).filter_map(|group| Group::from_gid(group).ok().flatten());
        Self { name: user_name(uid), is_admin, groups: Arc::new(named.map(|group| group.name).collect()) }
    }
}

/// Returns a user's groups.
fn groups(uid: u32) -> Vec<Gid> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let found = user.and_then(|user| getgrouplist(&CString::new(user.name).ok()?, user.gid).ok());
    found.unwrap_or_default()
}

/// The users that called before. A remote directory may answer slowly.
#[derive(Debug, Clone)]
pub(super) struct Names {
    admin_group: String,
    known: Arc<Mutex<HashMap<u32, (Instant, KnownUser)>>>,
}

impl Names {
    pub(super) fn new(admin_group: String) -> Self {
        Self { admin_group, known: Arc::default() }
    }

    pub(super) async fn of(&self, uid: u32) -> Result<KnownUser> {
        if let Some((_, user)) = self.lock().get(&uid).filter(|(since, _)| since.elapsed() < KNOWN) {
            return Ok(user.clone());
        }
        let group = self.admin_group.clone();
        let user = tokio::task::spawn_blocking(move || KnownUser::look_up(uid, &group)).await?;
        self.lock().insert(uid, (Instant::now(), user.clone()));
        Ok(user)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, (Instant, KnownUser)>> {
        // Every change leaves the map consistent, even if a holder of the lock panicked.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_group_are_operators() {
        // Each user is a member of its own first group.
        let user = User::from_name("daemon").expect("readable").expect("a user of every Linux");
        let own = Group::from_gid(user.gid).expect("readable").expect("it has a name").name;
        let look_up = |group: &str| KnownUser::look_up(user.uid.as_raw(), group);
        let found = look_up(&own);
        assert!(found.is_admin && found.name == "daemon" && found.groups.contains(&own), "{found:?}");
        assert!(!look_up("limo-no-such-group").is_admin);
        let unknown = KnownUser::look_up(4_000_000_000, &own);
        assert!(!unknown.is_admin && unknown.groups.is_empty(), "no user has this number");
    }
}
