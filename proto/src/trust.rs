//! The users whom a caller trusts as masters: root, its own user, the service user that an operator has configured,
//! and, for the machine's own socket, the owner of the socket's directory.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Uid, User};
use thiserror::Error;

use crate::owner::{OVERFLOW_UID, user_name};
use crate::places::SYSTEM_SOCKET;

/// Users that a caller accepts as owners of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trusted {
    own: u32,
    service: Option<u32>,
    machine: Option<u32>,
}

/// Reason why a user cannot be the service user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ServiceUserError {
    #[error("the master user `{0}` is not known on this machine: write a user's name or number")]
    Unknown(String),
    #[error(
        "the master user `{0}` is the overflow user {OVERFLOW_UID}, which stands for every unknown user: choose another"
    )]
    Overflow(String),
}

impl Trusted {
    /// Trusts root and the user of this process.
    pub fn own() -> Self {
        Self { own: nix::unistd::geteuid().as_raw(), service: None, machine: None }
    }

    /// Also trusts `user`, given by name or number, if any.
    ///
    /// # Errors
    /// If the user does not exist or stands for unknown users.
    pub fn with_service_user(user: Option<&str>) -> Result<Self, ServiceUserError> {
        let Some(user) = user else { return Ok(Self::own()) };
        let uid = match (user.parse::<u32>(), User::from_name(user)) {
            (Ok(uid), _) => uid,
            (Err(_), Ok(Some(found))) => found.uid.as_raw(),
            _ => return Err(ServiceUserError::Unknown(user.to_owned())),
        };
        if uid == OVERFLOW_UID {
            return Err(ServiceUserError::Overflow(user.to_owned()));
        }
        Ok(Self { service: Some(uid), ..Self::own() })
    }

    /// Also trusts the owner of `/run/limo` if `socket` is the socket of the machine's master: only root can make that
    /// directory or give it to a user, so root chose who runs the master.
    pub(crate) fn at_socket(self, socket: &Path) -> Self {
        if socket != Path::new(SYSTEM_SOCKET) {
            return self;
        }
        let directory = socket.parent().and_then(|directory| fs::symlink_metadata(directory).ok());
        Self { machine: directory.filter(|directory| directory.is_dir()).map(|directory| directory.uid()), ..self }
    }

    /// Returns true if a socket or directory of this user may be a master's.
    pub fn accepts(&self, uid: u32) -> bool {
        uid != OVERFLOW_UID && (uid == 0 || uid == self.own || [self.service, self.machine].contains(&Some(uid)))
    }
}

impl fmt::Display for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut users = vec![0];
        users.extend([self.own].into_iter().chain(self.service).chain(self.machine).filter(|uid| *uid != 0));
        users.dedup();
        for (index, uid) in users.iter().enumerate() {
            let before = match index {
                0 => "",
                _ if index + 1 == users.len() => " or ",
                _ => ", ",
            };
            write!(f, "{before}{}", described(*uid))?;
        }
        Ok(())
    }
}

/// Formats a user for a message: name and number, or only the number.
pub(crate) fn described(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(_)) => format!("{} (uid {uid})", user_name(uid)),
        _ => format!("uid {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_the_own_user_and_the_service_user_are_accepted() {
        let trusted = Trusted { own: 4001, service: Some(4002), machine: None };
        let accepted: Vec<u32> =
            [0, 1, 4001, 4002, 4003, OVERFLOW_UID].into_iter().filter(|uid| trusted.accepts(*uid)).collect();
        assert_eq!(accepted, [0, 4001, 4002]);
        assert_eq!(trusted.to_string(), "root (uid 0), uid 4001 or uid 4002");
        assert_eq!(Trusted { own: 0, service: None, machine: None }.to_string(), "root (uid 0)");
    }

    #[test]
    fn the_overflow_user_is_never_accepted() {
        let error = Trusted::with_service_user(Some("65534")).expect_err("nobody in particular");
        assert_eq!(error, ServiceUserError::Overflow("65534".into()));
        assert!(!Trusted { own: OVERFLOW_UID, service: None, machine: None }.accepts(OVERFLOW_UID));
        let error = Trusted::with_service_user(Some("no such user")).expect_err("unknown");
        assert_eq!(error, ServiceUserError::Unknown("no such user".into()));
    }
}
