//! The directory: `ca.key`, `ca.pem`, `identity.pem` of the master, `issued`, `revoked` and `tokens`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use limo_files::Outlasts;
use limo_identity::{
    Authority, AuthorityError, Certificate, CertifiedRole, Fingerprint, Identity, KeyRequest, Life, Serial,
    certificate_pem, certificates,
};
use limo_model::ClusterId;
use limo_proto::{AUTHORITIES_FILE, IDENTITY_FILE, write_authorities, write_identity};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};

use crate::error::DirectoryError;
use crate::issued::{Issued, LONG, VALID_LIMIT};

pub(crate) const KEY_FILE: &str = "ca.key";
const ISSUED_FILE: &str = "issued";

/// File with one revoked serial per line.
pub const REVOKED_FILE: &str = "revoked";

/// The owner and the life of a certificate to be issued.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// Role of the owner.
    pub role: CertifiedRole,
    /// Name of the owner.
    pub name: &'a str,
    /// Life, if it is shorter than that of the role.
    pub life: Option<Duration>,
}

/// The directory of an authority.
#[derive(Debug, Clone)]
pub struct Directory(PathBuf);

/// Returns a function that names the file of an error.
pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> DirectoryError {
    move |source| DirectoryError::File { path: path.to_owned(), source }
}

/// Replaces a file.
pub(crate) fn write(path: &Path, mode: u32, text: &str) -> Result<(), DirectoryError> {
    limo_files::replace(path, mode, Outlasts::Crash, |file| file.write_all(text.as_bytes())).map_err(failed(path))
}

/// Adds lines to a file, and waits until they are on the disk.
fn append(path: &Path, mode: u32, lines: &str) -> Result<(), DirectoryError> {
    let open = || OpenOptions::new().append(true).create(true).mode(mode).open(path);
    open().and_then(|mut file| file.write_all(lines.as_bytes()).and_then(|()| file.sync_all())).map_err(failed(path))
}

/// Returns the lines of a file; none if it does not exist.
pub(crate) fn lines(path: &Path) -> Result<Vec<String>, DirectoryError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        text => Ok(text.map_err(failed(path))?.lines().map(str::to_owned).collect()),
    }
}

/// Returns whole seconds since 1970.
pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Directory {
    /// Names a directory, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Keeps other processes from changing the directory until the result is dropped.
    pub(crate) fn lock(&self) -> Result<File, DirectoryError> {
        let directory = File::open(&self.0).map_err(failed(&self.0))?;
        directory.lock().map_err(failed(&self.0))?;
        Ok(directory)
    }

    /// Makes a new authority, of this cluster or of a new one.
    ///
    /// # Errors
    /// If the directory has one already, or cannot be written.
    pub fn init(&self, cluster: Option<ClusterId>, now: SystemTime) -> Result<Authority, DirectoryError> {
        let path = self.file(KEY_FILE);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.0).map_err(failed(&self.0))?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(AuthorityError::Random)?;
        let authority = Authority::new(cluster.unwrap_or(ClusterId(random)), now)?;
        // Two calls at the same time must not replace each other's key.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => DirectoryError::Exists(path.clone()),
            _ => failed(&path)(error),
        })?;
        let text = format!("{}{}", authority.key_pem(), certificate_pem(authority.certificate()));
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(&path))?;
        write_authorities(&self.0, &[authority.certificate().clone()]).map_err(failed(&self.0))?;
        Ok(authority)
    }

    /// Returns true if the key of the authority is here.
    pub fn has_authority(&self) -> bool {
        self.file(KEY_FILE).exists()
    }

    /// Opens the authority.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn open(&self) -> Result<Authority, DirectoryError> {
        self.load(KEY_FILE)
    }

    pub(crate) fn load(&self, name: &str) -> Result<Authority, DirectoryError> {
        let path = self.file(name);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DirectoryError::NoAuthority(self.0.clone()),
            _ => failed(&path)(error),
        })?;
        let root = one_certificate(&path, text.as_bytes())?;
        // The cluster is in each certificate that was issued; the first is that of the master.
        let path = self.file(IDENTITY_FILE);
        let own = one_certificate(&path, &fs::read(&path).map_err(failed(&path))?)?;
        let cluster = Certificate::read(&own)?.identity.cluster();
        Ok(Authority::load(cluster, &text, root)?)
    }

    /// Returns the certificates of the authorities that the cluster trusts.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, DirectoryError> {
        let path = self.file(AUTHORITIES_FILE);
        let text = fs::read(&path).map_err(failed(&path))?;
        certificates(&text).map_err(|source| DirectoryError::Pem { path, source })
    }

    /// Signs the key of a request, and lists the certificate.
    ///
    /// # Errors
    /// If the name or the request is not valid, the owner has too many valid certificates, or a file cannot be written.
    pub fn sign(
        &self,
        authority: &Authority,
        request: &CertificateSigningRequestDer<'_>,
        wish: Wish<'_>,
        now: SystemTime,
    ) -> Result<(Issued, CertificateDer<'static>), DirectoryError> {
        let Wish { role, name, life } = wish;
        let identity = Identity::new(authority.cluster(), role, name)?;
        let _lock = self.lock()?;
        let path = self.file(ISSUED_FILE);
        let all = self.listed()?;
        let is_same = |issued: &&Issued| issued.identity == identity && issued.is_valid(seconds(now));
        if all.iter().filter(is_same).count() >= VALID_LIMIT {
            return Err(DirectoryError::TooMany { role, name: name.to_owned() });
        }
        let life = life.map_or(Life::of(role), |life| Life::at_most(role, life));
        let (serial, certificate) = authority.sign(request, &identity, life, now)?;
        let (until, authority) =
            (Certificate::read(&certificate)?.until, Fingerprint::of(authority.certificate())?.short());
        let issued = Issued { serial, identity, until: seconds(until), authority };
        // The list is written before the certificate is used: one that is not listed could not be revoked by its name.
        if all.len() < LONG {
            append(&path, 0o600, &issued.line())?;
        } else {
            let kept = all.iter().filter(|issued| !issued.is_history(seconds(now))).chain([&issued]);
            write(&path, 0o600, &kept.map(Issued::line).collect::<String>())?;
        }
        Ok((issued, certificate))
    }

    /// Issues a certificate with a new key, and writes both with the authorities into `out`.
    ///
    /// # Errors
    /// The same as for [`Directory::sign`].
    pub fn issue(
        &self,
        authority: &Authority,
        wish: Wish<'_>,
        out: &Path,
        now: SystemTime,
    ) -> Result<Issued, DirectoryError> {
        let request = KeyRequest::new()?;
        let (issued, certificate) = self.sign(authority, request.request(), wish, now)?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(out).map_err(failed(out))?;
        if out != self.0 {
            write_authorities(out, &self.authorities()?).map_err(failed(out))?;
        }
        write_identity(out, &request.key_pem(), &certificate).map_err(failed(out))?;
        Ok(issued)
    }

    pub(crate) fn listed(&self) -> Result<Vec<Issued>, DirectoryError> {
        let path = self.file(ISSUED_FILE);
        let parsed = |line: String| {
            Issued::parse(&line).ok_or_else(|| DirectoryError::Line { path: path.clone(), line: line.clone() })
        };
        lines(&path)?.into_iter().map(parsed).collect()
    }

    /// Returns the issued certificates, oldest first, each with true if it is revoked.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn issued(&self) -> Result<Vec<(Issued, bool)>, DirectoryError> {
        let revoked = lines(&self.file(REVOKED_FILE))?;
        let with_state = |issued: Issued| {
            let is_revoked = revoked.contains(&issued.serial.to_string());
            (issued, is_revoked)
        };
        Ok(self.listed()?.into_iter().map(with_state).collect())
    }

    /// Revokes certificates.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn revoke(&self, serials: &[Serial]) -> Result<(), DirectoryError> {
        let lines: String = serials.iter().map(|serial| format!("{serial}\n")).collect();
        append(&self.file(REVOKED_FILE), 0o644, &lines)
    }
}

/// Returns the only certificate in a text.
fn one_certificate(path: &Path, text: &[u8]) -> Result<CertificateDer<'static>, DirectoryError> {
    let pem = |source| DirectoryError::Pem { path: path.to_owned(), source };
    match <[CertificateDer<'static>; 1]>::try_from(certificates(text).map_err(pem)?) {
        Ok([certificate]) => Ok(certificate),
        Err(found) => Err(DirectoryError::Count { path: path.to_owned(), found: found.len() }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use limo_proto::{Credentials, Listening};

    use super::*;

    pub(crate) fn made() -> (tempfile::TempDir, Directory, Authority) {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().join("tls"));
        let authority = directory.init(None, SystemTime::now()).expect("made");
        let wish = Wish { role: CertifiedRole::Master, name: "m1", life: None };
        directory.issue(&authority, wish, directory.path(), SystemTime::now()).expect("issued");
        (dir, directory, authority)
    }

    fn node(name: &str) -> Wish<'_> {
        Wish { role: CertifiedRole::Node, name, life: None }
    }

    #[test]
    fn an_authority_issues_and_revokes() {
        let (dir, directory, authority) = made();
        let again = directory.open().expect("opened");
        let out = dir.path().join("n1");
        let issued = directory.issue(&again, node("n1"), &out, SystemTime::now()).expect("issued");
        let credentials = Credentials::read(&out).expect("usable");
        assert_eq!(credentials.own().serial, issued.serial);
        assert_eq!(credentials.own().identity.cluster(), authority.cluster());
        directory.revoke(&[issued.serial]).expect("revoked");
        let listed: Vec<(String, bool)> = directory
            .issued()
            .expect("listed")
            .into_iter()
            .map(|(issued, revoked)| (issued.identity.name().to_owned(), revoked))
            .collect();
        assert_eq!(listed, [("m1".to_owned(), false), ("n1".to_owned(), true)]);
        let error = directory.init(None, SystemTime::now()).map(drop).expect_err("there is one");
        assert!(error.to_string().contains("exists: the cluster has an authority"), "{error}");
    }

    #[test]
    fn keys_are_for_their_owner_only() {
        let (_dir, directory, _) = made();
        let mode = |name: &str| fs::metadata(directory.path().join(name)).expect("a file").permissions().mode() & 0o777;
        assert_eq!([mode(""), mode(KEY_FILE), mode(IDENTITY_FILE), mode(ISSUED_FILE)], [0o700, 0o600, 0o600, 0o600]);
        let path = directory.path().join(IDENTITY_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let error = Credentials::read(directory.path()).map(drop).expect_err("readable").to_string();
        assert!(error.contains("other users can read the private key"), "{error}");
    }

    #[test]
    fn a_listener_sees_each_change_of_its_files() {
        let (_dir, directory, _) = made();
        let listening = Listening::new(directory.path().to_owned());
        let settings = || listening.settings().map(drop).map_err(|error| error.to_string());
        assert_eq!([settings(), settings()], [Ok(()), Ok(())]);
        let path = directory.path().join(IDENTITY_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let readable = settings().expect_err("refused");
        assert!(readable.contains("other users can read the private key"), "{readable}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        assert_eq!(settings(), Ok(()));
        write_authorities(directory.path(), &[]).expect("written");
        assert_ne!(settings(), Ok(()), "the file names no authority");
    }

    #[test]
    fn an_identity_has_at_most_64_valid_certificates() {
        let (_dir, directory, authority) = made();
        let request = KeyRequest::new().expect("a key");
        let now = SystemTime::now();
        let sign = |name, at| directory.sign(&authority, request.request(), node(name), at).map(|(issued, _)| issued);
        // These ended a day ago.
        let past = now - Duration::from_secs(31 * 86_400);
        sign("n1", past).expect("signed");
        for _ in 0..64 {
            sign("n1", now).expect("signed");
        }
        let error = sign("n1", now).expect_err("too many").to_string();
        assert_eq!(error, "node/n1 has 64 valid certificates, which is the limit");
        sign("n2", now).expect("another identity");
    }

    #[test]
    fn a_long_list_forgets_certificates_that_ended_long_ago() {
        let (_dir, directory, authority) = made();
        let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
        let serial = Serial([7; 16]);
        let identity = Identity::new(authority.cluster(), CertifiedRole::User, "ada").expect("a name");
        let ended = |days: u32| {
            let until = seconds(now - day * days);
            Issued { serial, identity: identity.clone(), until, authority: String::new() }
        };
        let lines = ended(91).line().repeat(LONG - 2) + &ended(89).line();
        append(&directory.file(ISSUED_FILE), 0o600, &lines).expect("written");
        let request = KeyRequest::new().expect("a key");
        directory.sign(&authority, request.request(), node("n1"), now).expect("signed");
        let names: Vec<String> =
            directory.listed().expect("listed").iter().map(|issued| issued.identity.name().to_owned()).collect();
        assert_eq!(names, ["m1", "ada", "n1"]);
    }
}
