//! The certificate of this end and the authorities that it trusts, from a directory. A caller reads them for each
//! connection, and a listener when they have changed, so that a renewed certificate is used at once.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use limo_files::{Outlasts, Stamp, replace};
use limo_identity::{
    Certificate, CertificateError, PemError, Roots, SettingsError, caller, certificate_pem, certificates,
    join_listener, listener, private_key,
};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

use crate::tls::ListenerConfig;

/// File with the certificates of one authority, or of two during a rotation.
pub const AUTHORITIES_FILE: &str = "ca.pem";

/// File with the private key and the certificate of this end. Only its owner may read it.
pub const IDENTITY_FILE: &str = "identity.pem";

/// Longest file that is read, in bytes.
const FILE_LIMIT: u64 = 256 * 1024;

/// Bits of a mode by which other users can read or change a file.
const OTHERS: u32 = 0o077;

/// The credentials of this end.
pub struct Credentials {
    authorities: Vec<CertificateDer<'static>>,
    roots: Roots,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    own: Certificate,
}

/// Error of a directory with credentials.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CredentialsError {
    #[error("this user has no home: name the directory of the certificate with LIMO_TLS_DIR")]
    NoHome,
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is longer than {FILE_LIMIT} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("other users can read the private key in {}: run `chmod 600` on it", .0.display())]
    Readable(PathBuf),
    #[error("{} cannot be used: {source}", path.display())]
    Pem { path: PathBuf, source: PemError },
    #[error("{} has {found} certificates: it must have one", path.display())]
    Count { path: PathBuf, found: usize },
    #[error("{} cannot be used: {source}", path.display())]
    Certificate { path: PathBuf, source: CertificateError },
    #[error("the certificates in {} cannot be used: {source}", path.display())]
    Settings { path: PathBuf, source: SettingsError },
}

impl Credentials {
    /// Reads the credentials in a directory.
    ///
    /// # Errors
    /// If a file is missing or not valid, or other users can read the key.
    pub fn read(directory: &Path) -> Result<Self, CredentialsError> {
        let path = directory.join(AUTHORITIES_FILE);
        let authorities = read(&path, 0)?;
        let authorities =
            certificates(&authorities).map_err(|source| CredentialsError::Pem { path: path.clone(), source })?;
        let roots = Roots::new(&authorities).map_err(|source| CredentialsError::Settings { path, source })?;
        let path = directory.join(IDENTITY_FILE);
        let text = read(&path, OTHERS)?;
        let pem = |source| CredentialsError::Pem { path: path.clone(), source };
        let (key, mut found) = (private_key(&text).map_err(pem)?, certificates(&text).map_err(pem)?);
        let (Some(certificate), true) = (found.pop(), found.is_empty()) else {
            // One was taken if there are any.
            let found = if found.is_empty() { 0 } else { found.len() + 1 };
            return Err(CredentialsError::Count { path, found });
        };
        let own = Certificate::read(&certificate).map_err(|source| CredentialsError::Certificate { path, source })?;
        Ok(Self { authorities, roots, certificate, key, own })
    }

    /// Returns what the own certificate says.
    pub fn own(&self) -> &Certificate {
        &self.own
    }

    /// Returns the certificates of the authorities that this end trusts, one or two.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// Returns the settings of a listener.
    fn listener(self) -> Result<ListenerConfig, SettingsError> {
        let members = listener(&self.roots, (self.certificate.clone(), self.key.clone_key()))?;
        let chain = std::iter::once(self.certificate).chain(self.authorities).collect();
        Ok(ListenerConfig { members: Arc::new(members), joiners: Arc::new(join_listener(chain, self.key)?) })
    }

    pub(crate) fn caller(self) -> Result<Arc<ClientConfig>, SettingsError> {
        caller(&self.roots, (self.certificate, self.key)).map(Arc::new)
    }
}

/// The settings of a listener by the credentials in a directory.
#[derive(Debug)]
pub struct Listening {
    directory: PathBuf,
    /// The last settings, and the files that they were made of.
    made: Mutex<Option<([Stamp; 2], ListenerConfig)>>,
}

impl Listening {
    /// Reads nothing yet.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, made: Mutex::default() }
    }

    /// Returns the settings by the present files: those of the last call, if the files are the same.
    ///
    /// # Errors
    /// As [`Credentials::read`], or if the key does not belong to the certificate.
    pub fn settings(&self) -> Result<ListenerConfig, CredentialsError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken before the files are read: a change after that is seen by the next call.
        let stamps = [self.stamp(AUTHORITIES_FILE)?, self.stamp(IDENTITY_FILE)?];
        if let Some((_, settings)) = made.as_ref().filter(|(last, _)| *last == stamps) {
            return Ok(settings.clone());
        }
        let settings = Credentials::read(&self.directory)?.listener();
        let settings =
            settings.map_err(|source| CredentialsError::Settings { path: self.directory.clone(), source })?;
        *made = Some((stamps, settings.clone()));
        Ok(settings)
    }

    fn stamp(&self, file: &str) -> Result<Stamp, CredentialsError> {
        let path = self.directory.join(file);
        Stamp::of(&path).map_err(|source| CredentialsError::Read { path, source })
    }
}

/// Replaces the certificates of the authorities in a directory.
///
/// # Errors
/// If the file cannot be written.
pub fn write_authorities(directory: &Path, authorities: &[CertificateDer<'_>]) -> io::Result<()> {
    let text: String = authorities.iter().map(certificate_pem).collect();
    replace(&directory.join(AUTHORITIES_FILE), 0o644, Outlasts::Crash, |file| file.write_all(text.as_bytes()))
}

/// Replaces the private key and the certificate in a directory. Only their owner can read them.
///
/// # Errors
/// If the file cannot be written.
pub fn write_identity(directory: &Path, key_pem: &str, certificate: &CertificateDer<'_>) -> io::Result<()> {
    let text = format!("{key_pem}{}", certificate_pem(certificate));
    replace(&directory.join(IDENTITY_FILE), 0o600, Outlasts::Crash, |file| file.write_all(text.as_bytes()))
}

/// Reads a file that has none of the bits `closed` in its mode.
fn read(path: &Path, closed: u32) -> Result<Vec<u8>, CredentialsError> {
    let failed = |source| CredentialsError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & closed != 0 {
        return Err(CredentialsError::Readable(path.to_owned()));
    }
    let mut text = Vec::new();
    file.take(FILE_LIMIT + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_LIMIT {
        return Err(CredentialsError::TooLong(path.to_owned()));
    }
    Ok(text)
}
