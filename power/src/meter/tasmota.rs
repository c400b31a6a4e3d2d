//! Plug with the firmware Tasmota: the power of `Status 8`, a number, or one for each channel. User and password are in
//! the query, as that firmware requires, and are never shown. Never switches.

use std::fmt::Write;
use std::time::Duration;

use limo_model::Power;
use serde_json::Value;

use super::error::MeterError;
use super::json::{Answer, JsonError};
use super::{Meter, Reading, plausible};
use crate::access::Access;
use crate::http::{Http, Scheme};

const POWER: &str = "/StatusSNS/ENERGY/Power";

const HINT: &str = "this device does not measure, or wants a user and a password, in the file of `--meter-access`";

/// Draw through a plug, or one channel of it.
#[derive(Debug)]
pub struct Tasmota {
    http: Http,
    /// Address with the password.
    url: String,
    shown: String,
    channel: Option<u32>,
}

impl Tasmota {
    /// Makes a meter. `device` is an address such as `http://plug7`; `channel` counts from 1, as in the firmware.
    pub fn new(device: &str, channel: Option<u32>, access: &Access) -> Self {
        let shown = format!("{device}/cm");
        let login = access.login.as_ref();
        let login = login.map(|login| format!("user={}&password={}&", encoded(&login.user), encoded(&login.password)));
        let url = format!("{shown}?{}cmnd=Status%208", login.unwrap_or_default());
        Self { http: Http::new(access, Scheme::None), url, shown, channel }
    }
}

/// Returns the draw in the answer `value` of `shown`.
pub(crate) fn draw(shown: &str, value: &Value, channel: Option<u32>) -> Result<Power, JsonError> {
    let answer = Answer { url: shown, value, hint: HINT };
    let found = answer.at(POWER)?;
    let url = shown.to_owned();
    match (found.as_array(), channel) {
        (None, None | Some(1)) => answer.number(POWER, found),
        (None, Some(channel)) => Err(JsonError::NoChannel { url, channel, channels: 1 }),
        (Some(all), None) if all.len() != 1 => {
            let example = format!("tasmota:{}#1", url.trim_end_matches("/cm"));
            Err(JsonError::Channels { url, channels: all.len(), example })
        }
        (Some(all), channel) => {
            let channel = channel.unwrap_or(1);
            let index = usize::try_from(channel).unwrap_or(usize::MAX).wrapping_sub(1);
            let missing = || JsonError::NoChannel { url, channel, channels: all.len() };
            answer.number(POWER, all.get(index).ok_or_else(missing)?)
        }
    }
}

impl Meter for Tasmota {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let value = self.http.get(&self.url)?;
        plausible(draw(&self.shown, &value, self.channel)?, || self.shown.clone())
    }
}

/// Encodes text for a query: everything but letters, digits and `-._~` as `%XX` (RFC 3986, section 2.3).
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}
