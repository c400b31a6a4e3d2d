//! The directory of a cluster's authority: its key, the certificates that it has issued, and those that are revoked.
//!
//! `lmaster` reads the same directory: `ca.pem`, `identity.pem` and `revoked`. The key `ca.key` is used by `lconf` only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use limo_client::Failure;
use limo_files::Outlasts;
use limo_identity::{
    Authority, Certificate, CertifiedRole, Identity, KeyRequest, Life, Serial, certificate_pem, certificates,
};
use limo_model::ClusterId;
use limo_proto::{AUTHORITIES_FILE, IDENTITY_FILE, default_state_dir};

const KEY_FILE: &str = "ca.key";
const ISSUED_FILE: &str = "issued";
const REVOKED_FILE: &str = "revoked";

/// Options that name the directory.
#[derive(Debug, clap::Args)]
pub struct AuthorityArg {
    /// Directory of the authority [default: tls in the state directory of lmaster]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// An issued certificate, as the list of the authority records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    pub serial: Serial,
    pub identity: Identity,
    /// The end in seconds since 1970.
    pub until: u64,
}

impl AuthorityArg {
    /// Returns the directory.
    ///
    /// # Errors
    /// If it is not given and the user has no home.
    pub fn directory(&self) -> Result<Directory, Failure> {
        let default = || default_state_dir("lmaster").map(|state| state.join("tls"));
        let path = self.dir.clone().or_else(default);
        let path = path.ok_or_else(|| Failure::new("this user has no home").hint("name the directory with --dir"))?;
        Ok(Directory(path))
    }
}

/// The directory of an authority.
#[derive(Debug)]
pub struct Directory(PathBuf);

/// Returns a function that names the file of an error.
fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(format_args!("cannot use {}: {error}", path.display()))
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::new(error)
}

/// Replaces a file.
fn write(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    limo_files::replace(path, mode, Outlasts::Crash, |file| file.write_all(text.as_bytes())).map_err(failed(path))
}

/// Adds a line to a file, and waits until it is on the disk.
fn append(path: &Path, mode: u32, line: &str) -> Result<(), Failure> {
    let open = || OpenOptions::new().append(true).create(true).mode(mode).open(path);
    let add = |mut file: File| file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_all());
    open().and_then(add).map_err(failed(path))
}

fn lines(path: &Path) -> Result<Vec<String>, Failure> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        text => Ok(text.map_err(failed(path))?.lines().map(str::to_owned).collect()),
    }
}

impl Directory {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a new authority.
    ///
    /// # Errors
    /// If the directory has one already, or cannot be written.
    pub fn init(&self) -> Result<Authority, Failure> {
        let path = self.0.join(KEY_FILE);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.0).map_err(failed(&self.0))?;
        let mut cluster = [0; 16];
        getrandom::fill(&mut cluster).map_err(wrong)?;
        let authority = Authority::new(ClusterId(cluster), SystemTime::now()).map_err(wrong)?;
        // Two calls at the same time must not replace each other's key.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::new(format_args!("{} exists: the cluster has an authority", path.display()))
                    .hint("issue certificates with `lconf cert issue`")
            }
            _ => failed(&path)(error),
        })?;
        let text = format!("{}{}", authority.key_pem(), certificate_pem(authority.certificate()));
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(&path))?;
        write(&self.0.join(AUTHORITIES_FILE), 0o644, &certificate_pem(authority.certificate()))?;
        Ok(authority)
    }

    /// Opens the authority.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn open(&self) -> Result<(Authority, ClusterId), Failure> {
        let path = self.0.join(KEY_FILE);
        let text = fs::read_to_string(&path).map_err(|error| {
            failed(&path)(error).hint("make an authority with `lconf cluster init`, or name its directory with --dir")
        })?;
        let found = certificates(text.as_bytes()).map_err(wrong)?;
        let [root] = &found[..] else {
            return Err(Failure::new(format_args!("{} must have one certificate", path.display())));
        };
        // The cluster is in each certificate that was issued; the first is that of the master.
        let own = fs::read(self.0.join(IDENTITY_FILE)).map_err(failed(&self.0.join(IDENTITY_FILE)))?;
        let own = certificates(&own).map_err(wrong)?;
        let own = own.first().ok_or_else(|| Failure::new("the certificate of the master is missing"))?;
        let cluster = Certificate::read(own).map_err(wrong)?.identity.cluster();
        Ok((Authority::load(cluster, &text, root.clone()).map_err(wrong)?, cluster))
    }

    /// Issues a certificate with a new key, and writes both with the authorities into `out`.
    ///
    /// # Errors
    /// If the name is not valid or a file cannot be written.
    pub fn issue(
        &self,
        authority: &Authority,
        (role, name): (CertifiedRole, &str),
        life: Option<Duration>,
        out: &Path,
    ) -> Result<Issued, Failure> {
        let identity = Identity::new(authority.cluster(), role, name).map_err(wrong)?;
        let request = KeyRequest::new().map_err(wrong)?;
        let life = life.map_or(Life::of(role), |life| Life::at_most(role, life));
        let signed = authority.sign(request.request(), &identity, life, SystemTime::now()).map_err(wrong)?;
        let (serial, certificate) = signed;
        let until = Certificate::read(&certificate).map_err(wrong)?.until;
        let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        // The list is written first: a certificate that is not listed could not be revoked by its name.
        append(&self.0.join(ISSUED_FILE), 0o600, &format!("{serial} {until} {identity}"))?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(out).map_err(failed(out))?;
        if out != self.0 {
            let path = self.0.join(AUTHORITIES_FILE);
            let authorities = fs::read_to_string(&path).map_err(failed(&path))?;
            write(&out.join(AUTHORITIES_FILE), 0o644, &authorities)?;
        }
        let text = format!("{}{}", request.key_pem(), certificate_pem(&certificate));
        write(&out.join(IDENTITY_FILE), 0o600, &text)?;
        Ok(Issued { serial, identity, until })
    }

    /// Returns the issued certificates, oldest first, each with true if it is revoked.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn issued(&self) -> Result<Vec<(Issued, bool)>, Failure> {
        let revoked = lines(&self.0.join(REVOKED_FILE))?;
        let path = self.0.join(ISSUED_FILE);
        let parsed = lines(&path)?.into_iter().map(|line| {
            let issued = parse(&line).ok_or_else(|| {
                Failure::new(format_args!("{} has a line that is not a certificate: {line}", path.display()))
            })?;
            let is_revoked = revoked.contains(&issued.serial.to_string());
            Ok((issued, is_revoked))
        });
        parsed.collect()
    }

    /// Revokes a certificate.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn revoke(&self, serial: Serial) -> Result<(), Failure> {
        append(&self.0.join(REVOKED_FILE), 0o644, &serial.to_string())
    }
}

/// Reads a line of the list.
fn parse(line: &str) -> Option<Issued> {
    let mut words = line.split(' ');
    let serial = words.next()?.parse().ok()?;
    let until = words.next()?.parse().ok()?;
    let identity = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Issued { serial, identity, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_issues_and_revokes() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory(dir.path().join("tls"));
        let authority = directory.init().expect("made");
        directory.issue(&authority, (CertifiedRole::Master, "m1"), None, directory.path()).expect("issued");
        let (again, _) = directory.open().expect("opened");
        let node = dir.path().join("n1");
        let issued = directory.issue(&again, (CertifiedRole::Node, "n1"), None, &node).expect("issued");
        let credentials = limo_proto::Credentials::read(&node).expect("usable");
        assert_eq!(credentials.own().serial, issued.serial);
        assert_eq!(credentials.own().identity.cluster(), authority.cluster());
        directory.revoke(issued.serial).expect("revoked");
        let listed: Vec<(String, bool)> = directory
            .issued()
            .expect("listed")
            .into_iter()
            .map(|(issued, revoked)| (issued.identity.name().to_owned(), revoked))
            .collect();
        assert_eq!(listed, [("m1".to_owned(), false), ("n1".to_owned(), true)]);
        let error = directory.init().map(drop).expect_err("there is one");
        assert!(error.message.contains("exists: the cluster has an authority"), "{error:?}");
    }

    #[test]
    fn keys_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory(dir.path().join("tls"));
        let authority = directory.init().expect("made");
        directory.issue(&authority, (CertifiedRole::Master, "m1"), None, directory.path()).expect("issued");
        let mode = |name: &str| fs::metadata(directory.path().join(name)).expect("a file").permissions().mode() & 0o777;
        assert_eq!([mode(""), mode(KEY_FILE), mode(IDENTITY_FILE), mode(ISSUED_FILE)], [0o700, 0o600, 0o600, 0o600]);
        let path = directory.path().join(IDENTITY_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let error = limo_proto::Credentials::read(directory.path()).map(drop).expect_err("readable").to_string();
        assert!(error.contains("other users can read the private key"), "{error}");
    }
}
