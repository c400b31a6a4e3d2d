//! Looks up users and groups of jobs. A name service may block without a limit, so this runs beside the loop.

use std::ffi::CString;

use limo_node::Account;
use limo_shepherd::Identity;
use nix::unistd::{Uid, User, getgrouplist};
use thiserror::Error;

/// Errors of the lookup of a user.
#[derive(Debug, Error)]
pub enum LookUpError {
    #[error("the user id {uid} is unknown on this node")]
    Unknown { uid: u32 },
    #[error("cannot look up user id {uid}: {source}")]
    Failed { uid: u32, source: nix::Error },
    #[error("the name of user id {uid} has a NUL byte")]
    Nul { uid: u32 },
}

/// Returns the user with its groups. Blocks for as long as the name service takes.
///
/// # Errors
/// [`LookUpError`].
pub fn look_up(uid: u32) -> Result<Account, LookUpError> {
    let failed = |source| LookUpError::Failed { uid, source };
    let user = User::from_uid(Uid::from_raw(uid)).map_err(failed)?.ok_or(LookUpError::Unknown { uid })?;
    let name = CString::new(user.name.as_str()).map_err(|_| LookUpError::Nul { uid })?;
    let groups = getgrouplist(&name, user.gid).map_err(failed)?.into_iter().map(|group| group.as_raw());
    let identity = Identity { uid, gid: user.gid.as_raw(), groups: groups.collect() };
    Ok(Account { name: user.name, identity })
}
