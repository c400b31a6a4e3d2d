//! The names of the users that call, and their membership in the group of operators.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use limo_proto::user_name;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// Time for which a user is cached. A user with a new name connects again soon.
const KNOWN: Duration = Duration::from_secs(60);

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownUser {
    pub(super) name: String,
    /// True if the user is in the group of operators.
    pub(super) is_admin: bool,
}

impl KnownUser {
    /// Looks up a user. A name service that fails gives nobody the rights of the group.
    fn look_up(uid: u32, admin_group: &str) -> Self {
        let group = Group::from_name(admin_group).ok().flatten();
        let is_admin = group.is_some_and(|group| is_member(uid, group.gid));
        Self { name: user_name(uid), is_admin }
    }
}

fn is_member(uid: u32, group: Gid) -> bool {
    let Some(user) = User::from_uid(Uid::from_raw(uid)).ok().flatten() else { return false };
    let Ok(name) = CString::new(user.name) else { return false };
    getgrouplist(&name, user.gid).is_ok_and(|groups| groups.contains(&group))
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
        assert_eq!(look_up(&own), KnownUser { name: "daemon".to_owned(), is_admin: true });
        assert!(!look_up("limo-no-such-group").is_admin);
        assert!(!KnownUser::look_up(4_000_000_000, &own).is_admin, "no user has this number");
    }
}
