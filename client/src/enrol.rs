//! Requests for certificates and tokens to a master.

use limo_identity::JoinToken;
use limo_proto::{Endpoint, EnrolAnswer, EnrolError, EnrolRequest, KeyBytes, NewCertificate, enrol, join};

use crate::location::Master;
use crate::master::AskError;

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
