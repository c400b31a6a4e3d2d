//! Requests for certificates and tokens to a master.

use limo_proto::{EnrolAnswer, EnrolError, EnrolRequest, enrol};

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
