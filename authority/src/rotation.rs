//! Rotation of the authority. While it lasts, the cluster trusts both authorities: the new one signs the certificates of
//! callers, and the former one that of the master, which callers without the new authority still check.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use limo_identity::{Authority, CertifiedRole, Fingerprint, certificate_pem};
use limo_proto::write_authorities;

use crate::directory::{Directory, KEY_FILE, Wish, failed, seconds, write};
use crate::error::DirectoryError;
use crate::issued::Issued;
use crate::tokens::TOKENS_FILE;

/// The key of the former authority, during a rotation.
const FORMER_FILE: &str = "former.key";

/// Most owners in the error about those that are left behind.
const NAMED: usize = 10;

impl Directory {
    /// Returns true during a rotation.
    pub fn is_rotating(&self) -> bool {
        self.file(FORMER_FILE).exists()
    }

    /// Opens the authority that signs the certificate of the master: during a rotation the former one.
    ///
    /// # Errors
    /// The same as for [`Directory::open`].
    pub fn open_for_master(&self) -> Result<Authority, DirectoryError> {
        self.load(if self.is_rotating() { FORMER_FILE } else { KEY_FILE })
    }

    /// Begins a rotation: makes a new authority, which is trusted beside the present one. After a crash in the middle, it
    /// can be called again.
    ///
    /// # Errors
    /// If a rotation has begun, the directory has no authority, or a file cannot be written.
    pub fn rotate(&self, now: SystemTime) -> Result<Authority, DirectoryError> {
        let _lock = self.lock()?;
        let present = self.open()?;
        if self.is_rotating() && self.open_for_master()?.certificate() != present.certificate() {
            return Err(DirectoryError::Rotating);
        }
        let new = Authority::new(present.cluster(), now)?;
        let text =
            |authority: &Authority| format!("{}{}", authority.key_pem(), certificate_pem(authority.certificate()));
        write(&self.file(FORMER_FILE), 0o600, &text(&present))?;
        // Both are trusted before the new one signs.
        let both = [new.certificate().clone(), present.certificate().clone()];
        write_authorities(self.path(), &both).map_err(failed(self.path()))?;
        write(&self.file(KEY_FILE), 0o600, &text(&new))?;
        Ok(new)
    }

    /// Ends a rotation: the master gets a certificate of the new authority, and trust in the former one ends. Tokens
    /// that name the former one are removed.
    ///
    /// # Errors
    /// If no rotation has begun, or a file cannot be written. Without `is_forced` also if an owner has a valid certificate of
    /// the former authority and none of the new one.
    pub fn finish_rotation(
        &self,
        master: &str,
        life: Option<Duration>,
        is_forced: bool,
        now: SystemTime,
    ) -> Result<(), DirectoryError> {
        if !self.is_rotating() {
            return Err(DirectoryError::NotRotating);
        }
        let new = self.open()?;
        let left = self.left_behind(&new, now)?;
        if !is_forced && !left.is_empty() {
            return Err(DirectoryError::LeftBehind(left));
        }
        let wish = Wish { role: CertifiedRole::Master, name: master, life };
        self.issue(&new, wish, self.path(), now)?;
        write_authorities(self.path(), &[new.certificate().clone()]).map_err(failed(self.path()))?;
        for name in [TOKENS_FILE, FORMER_FILE] {
            let path = self.file(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns owners whose only valid certificates are of another authority than this one, but not masters. At most ten.
    fn left_behind(&self, authority: &Authority, now: SystemTime) -> Result<Vec<String>, DirectoryError> {
        let own = Fingerprint::of(authority.certificate())?.short();
        let valid: Vec<Issued> = self
            .issued()?
            .into_iter()
            .filter(|(issued, is_revoked)| issued.is_valid(seconds(now)) && !is_revoked)
            .map(|(issued, _)| issued)
            .collect();
        let has_new =
            |of: &Issued| valid.iter().any(|issued| issued.identity == of.identity && issued.authority == own);
        let is_left = |issued: &&Issued| issued.identity.role() != CertifiedRole::Master && !has_new(issued);
        let mut left: Vec<String> = Vec::new();
        for issued in valid.iter().filter(is_left) {
            let owner = format!("{}/{}", issued.identity.role(), issued.identity.name());
            if left.len() < NAMED && !left.contains(&owner) {
                left.push(owner);
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use limo_identity::{Certificate, KeyRequest};
    use limo_proto::Credentials;

    use super::*;

    #[test]
    fn both_authorities_are_trusted_until_all_owners_have_certificates_of_the_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().join("tls"));
        let (now, first) = (SystemTime::now(), directory.init(None, SystemTime::now()).expect("made"));
        let wish = |role, name| Wish { role, name, life: None };
        let master = wish(CertifiedRole::Master, "m1");
        directory.issue(&first, master, directory.path(), now).expect("issued");
        let request = KeyRequest::new().expect("a key");
        let node = |authority: &Authority, name| {
            directory.sign(authority, request.request(), wish(CertifiedRole::Node, name), now).expect("signed").0
        };
        let (_, revoked) = (node(&first, "n1"), node(&first, "n2"));
        directory.revoke(&[revoked.serial]).expect("revoked");
        let error = directory.finish_rotation("m1", None, false, now).expect_err("there is none").to_string();
        assert_eq!(error, "no rotation has begun");
        let second = directory.rotate(now).expect("begun");
        assert!(matches!(directory.rotate(now).map(drop), Err(DirectoryError::Rotating)));
        let shown = |authorities: &[&Authority]| -> Vec<_> {
            authorities.iter().map(|authority| authority.certificate().clone()).collect()
        };
        assert_eq!(directory.authorities().expect("readable"), shown(&[&second, &first]));
        assert_eq!(directory.open().expect("opened").certificate(), second.certificate());
        assert_eq!(directory.open_for_master().expect("opened").certificate(), first.certificate());
        let error = directory.finish_rotation("m1", None, false, now).expect_err("n1 is left behind").to_string();
        assert_eq!(error, "these have no certificate of the new authority: node/n1");
        node(&directory.open().expect("opened"), "n1");
        directory.finish_rotation("m1", None, false, now).expect("finished");
        assert_eq!(directory.authorities().expect("readable"), shown(&[&second]));
        assert!(!directory.is_rotating());
        let own: Certificate = Credentials::read(directory.path()).expect("usable").own().clone();
        assert_eq!((own.identity.role(), own.identity.name()), (CertifiedRole::Master, "m1"));
        // The next rotation begins like the first.
        directory.rotate(now).expect("begun");
        directory.finish_rotation("m1", None, true, now).expect("forced");
    }

    #[test]
    fn a_rotation_that_crashed_in_the_middle_is_begun_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().join("tls"));
        let (now, first) = (SystemTime::now(), directory.init(None, SystemTime::now()).expect("made"));
        let master = Wish { role: CertifiedRole::Master, name: "m1", life: None };
        directory.issue(&first, master, directory.path(), now).expect("issued");
        // The crash was before the new key was stored.
        fs::copy(directory.file(KEY_FILE), directory.file(FORMER_FILE)).expect("copied");
        let second = directory.rotate(now).expect("begun again");
        assert_eq!(directory.open().expect("opened").certificate(), second.certificate());
        assert_eq!(directory.open_for_master().expect("opened").certificate(), first.certificate());
    }
}
