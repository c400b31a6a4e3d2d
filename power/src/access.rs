//! User, password and certificates for a device, from a TOML file. Only its owner may read the file; `argv` would be
//! visible to every user of the machine.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqwest::Certificate;
use serde::Deserialize;
use thiserror::Error;

/// Most bytes of the file, and of the certificate of an authority.
const LONGEST: u64 = 1 << 20;

/// Reason why a file with passwords was refused. No message contains its contents.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum AccessError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} may be read by others (mode {mode:03o}): do `chmod 600 {}`", path.display(), path.display())]
    Open { path: PathBuf, mode: u32 },
    /// `line` counts from 1.
    #[error("{}:{line}: {mistake}", path.display())]
    Syntax { path: PathBuf, line: usize, mistake: String },
    #[error("{} has a `{present}` but no `{missing}`: write both or none", path.display())]
    Half { path: PathBuf, present: &'static str, missing: &'static str },
    #[error("{} has both `ca` and `insecure = true`: remove one of them", path.display())]
    Both { path: PathBuf },
    #[error("{} has no certificate: it must contain `-----BEGIN CERTIFICATE-----`", path.display())]
    NoCertificate { path: PathBuf },
}

/// Credentials for a device, and certificates that it must match. By default no credentials, and a certificate that
/// this machine trusts.
#[derive(Clone, Default)]
pub struct Access {
    pub(crate) login: Option<Login>,
    /// Authorities for the device's certificate; if empty, those that this machine trusts.
    pub(crate) authorities: Vec<Certificate>,
    /// True if any certificate is accepted, and a password may be sent in the clear.
    pub(crate) insecure: bool,
}

#[derive(Clone)]
pub(crate) struct Login {
    pub user: String,
    pub password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    user: Option<String>,
    password: Option<String>,
    ca: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
}

impl Access {
    /// Reads the file and its certificates; their paths are relative to it.
    ///
    /// # Errors
    /// [`AccessError`], naming the file and the line.
    pub fn read(path: &Path) -> Result<Self, AccessError> {
        let file = std::fs::File::open(path).map_err(|source| unreadable(path, source))?;
        // The mode is that of the open file, so that the file cannot be exchanged after the check.
        let mode = file.metadata().map_err(|source| unreadable(path, source))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(AccessError::Open { path: path.to_owned(), mode });
        }
        let text = contents(path, file)?;
        let file: AccessFile = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count();
            AccessError::Syntax { path: path.to_owned(), line, mistake: error.message().to_owned() }
        })?;
        let half = |present, missing| Err(AccessError::Half { path: path.to_owned(), present, missing });
        let login = match (file.user, file.password) {
            (Some(user), Some(password)) => Some(Login { user, password }),
            (Some(_), None) => return half("user", "password"),
            (None, Some(_)) => return half("password", "user"),
            (None, None) => None,
        };
        let authorities = match file.ca {
            Some(_) if file.insecure => return Err(AccessError::Both { path: path.to_owned() }),
            Some(ca) => certificates(&path.parent().unwrap_or(Path::new("")).join(ca))?,
            None => Vec::new(),
        };
        Ok(Self { login, authorities, insecure: file.insecure })
    }
}

/// Omits the password: debug output may end in a log.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.as_ref().map(|login| &login.user);
        f.debug_struct("Access").field("user", &user).field("insecure", &self.insecure).finish_non_exhaustive()
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, AccessError> {
    let file = std::fs::File::open(path).map_err(|source| unreadable(path, source))?;
    let text = contents(path, file)?;
    let found = Certificate::from_pem_bundle(text.as_bytes()).unwrap_or_default();
    if found.is_empty() { Err(AccessError::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

fn contents(path: &Path, file: std::fs::File) -> Result<String, AccessError> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(|source| unreadable(path, source))?;
    Ok(text)
}

fn unreadable(path: &Path, source: io::Error) -> AccessError {
    AccessError::Read { path: path.to_owned(), source }
}
