//! Shelly plug, second generation or newer: `apower` of a switch, by its remote procedure calls over HTTP, with digest
//! authentication if it has a password. Never switches.

use std::time::Duration;

use super::error::MeterError;
use super::json::Answer;
use super::{Meter, Reading, plausible};
use crate::access::Access;
use crate::http::{Http, Scheme};

const HINT: &str = "this switch does not measure, or the device is older than the second generation";

/// Draw through a switch.
#[derive(Debug)]
pub struct Shelly {
    http: Http,
    url: String,
}

impl Shelly {
    /// Makes a meter. `device` is an address such as `http://plug7`; `switch` counts from 0.
    pub fn new(device: &str, switch: u32, access: &Access) -> Self {
        let url = format!("{device}/rpc/Switch.GetStatus?id={switch}");
        Self { http: Http::new(access, Scheme::Digest), url }
    }
}

impl Meter for Shelly {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let value = self.http.get(&self.url)?;
        let draw = Answer { url: &self.url, value: &value, hint: HINT }.watts("/apower")?;
        plausible(draw, || self.url.clone())
    }
}
