//! The page of the master, as its clients find it.

use serde::{Deserialize, Serialize};

/// Asks for the address of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebQuery {
    /// True to get a code by which a browser of the same user may change something.
    pub act: bool,
}

/// The answer to a [`WebQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WebReport {
    /// Address and port on the machine of the master; `None` if it serves no page.
    pub address: Option<String>,
    /// A code that can be used once, if it was asked for and a page is served.
    pub code: Option<String>,
}
