//! `dummy`: discards any job (limo-2018, Listing 3.3). A session with it measures the transport.

use super::{Application, ApplicationError, no_options};

struct Dummy;

impl Application for Dummy {
    fn process(&mut self, _input: &mut [u8]) -> Result<(), ApplicationError> {
        Ok(())
    }

    fn fini(self: Box<Self>) -> Result<(), ApplicationError> {
        Ok(())
    }
}

/// Prepares a session.
pub fn init(session: &str) -> Result<Box<dyn Application>, ApplicationError> {
    no_options(session)?;
    Ok(Box::new(Dummy))
}
