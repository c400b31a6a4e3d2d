//! Requests for certificates and tokens to a master.

use std::path::{Path, PathBuf};

use limo_identity::{Certificate, JoinToken, KeyRequest};
use limo_proto::{
    Endpoint, EnrolAnswer, EnrolError, EnrolRequest, KeyBytes, NewCertificate, enrol, join, make_directory,
    tls_directory,
};

use crate::failure::Failure;
use crate::location::Master;
use crate::master::AskError;

/// A new key, and the directory for it and its certificate.
pub struct NewKey {
    directory: PathBuf,
    request: KeyRequest,
}

impl NewKey {
    /// Makes the key, and the directory: `out`, or the one of this user's certificate.
    ///
    /// # Errors
    /// If the user has no home, or the directory cannot be made or is not safe.
    pub fn prepare(out: Option<PathBuf>) -> Result<Self, Failure> {
        let homeless = || Failure::new("this user has no home").hint("name a directory with --out");
        let directory = out.or_else(tls_directory).ok_or_else(homeless)?;
        let directory = std::path::absolute(&directory).map_err(Failure::new)?;
        make_directory(&directory, 0o700).map_err(Failure::new)?;
        Self::at(directory)
    }

    /// Makes the key for an existing directory.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn at(directory: PathBuf) -> Result<Self, Failure> {
        Ok(Self { directory, request: KeyRequest::new().map_err(Failure::new)? })
    }

    /// Returns the request to sign the key.
    ///
    /// # Errors
    /// If it is too long.
    pub fn bytes(&self) -> Result<KeyBytes, Failure> {
        KeyBytes::try_from(self.request.request().to_vec()).map_err(Failure::new)
    }

    /// Stores the key and its certificate.
    ///
    /// # Errors
    /// If a file cannot be written, or the certificate cannot be read.
    pub fn store(&self, issued: &NewCertificate) -> Result<Certificate, Failure> {
        let directory = self.directory.display();
        let failed = |error| Failure::new(format_args!("cannot store the certificate in {directory}: {error}"));
        issued.write(&self.directory, &self.request.key_pem()).map_err(failed)?;
        Certificate::read(&issued.certificate).map_err(Failure::new)
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Master {
    /// Requests a certificate or a token.
    ///
    /// # Errors
    /// [`AskError`]; `Refused` contains the master's reason.
    pub async fn enrol(&self, request: EnrolRequest) -> Result<EnrolAnswer, AskError> {
        let mut last = Err(AskError::Closed);
        for endpoint in self.endpoints().await? {
            last = enrol(&endpoint, &self.trusted(), request.clone()).await.map_err(AskError::from);
            if !last.as_ref().is_err_and(AskError::is_absence) {
                break;
            }
        }
        last
    }

    /// Joins the cluster of a token without a certificate.
    ///
    /// # Errors
    /// The same as for [`Master::enrol`]; [`AskError::NotOverTls`] if the address is not `tls://`.
    pub async fn join(
        &self,
        token: &JoinToken,
        owner: (&str, &str),
        key: KeyBytes,
    ) -> Result<NewCertificate, AskError> {
        match &self.endpoints().await?[..] {
            [Endpoint::Tls(hosts)] => Ok(join(hosts, token, owner, key).await?),
            _ => Err(AskError::NotOverTls { address: self.address() }),
        }
    }
}

impl From<EnrolError> for AskError {
    fn from(error: EnrolError) -> Self {
        match error {
            EnrolError::Connection(error) => Self::Connection(error),
            EnrolError::Silent | EnrolError::Closed => Self::Closed,
            EnrolError::Refused { reason, hint } => Self::Refused { reason, hint },
            EnrolError::Unexpected => Self::Unexpected(error.to_string()),
        }
    }
}
